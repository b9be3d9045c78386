//! The profile as a file; docs/profile.md describes it.

use std::io::Write;
use std::path::{Path as FilePath, PathBuf};

use limic::settings::{ByteSize, CopyInstructions, MachineKey, PROFILE_VERSION, Settings};
use limic_measure::MeasureError;
use limic_measure::machine::date;
use limic_measure::outputs;
use limic_policy::{Locality, PIPELINE_FRAGMENT};

use super::measure::Findings;

/// What the length of the pipeline's fragments is called in the file.
const FRAGMENT: &str = "pipeline_fragment";

/// What stays of the profile that was there: one machine may show several localities at different
/// times, and each tuning measures those of its time.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// Settings beside the rows.
    settings: toml::Table,
    /// Rows of localities that were not measured now, in their order.
    rows: Vec<toml::Table>,
}

impl Kept {
    /// Of this file, if later runs would load it.
    pub(super) fn of(path: &FilePath, measured: &[Findings]) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) if verify(path).is_ok() => Self::of_text(&text, measured),
            _ => Self::default(),
        }
    }

    fn of_text(text: &str, measured: &[Findings]) -> Self {
        let Ok(mut settings) = text.parse::<toml::Table>() else {
            return Self::default();
        };
        let rows = settings.remove("rows");
        settings.retain(|name, _| name != "profile" && name != "machine");
        let rows = rows.and_then(|rows| rows.try_into().ok());
        let mut rows: Vec<toml::Table> = rows.unwrap_or_default();
        rows.retain(|row| {
            // As settings read it: letters of either size, and spaces around it.
            let locality = row.get("locality").and_then(toml::Value::as_str);
            let locality = locality.and_then(|name| name.parse().ok());
            let locality = locality.map(Locality::name);
            measured
                .iter()
                .all(|findings| Some(&*findings.locality) != locality)
        });
        Self { settings, rows }
    }

    /// Puts the instructions for long copies that were measured now in the place of older ones;
    /// none if one kind is as good as the other.
    pub(super) fn set_copy(&mut self, copy: CopyInstructions) {
        match copy {
            CopyInstructions::Auto => self.settings.remove("copy"),
            copy => self.settings.insert("copy".to_owned(), copy.name().into()),
        };
    }

    /// The pipeline's fragment, which is one for all localities: the built-in one if they differ.
    /// That of before stays while rows stay that were measured with it.
    pub(super) fn fragment(&self, all: &[Findings]) -> u32 {
        if !self.rows.is_empty() {
            let before = self.settings.get(FRAGMENT).map(|value| match value {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            let bytes = before.and_then(|text| text.parse().ok());
            return bytes.map_or(PIPELINE_FRAGMENT, |ByteSize(bytes)| bytes as u32);
        }
        let mut lengths = all.iter().map(|findings| findings.fragment_bytes);
        let best = lengths.next().unwrap_or(PIPELINE_FRAGMENT);
        if lengths.all(|other| other == best) {
            best
        } else {
            PIPELINE_FRAGMENT
        }
    }

    /// Puts that length in the place of an older one; none if it is the built-in one.
    pub(super) fn set_fragment(&mut self, fragment_bytes: u32) {
        if fragment_bytes == PIPELINE_FRAGMENT {
            self.settings.remove(FRAGMENT);
        } else {
            let bytes = ByteSize(fragment_bytes.into()).to_string();
            self.settings.insert(FRAGMENT.to_owned(), bytes.into());
        }
    }

    /// The localities whose rows stay.
    pub(super) fn localities(&self) -> Vec<&str> {
        let localities = self
            .rows
            .iter()
            .filter_map(|row| row.get("locality")?.as_str());
        let mut localities: Vec<&str> = localities.collect();
        localities.dedup();
        localities
    }
}

/// The text of a profile.
pub(super) fn text(all: &[Findings], kept: &Kept) -> String {
    let mut text = format!(
        "# Measured by limic tune; loaded by every run on this machine. LIMIC_PROFILE=off ignores it.\n\n\
         {}[profile]\nversion = {PROFILE_VERSION}\nlimic = {}\ndate = {}\n\n\
         # What is not exactly like this is another machine, and does not use the profile.\n[machine]\n",
        match kept.settings.to_string() {
            settings if settings.is_empty() => settings,
            settings => format!("{settings}\n"),
        },
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
            text.push_str(&format!("reason = {}\n", quoted(&row.reason)));
        }
    }
    let mut before = None;
    for row in &kept.rows {
        let locality = row.get("locality").and_then(toml::Value::as_str);
        if locality != before {
            before = locality;
            let locality = locality.unwrap_or_default();
            text.push_str(&format!("\n# {locality}: measured before, and kept\n"));
        }
        text.push_str(&format!("[[rows]]\n{row}"));
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

/// The folder of a profile.
fn folder(path: &FilePath) -> &FilePath {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => FilePath::new("."),
    }
}

/// Where a profile is written before it takes its place.
fn beside(path: &FilePath) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    folder(path).join(format!(".{name}.{}", std::process::id()))
}

/// The file to replace: a symbolic link to it stays one, and a device is never replaced. Makes the
/// folder of a new one. Fails where nothing can be written.
pub(super) fn prepare(path: &FilePath) -> Result<PathBuf, MeasureError> {
    let no_file = |why| MeasureError::Usage(format!("{}: {why}", path.display()));
    let place = match path.canonicalize() {
        Ok(place) if place.is_file() => place,
        Ok(_) => return Err(no_file("not a regular file")),
        Err(_) if path.is_symlink() => {
            return Err(no_file("a symbolic link that leads to no file"));
        }
        Err(_) => path.to_owned(),
    };
    std::fs::create_dir_all(folder(&place)).map_err(|source| MeasureError::File {
        path: place.clone(),
        source,
    })?;
    outputs::check([&place, &beside(&place)])?;
    Ok(place)
}

