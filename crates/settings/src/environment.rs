//! The environment as a source of settings.

use std::ffi::OsString;
use std::path::PathBuf;

use limic_policy::RowSource;

use super::SettingsError;
use super::keys::{self, Key};
use super::names;
use super::profile;
use super::values::Layer;

/// What the environment says.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// The values of the variables.
    pub(super) layer: Layer,
    /// `LIMIC_CONFIG`.
    pub(super) config: Option<PathBuf>,
    /// `LIMIC_PROFILE`, if it names a file.
    pub(super) profile: Option<PathBuf>,
    /// Where a profile lies that nobody names.
    pub(super) default_profile: Option<PathBuf>,
    /// One line for each unknown variable.
    pub(super) warnings: Vec<String>,
}

/// Reads `variables`. An empty value counts as none.
pub(super) fn read(
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
                let Some(key) = Key::ALL.into_iter().find(|key| key.info().variable == name) else {
                    environment.warnings.extend(unknown(name));
                    continue;
                };
                let info = key.info();
                let text = value.to_string_lossy();
                let parsed = key.parse(&text).ok_or_else(|| SettingsError::Variable {
                    name: info.variable,
                    value: text.into_owned(),
                    accepted: info.accepted.to_owned(),
                })?;
                let source = RowSource::Environment(info.variable);
                environment.layer.values.push((key, parsed, source));
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
    let known = Key::ALL.map(|key| key.info().variable);
    let files = [keys::CONFIG.variable, keys::PROFILE.variable];
    let others = names::OTHER_VARIABLES.map(|other| other.name);
    let nearest = names::nearest(name, known.into_iter().chain(files).chain(others));
    let advice = if names::is_like(name, nearest) {
        format!("did you mean {nearest}?")
    } else {
        "limic info --all lists the variables".to_owned()
    };
    Some(format!("unknown variable {name} ignored; {advice}"))
}
