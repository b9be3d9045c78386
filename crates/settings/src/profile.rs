//! The profile of a host: rows that `limic tune` measured on it, and the machine that they hold
//! for.
//!
//! A profile is a file of settings with two tables more: `[profile]` with the version of the
//! format, and `[machine]`, which must describe the machine that reads it. A profile that is wrong
//! ends no job: it is left aside, with one warning that says why. `docs/profile.md` describes the
//! format.

use std::path::{Path as FilePath, PathBuf};

use limic_policy::ByteSize;
use limic_topology::Summary;

use crate::SettingsError;

/// Version of the format of profiles; another one is refused.
pub const PROFILE_VERSION: u32 = 2;

/// What a machine is, as far as thresholds depend on it: a profile from another one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineKey {
    fields: [(&'static str, String); 7],
}

impl MachineKey {
    /// The machine on which this runs. Reads the topology at the first call in a process.
    #[must_use]
    pub fn this() -> Self {
        Self::of(&Summary::current(), cpu_model())
    }

    fn of(summary: &Summary, cpu: String) -> Self {
        let caches: Vec<String> = summary
            .caches
            .iter()
            .map(|cache| {
                let size = ByteSize(cache.bytes);
                format!(
                    "L{} {} x {size} for {}",
                    cache.level, cache.count, cache.shared_by_cpus
                )
            })
            .collect();
        Self {
            fields: [
                ("architecture", std::env::consts::ARCH.to_owned()),
                ("cpu", cpu),
                ("packages", summary.packages.to_string()),
                ("cores", summary.cores.to_string()),
                ("cpus", summary.cpus.to_string()),
                ("numa_nodes", summary.numa_nodes.len().to_string()),
                ("caches", caches.join(", ")),
            ],
        }
    }

    /// Name and value of each part, as in the table `[machine]` of a profile.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, &**value))
    }
}

/// Where `limic tune` writes the profile of this host, and where every run looks for it if
/// `LIMIC_PROFILE` does not name another: `limic/HOST.toml` in `$XDG_CONFIG_HOME` or else
/// `~/.config`. `None` if neither is known.
#[must_use]
pub fn default_profile() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    place(variable("XDG_CONFIG_HOME"), variable("HOME"))
}

/// The default place, by these two variables.
pub(crate) fn place(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // By the XDG rules a relative path counts as none.
    let config = xdg.filter(|path| path.is_absolute()).or_else(|| {
        home.filter(|path| path.is_absolute())
            .map(|home| home.join(".config"))
    })?;
    Some(config.join("limic").join(format!("{}.toml", host())))
}

/// The host's name as part of a file's.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .chars()
        .map(|c| {
            let plain = c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if plain { c } else { '_' }
        })
        .collect();
    // A name of dots alone would be a directory.
    let name = name.trim_start_matches('.');
    if name.is_empty() { "localhost" } else { name }.to_owned()
}

/// The processor's model as the kernel names it.
fn cpu_model() -> String {
    use std::io::Read;
    // The first processor's entry is enough; a big machine has hundreds.
    let mut start = String::new();
    if let Ok(file) = std::fs::File::open("/proc/cpuinfo") {
        // What is not text ends the reading; what came before counts.
        let _ = file.take(4096).read_to_string(&mut start);
    }
    let field = |wanted: &str| {
        let mut fields = start.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(name, _)| name.trim() == wanted)?;
        Some(value.trim().to_owned())
    };
    field("model name")
        .or_else(|| {
            // Arm: numbers instead of a name.
            let parts = ["CPU implementer", "CPU part", "CPU variant"].map(field);
            let [implementer, part, variant] = parts;
            Some(format!("{} {} {}", implementer?, part?, variant?))
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Whether a profile may be used here, by its two tables as names and values.
pub(crate) fn check(
    file: &FilePath,
    profile: Option<&[(String, String)]>,
    machine: Option<&[(String, String)]>,
) -> Result<(), SettingsError> {
    let refused = |reason: String| SettingsError::Profile {
        file: file.to_owned(),
        reason,
    };
    let get = |table: &[(String, String)], name: &str| {
        let found = table.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone())
    };
    let version = profile.and_then(|table| get(table, "version"));
    let Some(version) = version else {
        return Err(refused(
            "it has no [profile] with a version, so limic tune did not write it".to_owned(),
        ));
    };
    if version != PROFILE_VERSION.to_string() {
        return Err(refused(format!(
            "its format has version {version}, this limic reads version {PROFILE_VERSION}; run limic \
             tune again"
        )));
    }
    let Some(machine) = machine else {
        return Err(refused(
            "it has no [machine], so nobody knows where it was measured".to_owned(),
        ));
    };
    for (name, ours) in MachineKey::this().fields() {
        let theirs = get(machine, name);
        if theirs.as_deref() != Some(ours) {
            let theirs = theirs.map_or_else(|| "not given".to_owned(), |text| format!("'{text}'"));
            return Err(refused(format!(
                "it was measured on another machine: {name} is {theirs} there, and '{ours}' here"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_place_is_named_after_the_host() {
        let place = |xdg: Option<&str>, home: Option<&str>| {
            place(xdg.map(PathBuf::from), home.map(PathBuf::from))
        };
        let file = format!("{}.toml", host());
        assert_eq!(
            place(Some("/x"), Some("/h")),
            Some(FilePath::new("/x/limic").join(&file))
        );
        assert_eq!(
            place(Some("relative"), Some("/h")),
            Some(FilePath::new("/h/.config/limic").join(&file))
        );
        assert_eq!(place(None, None), None);
    }

    #[test]
    fn a_machine_is_itself_and_no_other() {
        let this = MachineKey::this();
        assert!(this.fields().all(|(_, value)| value.len() < 200));
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut machine: Vec<_> = this.fields().map(|(n, v)| own(n, v)).collect();
        let profile = [own("version", "2")];
        let file = FilePath::new("/p.toml");
        assert_eq!(check(file, Some(&profile), Some(&machine)), Ok(()));
        machine[1].1 = "Z80".to_owned();
        let error = check(file, Some(&profile), Some(&machine)).expect_err("another machine");
        let text = error.to_string();
        assert!(
            text.contains("measured on another machine: cpu is 'Z80' there"),
            "{text}"
        );
        assert!(check(file, None, Some(&machine)).is_err());
        assert!(check(file, Some(&profile), None).is_err());
        assert!(check(file, Some(&[own("version", "1")]), Some(&machine)).is_err());
    }
}
