//! The environment as a source of settings.

use std::ffi::OsString;
use std::path::PathBuf;

use limic_policy::RowSource;

use crate::SettingsError;
use crate::apply::Layer;
use crate::names;
use crate::profile;
use crate::table::Key;

/// What the environment says.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The values of the variables.
    pub(crate) layer: Layer,
    /// `LIMIC_CONFIG`.
    pub(crate) config: Option<PathBuf>,
    /// `LIMIC_PROFILE`, if it names a file.
    pub(crate) profile: Option<PathBuf>,
    /// Where a profile lies that nobody names.
    pub(crate) default_profile: Option<PathBuf>,
    /// One line for each unknown variable, with its name.
    pub(crate) warnings: Vec<(String, String)>,
}

/// Reads `variables`. An empty value counts as none.
pub(crate) fn read(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Environment, SettingsError> {
    let mut environment = Environment::default();
    let (mut xdg, mut home) = (None, None);
    let mut without_profile = false;
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        if value.is_empty() {
            continue;
        }
        match name {
            "XDG_CONFIG_HOME" => xdg = Some(PathBuf::from(value)),
            "HOME" => home = Some(PathBuf::from(value)),
            "LIMIC_CONFIG" => environment.config = Some(value.into()),
            "LIMIC_PROFILE" if value.eq_ignore_ascii_case("off") => without_profile = true,
            "LIMIC_PROFILE" => environment.profile = Some(value.into()),
            _ if name.starts_with("LIMIC_") => {
                let found = Key::ALL
                    .into_iter()
                    .find(|key| key.entry().variable == name);
                let Some(key) = found else {
                    let line = unknown(name).map(|line| (name.to_owned(), line));
                    environment.warnings.extend(line);
                    continue;
                };
                let (entry, text) = (key.entry(), value.to_string_lossy().into_owned());
                if !(entry.accepts)(&text) {
                    return Err(SettingsError::Variable {
                        name: entry.variable,
                        value: text,
                        accepted: entry.accepted.to_owned(),
                    });
                }
                let source = RowSource::Environment(entry.variable);
                environment.layer.values.push((key, text, source));
            }
            _ => {}
        }
    }
    if !without_profile {
        environment.default_profile = profile::place(xdg, home);
    }
    Ok(environment)
}

fn unknown(name: &str) -> Option<String> {
    if names::is_known(name) {
        return None;
    }
    let known = Key::ALL.map(|key| key.entry().variable);
    let files = [names::CONFIG.variable, names::PROFILE.variable];
    let others = names::OTHER_VARIABLES.map(|other| other.name);
    let nearest = names::nearest(name, known.into_iter().chain(files).chain(others));
    let advice = if names::is_like(name, nearest) {
        format!("did you mean {nearest}?")
    } else {
        "limic info --all lists the variables".to_owned()
    };
    Some(format!("unknown variable {name} ignored; {advice}"))
}
