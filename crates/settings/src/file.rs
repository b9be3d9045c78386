//! A TOML file as a source of settings: the configuration or a host's profile.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::Path as FilePath;

use limic_policy::{ByteSize, Locality, Path, ReceiverPace, Row, RowSource};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::SettingsError;
use crate::apply::Layer;
use crate::names;
use crate::profile;
use crate::table::Key;

/// A file that is being read.
struct File<'a> {
    path: &'a FilePath,
    text: &'a str,
    source: RowSource,
}

/// Reads the file at `path`, which `named_by` names.
pub(crate) fn read(
    path: &FilePath,
    named_by: &'static str,
    source: RowSource,
) -> Result<Layer, SettingsError> {
    let text = std::fs::read_to_string(path).map_err(|error| SettingsError::Unreadable {
        file: path.to_owned(),
        named_by,
        reason: error.to_string(),
    })?;
    File {
        path,
        text: &text,
        source,
    }
    .parse()
}

const ROW_KEYS: [&str; 5] = ["locality", "when", "up_to", "path", "reason"];

impl File<'_> {
    fn parse(&self) -> Result<Layer, SettingsError> {
        let table = DeTable::parse(self.text).map_err(|error| SettingsError::Syntax {
            file: self.path.to_owned(),
            line: self.line(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let mut layer = Layer {
            place: self.path.display().to_string(),
            ..Layer::default()
        };
        if self.source == RowSource::Profile {
            let part = |wanted: &str| {
                let mut parts = table.get_ref().iter();
                let (_, value) = parts.find(|(name, _)| name.get_ref() == wanted)?;
                Some(texts(value.get_ref()))
            };
            profile::check(
                self.path,
                part("profile").as_deref(),
                part("machine").as_deref(),
            )?;
        }
        for (name, value) in table.get_ref() {
            if self.source == RowSource::Profile
                && matches!(name.get_ref().as_ref(), "profile" | "machine")
            {
                continue;
            }
            if name.get_ref() == "rows" {
                layer.rows = self.rows(value)?;
                continue;
            }
            let known = Key::ALL
                .into_iter()
                .find(|key| key.entry().toml == name.get_ref());
            let Some(key) = known else {
                let names = Key::ALL.map(|key| key.entry().toml);
                return Err(self.unknown(name, names.into_iter().chain(["rows"])));
            };
            let entry = key.entry();
            let text = scalar(value.get_ref()).filter(|text| (entry.accepts)(text));
            let text = text.ok_or_else(|| self.bad(name, value, entry.accepted))?;
            layer.values.push((key, text, self.source.clone()));
        }
        Ok(layer)
    }

    fn rows(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<Row>, SettingsError> {
        let not_rows = |at: &Spanned<DeValue<'_>>| SettingsError::Value {
            file: self.path.to_owned(),
            line: self.line(at.span().start),
            key: "rows".to_owned(),
            value: self.quote(at),
            accepted: "one [[rows]] table for each row".to_owned(),
        };
        let array = value.get_ref().as_array().ok_or_else(|| not_rows(value))?;
        array
            .iter()
            .map(|row| {
                let table = row.get_ref().as_table().ok_or_else(|| not_rows(row))?;
                self.row(table, row.span().start)
            })
            .collect()
    }

    fn row(&self, table: &DeTable<'_>, at: usize) -> Result<Row, SettingsError> {
        for (name, value) in table {
            if name.get_ref() == "fragment" {
                let instead = "pipeline_fragment before the first table, for all rows";
                return Err(self.bad(name, value, instead));
            }
            if !ROW_KEYS.contains(&name.get_ref().as_ref()) {
                return Err(self.unknown(name, ROW_KEYS));
            }
        }
        let get = |key: &str| table.iter().find(|(name, _)| name.get_ref() == key);
        let missing = |key| SettingsError::MissingKey {
            file: self.path.to_owned(),
            line: self.line(at),
            key,
        };
        let field = |key: &'static str| get(key).ok_or_else(|| missing(key));

        let (name, value) = field("locality")?;
        let locality: Locality = self.read(name, value)?;
        let when = get("when").map_or(Ok(ReceiverPace::Steady), |(name, value)| {
            self.read(name, value)
        })?;
        let (name, value) = field("up_to")?;
        let ByteSize(up_to_bytes) = self.read(name, value)?;
        let (name, value) = field("path")?;
        let path: Path = self.read(name, value)?;
        let out_of_place = match path {
            Path::SelfCopy if locality != Locality::Itself => {
                Some("self only for the locality self")
            }
            Path::SameProcess if locality > Locality::SameProcess => {
                Some("process only for the localities self and same-process")
            }
            Path::Loan => Some("any path but loan: loans are handed over wherever that is allowed"),
            _ => None,
        };
        if let Some(accepted) = out_of_place {
            return Err(self.bad(name, value, accepted));
        }
        let reason = match get("reason") {
            None => Cow::Borrowed("set without a reason"),
            Some((name, value)) => match value.get_ref().as_str() {
                // Printed as the last column of a table: one line.
                Some(text) => Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" ")),
                None => return Err(self.bad(name, value, "a text")),
            },
        };
        let source = self.source.clone();
        Ok(Row {
            locality,
            when,
            up_to_bytes,
            path,
            source,
            reason,
        })
    }

    /// A value of a row, read from its text.
    fn read<T>(
        &self,
        name: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, SettingsError>
    where
        T: std::str::FromStr<Err: Display>,
    {
        let Some(text) = scalar(value.get_ref()) else {
            return Err(self.bad(name, value, "a text or a whole number"));
        };
        text.parse().map_err(|error: T::Err| {
            let message = error.to_string();
            let accepted = message
                .split_once("accepted: ")
                .map_or(message.as_str(), |(_, a)| a);
            self.bad(name, value, accepted)
        })
    }

    fn bad(
        &self,
        name: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        accepted: &str,
    ) -> SettingsError {
        SettingsError::Value {
            file: self.path.to_owned(),
            line: self.line(value.span().start),
            key: name.get_ref().to_string(),
            value: self.quote(value),
            accepted: accepted.to_owned(),
        }
    }

    fn unknown(
        &self,
        name: &Spanned<Cow<'_, str>>,
        known: impl IntoIterator<Item = &'static str>,
    ) -> SettingsError {
        SettingsError::UnknownKey {
            file: self.path.to_owned(),
            line: self.line(name.span().start),
            key: name.get_ref().to_string(),
            nearest: names::nearest(name.get_ref(), known),
        }
    }

    /// A value as it stands in the file, cut to one line of 60 characters.
    fn quote(&self, value: &Spanned<DeValue<'_>>) -> String {
        let text = self.text.get(value.span()).unwrap_or("?");
        let line = text.lines().next().unwrap_or("");
        match line.char_indices().nth(60) {
            Some((cut, _)) => format!("{}...", &line[..cut]),
            None => line.to_owned(),
        }
    }

    /// The line, from 1, of a byte offset.
    fn line(&self, offset: usize) -> usize {
        self.text
            .bytes()
            .take(offset)
            .filter(|byte| *byte == b'\n')
            .count()
            + 1
    }
}

/// The names and values of a table of texts and numbers; what is neither stays out.
fn texts(value: &DeValue<'_>) -> Vec<(String, String)> {
    let table = value.as_table().into_iter().flatten();
    table
        .filter_map(|(name, value)| Some((name.get_ref().to_string(), scalar(value.get_ref())?)))
        .collect()
}

/// A value as the text that an environment variable would have; lists with commas.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
            .ok()
            .map(|n| n.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}
