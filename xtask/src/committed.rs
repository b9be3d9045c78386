//! Figures of hot paths beside the committed ones, for the checks `counts` and `stalls`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use limic_runner::folders::{root, target};
use limic_runner::{Failure, Job, console};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What one operation takes, by case.
pub(crate) type Figures = BTreeMap<String, f64>;

/// A kind of figures.
pub(crate) struct Kind {
    /// What is counted.
    pub(crate) unit: &'static str,
    /// The command of `cargo xtask`, and the name of the file and of the program.
    pub(crate) command: &'static str,
    /// More than this fraction above the committed figure is a regression.
    pub(crate) tolerance: f64,
}

impl Kind {
    /// Builds the program that measures, and gives its path.
    pub(crate) fn build(&self) -> Result<PathBuf, Failure> {
        let build = Job::cargo(&["build", "--release", "-p", "limic-benches"], 20);
        build.args(["--bin", self.command]).run()?;
        Ok(target().join("release").join(self.command))
    }

    fn path(&self) -> PathBuf {
        root().join(format!("benches/{}.json", self.command))
    }

    /// Whether there is a file to read.
    pub(crate) fn is_committed(&self) -> bool {
        self.path().is_file()
    }

    /// The command that commits to new figures.
    pub(crate) fn update(&self) -> String {
        format!("cargo xtask {} --update", self.command)
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let path = self.path();
        let text = std::fs::read_to_string(&path).map_err(|why| {
            let (path, update) = (path.display(), self.update());
            Failure::Missing(format!("{path}: {why}; write it: {update}"))
        })?;
        serde_json::from_str(&text)
            .map_err(|why| Failure::Wrong(format!("{}: {why}", path.display())))
    }

    pub(crate) fn write<T: Serialize>(&self, committed: &T) -> Result<(), Failure> {
        let path = self.path();
        let failed = |why: &dyn std::fmt::Display| {
            Failure::Wrong(format!("{} cannot be written: {why}", path.display()))
        };
        let text = serde_json::to_string_pretty(committed).map_err(|why| failed(&why))?;
        std::fs::write(&path, text + "\n").map_err(|why| failed(&why))
    }

    /// Old, new and ratio of each case.
    pub(crate) fn table(&self, old: Option<&Figures>, new: &Figures) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            format!("{} of", self.unit),
            "committed".to_owned(),
            "now".to_owned(),
            "ratio".to_owned(),
        ]);
        let missing = old
            .into_iter()
            .flat_map(Figures::keys)
            .filter(|case| !new.contains_key(*case));
        for case in new.keys().chain(missing) {
            let was = old.and_then(|old| old.get(case));
            let is = new.get(case);
            let number =
                |figure: Option<&f64>| figure.map_or("-".to_owned(), |n| format!("{n:.1}"));
            let ratio = was
                .zip(is)
                .map_or("-".to_owned(), |(was, is)| format!("{:.3}", is / was));
            table.add_row([case.clone(), number(was), number(is), ratio]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{}\n", table.trim_fmt())
    }

    /// Whether a figure is a regression.
    pub(crate) fn above(&self, was: f64, is: f64) -> bool {
        is > was * (1.0 + self.tolerance)
    }

    pub(crate) fn judge(&self, old: &Figures, new: &Figures) -> Result<(), Failure> {
        let unit = self.unit;
        let mut wrong = Vec::new();
        for (case, &was) in old {
            match new.get(case) {
                None => wrong.push(format!("'{case}' is not measured any more")),
                Some(&is) if self.above(was, is) => {
                    wrong.push(format!(
                        "'{case}' takes {is:.1} {unit} in place of {was:.1}"
                    ));
                }
                Some(&is) if is < was * (1.0 - self.tolerance) => console::detail(&format_args!(
                    "'{case}' takes {is:.1} {unit} in place of {was:.1}: keep that with `{}`",
                    self.update()
                )),
                Some(_) => {}
            }
        }
        for case in new.keys().filter(|case| !old.contains_key(*case)) {
            wrong.push(format!("'{case}' has no committed figure"));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::Wrong(format!(
            "{}; if that is meant: {}",
            wrong.join("; "),
            self.update()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Kind = Kind {
        unit: "instructions",
        command: "counts",
        tolerance: 0.03,
    };

    fn counts(of: &[(&str, f64)]) -> Figures {
        of.iter()
            .map(|(case, count)| ((*case).to_owned(), *count))
            .collect()
    }

    #[test]
    fn longer_missing_and_new_cases_are_wrong_and_shorter_ones_are_not() {
        let judge = |old, new| COUNTS.judge(old, &counts(new));
        let old = counts(&[("send", 100.0), ("receive", 80.0)]);
        assert!(COUNTS.judge(&old, &old).is_ok());
        assert!(judge(&old, &[("send", 102.9), ("receive", 10.0)]).is_ok());
        let longer = judge(&old, &[("send", 103.1), ("receive", 80.0)]);
        assert!(
            longer
                .unwrap_err()
                .to_string()
                .contains("'send' takes 103.1")
        );
        assert!(judge(&old, &[("send", 100.0)]).is_err());
        assert!(judge(&old, &[("send", 100.0), ("receive", 80.0), ("probe", 1.0)]).is_err());
    }

    #[test]
    fn the_table_has_all_cases_of_both() {
        let text = COUNTS.table(
            Some(&counts(&[("a", 2.0)])),
            &counts(&[("a", 3.0), ("b", 1.0)]),
        );
        assert!(text.contains("1.500") && text.contains('b'), "{text}");
    }
}