/// Fails if runs would not load this profile.
fn verify(path: &FilePath) -> Result<(), MeasureError> {
    let settings = Settings::builder()
        .with_environment([("LIMIC_PROFILE", path)])
        .build()?;
    match settings.profile() {
        Some(_) => Ok(()),
        None => Err(MeasureError::File {
            path: path.to_owned(),
            source: std::io::Error::other(settings.warnings().join("; ")),
        }),
    }
}

/// Writes it in one step: a run that starts meanwhile sees the old one or the new one. The old one
/// stays if runs would not load the new one.
pub(super) fn write(path: &FilePath, text: &str) -> Result<(), MeasureError> {
    let failed = |source| MeasureError::File {
        path: path.to_owned(),
        source,
    };
    let beside = beside(path);
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .map_err(failed)
        .and_then(|()| {
            let text =
                |why| format!("the new profile would not load, and the old one stays: {why}");
            verify(&beside).map_err(|why| failed(std::io::Error::other(text(why))))
        })
        .and_then(|()| std::fs::rename(&beside, path).map_err(failed));
    if written.is_err() {
        // Half a file is of no use; if it cannot be removed either, it is in nobody's way.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::measure::FoundRow;
    use super::*;

    fn findings(locality: &str, path: &str) -> Findings {
        let row = FoundRow {
            when: "usual".to_owned(),
            up_to_bytes: 16 << 10,
            path: path.to_owned(),
            reason: format!("of {path}"),
        };
        Findings {
            locality: locality.to_owned(),
            cpus: vec![0, 1],
            seconds: 1.0,
            points: Vec::new(),
            rows: vec![row],
            fragment_bytes: PIPELINE_FRAGMENT,
            compared: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_is_measured_later_comes_beside_what_was_measured_before() {
        let near = [findings("shared-cache", "eager")];
        let first = format!("adapt = false\n{}", text(&near, &Kept::default()));
        let far = [findings("same-package", "cma")];
        let kept = Kept::of_text(&first, &far);
        assert_eq!(kept.localities(), ["shared-cache"]);
        let second = text(&far, &kept);
        let whole: toml::Table = second.parse().expect("TOML");
        assert_eq!(whole["adapt"].as_bool(), Some(false));
        let rows = whole["rows"].as_array().expect("rows");
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row["locality"].as_str(), row["path"].as_str()))
            .collect();
        let expected = [("same-package", "cma"), ("shared-cache", "eager")];
        assert_eq!(
            found,
            expected.map(|(locality, path)| (Some(locality), Some(path)))
        );
        // Measured again, the rows of a locality are the new ones alone.
        let again = [findings("shared-cache", "pipeline")];
        let kept = Kept::of_text(&second, &again);
        assert_eq!(kept.localities(), ["same-package"]);
        let third = text(&again, &kept);
        assert!(
            third.contains("pipeline") && third.contains("cma") && !third.contains("eager"),
            "{third}"
        );
        // So they are if somebody has written its name in another way.
        let by_hand = second.replace("\"shared-cache\"", "\" Shared-Cache \"");
        assert_ne!(by_hand, second);
        assert_eq!(Kept::of_text(&by_hand, &again), kept);
        assert_eq!(Kept::of_text("adapt = [[[", &again), Kept::default());
    }

    #[test]
    fn measured_instructions_replace_those_of_before() {
        let mut kept = Kept::of_text("copy = \"vector\"", &[]);
        assert!(text(&[], &kept).contains("copy = \"vector\""));
        kept.set_copy(CopyInstructions::RepMovsb);
        assert!(text(&[], &kept).contains("copy = \"rep-movsb\""));
        kept.set_copy(CopyInstructions::Auto);
        assert!(!text(&[], &kept).contains("copy ="));
    }

    #[test]
    fn a_fragment_is_written_if_all_localities_want_it() {
        let want = |bytes| Findings {
            fragment_bytes: bytes,
            ..findings("shared-cache", "pipeline")
        };
        let mut kept = Kept::default();
        kept.set_fragment(kept.fragment(&[want(64 << 10), want(64 << 10)]));
        let whole = text(&[], &kept);
        assert!(
            whole.starts_with("# ") && whole.contains("pipeline_fragment = \"64K\"\n"),
            "{whole}"
        );
        kept.set_fragment(kept.fragment(&[want(64 << 10), want(PIPELINE_FRAGMENT)]));
        assert_eq!(kept, Kept::default());
    }

    #[test]
    fn the_fragment_stays_while_rows_stay_that_were_measured_with_it() {
        let near = [findings("shared-cache", "eager")];
        let far = [findings("same-package", "cma")];
        for (key, bytes) in [
            ("", PIPELINE_FRAGMENT),
            ("pipeline_fragment = \"64K\"\n", 64 << 10),
        ] {
            let before = format!("{key}{}", text(&near, &Kept::default()));
            let mut kept = Kept::of_text(&before, &far);
            let fragment = kept.fragment(&far);
            assert_eq!(fragment, bytes);
            kept.set_fragment(fragment);
            assert_eq!(text(&far, &kept).contains(FRAGMENT), !key.is_empty());
        }
    }

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted("a \"b\" \\c\n"), "\"a \\\"b\\\" \\\\c\"");
    }
}
