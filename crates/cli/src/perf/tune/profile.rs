//! The profile as a file; docs/profile.md describes it.

use std::io::Write;
use std::path::Path as FilePath;

use limic::policy::ByteSize;
use limic::settings::{MachineKey, PROFILE_VERSION};

use super::super::PerfError;
use super::super::machine::date;
use super::measure::Findings;

/// The text of a profile.
pub(super) fn text(all: &[Findings]) -> String {
    let mut text = format!(
        "# Measured by limic tune; loaded by every run on this machine. LIMIC_PROFILE=off ignores it.\n\n\
         [profile]\nversion = {PROFILE_VERSION}\nlimic = {}\ndate = {}\n\n\
         # What is not exactly like this is another machine, and does not use the profile.\n[machine]\n",
        quoted(env!("CARGO_PKG_VERSION")),
        quoted(&date(std::time::SystemTime::now())),
    );
    for (name, value) in MachineKey::this().fields() {
        text.push_str(&format!("{name} = {}\n", quoted(value)));
    }
    for findings in all {
        let [a, b] = [0, 1].map(|rank| findings.cpus.get(rank).copied().unwrap_or_default());
        text.push_str(&format!(
            "\n# {}: measured between CPUs {a} and {b}\n",
            findings.locality
        ));
        for row in &findings.rows {
            let fields = [
                ("locality", findings.locality.clone()),
                ("when", row.when.clone()),
                ("up_to", ByteSize(row.up_to_bytes).to_string()),
                ("path", row.path.clone()),
            ];
            text.push_str("[[rows]]\n");
            for (name, value) in fields {
                text.push_str(&format!("{name} = {}\n", quoted(&value)));
            }
            if row.chunk_bytes != 0 {
                let chunk = ByteSize(u64::from(row.chunk_bytes));
                text.push_str(&format!("chunk = {}\n", quoted(&chunk.to_string())));
            }
            text.push_str(&format!("reason = {}\n", quoted(&row.reason)));
        }
    }
    text
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Writes it in one step: a run that starts meanwhile sees the old one or the new one.
pub(super) fn write(path: &FilePath, text: &str) -> Result<(), PerfError> {
    let failed = |source| PerfError::File {
        path: path.to_owned(),
        source,
    };
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => FilePath::new("."),
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = directory.join(format!(".{name}.{}", std::process::id()));
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // Half a file is of no use; if it cannot be removed either, it is in nobody's way.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted("a \"b\" \\c\n"), "\"a \\\"b\\\" \\\\c\"");
    }
}
