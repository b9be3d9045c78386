//! Where numbers go: a table, one JSON object (docs/perf-json.md), and a picture.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::machine::Machine;
use crate::{MeasureError, VERSION};

/// Where the rows go.
#[derive(Debug, Clone, clap::Args)]
pub struct Outputs {
    /// Write all numbers as one JSON object; `-` is standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Draw the numbers, most of them over the message size
    #[arg(long, value_name = "FILE.svg", value_parser = crate::plot::parse_file)]
    pub plot: Option<PathBuf>,
}

impl Outputs {
    /// Fails before minutes of measuring rather than after them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn check(&self) -> Result<(), MeasureError> {
        check(self.json.iter().chain(&self.plot))
    }

    /// Shows numbers wherever they were asked for.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn show(
        &self,
        numbers: &impl serde::Serialize,
        table: impl FnOnce() -> String,
        draw: impl FnOnce(&Path) -> Result<(), MeasureError>,
    ) -> Result<(), MeasureError> {
        let json = self.json.as_ref();
        if json.is_none_or(|path| path.as_os_str() != "-") {
            // A reader that has gone away has seen enough.
            let _unread = std::io::stdout().lock().write_all(table().as_bytes());
        }
        if let Some(path) = json {
            write_json(numbers, path)?;
        }
        if let Some(path) = &self.plot {
            draw(path)?;
        }
        Ok(())
    }
}

/// What a table stands in: a line about the measurement and the machine before it, the notes after
/// it.
pub fn page(measurement: &str, machine: &Machine, table: &str, notes: &[String]) -> String {
    let mut text = format!(
        "limic {VERSION} {measurement}; {}\n{}\n",
        machine.line(),
        table.trim_end()
    );
    for note in notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

/// Fails before minutes of measuring rather than after them; `-`, standard output, is always fine.
/// A file that was not there is not there afterwards either.
///
/// # Errors
/// One cannot be written.
pub fn check<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), MeasureError> {
    for path in paths.into_iter().filter(|path| path.as_os_str() != "-") {
        try_to_write(path).map_err(|source| MeasureError::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

fn try_to_write(path: &Path) -> std::io::Result<()> {
    match File::options().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            File::options().append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Writes numbers as JSON to a file, or to standard output for `-`.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(numbers: &impl serde::Serialize, path: &Path) -> Result<(), MeasureError> {
    let failed = |source| MeasureError::File {
        path: path.to_owned(),
        source,
    };
    let mut text = serde_json::to_string_pretty(numbers)
        .map_err(|error| failed(std::io::Error::from(error)))?;
    text.push('\n');
    if path.as_os_str() == "-" {
        std::io::stdout().write_all(text.as_bytes())
    } else {
        std::fs::write(path, text)
    }
    .map_err(failed)
}
