//! The report as one JSON object; docs/perf-json.md describes it.

use std::io::Write;
use std::path::Path;

use super::PerfError;

/// Writes it to a file, or to standard output for `-`.
pub(crate) fn write(report: &impl serde::Serialize, path: &Path) -> Result<(), PerfError> {
    let failed = |source| PerfError::File {
        path: path.to_owned(),
        source,
    };
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|error| failed(std::io::Error::from(error)))?;
    text.push('\n');
    if path.as_os_str() == "-" {
        std::io::stdout().write_all(text.as_bytes())
    } else {
        std::fs::write(path, text)
    }
    .map_err(failed)
}
