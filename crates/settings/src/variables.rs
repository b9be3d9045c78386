//! Every variable with its present value, for `limic info`.

use limic_policy::{ByteSize, Locality, Path, ReceiverPace, Row, RowSource};

use crate::names::{CONFIG, PROFILE};
use crate::table::Key;
use crate::{Group, Settings};

/// One variable, for `limic info`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// Its name in a TOML file; empty for those that name the files.
    pub key: &'static str,
    /// What it has to do with.
    pub group: Group,
    /// What it does, with its unit.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepted: &'static str,
    /// Its present value.
    pub value: String,
    /// Where the value comes from.
    pub source: String,
}

impl Settings {
    /// Every variable with its meaning, its present value and where that comes from.
    #[must_use]
    pub fn variables(&self) -> Vec<Variable> {
        let files = [(&CONFIG, &self.config), (&PROFILE, &self.profile)];
        let files = files.into_iter().map(|(file, path)| Variable {
            name: file.variable,
            key: "",
            group: Group::Files,
            meaning: file.meaning,
            accepted: file.accepted,
            value: path
                .as_ref()
                .map_or_else(|| "none".to_owned(), |p| p.display().to_string()),
            source: match path {
                Some(_) => "environment or default place".to_owned(),
                None => RowSource::BuiltIn.to_string(),
            },
        });
        let keys = Key::ALL.into_iter().map(|key| {
            let entry = key.entry();
            Variable {
                name: entry.variable,
                key: entry.toml,
                group: entry.group,
                meaning: entry.meaning,
                accepted: entry.accepted,
                value: (entry.show)(self),
                source: self.sources[key as usize].to_string(),
            }
        });
        files.chain(keys).collect()
    }

    /// The length of the longest message that takes this path, for each locality.
    pub(crate) fn longest(&self, path: Path) -> String {
        self.each_locality(|run| {
            let rows = run.iter().filter(|row| row.path == path);
            let longest = rows.map(|row| row.up_to_bytes).max();
            longest.map(|bytes| ByteSize(bytes).to_string())
        })
    }

    /// One text if it is the same between all processes, else one for each locality.
    pub(crate) fn each_locality(&self, of: impl Fn(&[Row]) -> Option<String>) -> String {
        let texts = Locality::BETWEEN_PROCESSES.map(|locality| {
            of(self.policy.run(locality, ReceiverPace::Steady)).unwrap_or_else(|| "none".to_owned())
        });
        if texts.iter().all(|text| *text == texts[0]) {
            return texts[0].clone();
        }
        let named = texts
            .iter()
            .zip(Locality::BETWEEN_PROCESSES)
            .map(|(t, l)| format!("{t} {l}"));
        named.collect::<Vec<_>>().join(", ")
    }
}
