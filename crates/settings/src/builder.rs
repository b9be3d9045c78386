//! The application as a source of settings, and the order in which the sources are applied.

use std::ffi::{OsStr, OsString};

use limic_policy::{Row, RowSource};

use crate::apply::Layer;
use crate::environment::{self, Environment};
use crate::names::{self, CONFIG, PROFILE};
use crate::table::Key;
use crate::{Settings, SettingsError, file, warning};

/// Collects what the application wants to set. What it leaves out comes from the environment, the
/// files and the built-in values.
///
/// A value that is not accepted is reported by [`SettingsBuilder::build`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens until `build` is called"]
pub struct SettingsBuilder {
    layer: Layer,
    /// Whether the environment of the process counts for nothing.
    without_process: bool,
    /// Variables beside those of the process, over which they win.
    given: Vec<(OsString, OsString)>,
    refused: Option<SettingsError>,
}

impl SettingsBuilder {
    /// Ignores the environment and the files: only built-in values and what the builder is told.
    pub fn without_environment(self) -> Self {
        self.with_environment::<&str, &str>([])
    }

    /// Takes these variables for the environment instead of the process's own.
    pub fn with_environment<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.without_process = true;
        self.with_variables(variables)
    }

    /// Takes these variables for the environment beside the process's own, over which they win.
    /// Warnings about them are in [`Settings::warnings`] alone.
    pub fn with_variables<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.given = variables
            .into_iter()
            .map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()))
            .collect();
        self
    }

    /// Rows to lay over the policy table; see [`Table::overlaid`](limic_policy::Table::overlaid).
    /// Their source becomes [`RowSource::Application`].
    #[doc(hidden)]
    pub fn rows(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        let rows = rows.into_iter().map(|row| Row {
            source: RowSource::Application,
            ..row
        });
        self.layer.rows.extend(rows);
        self
    }

    /// The settings: built-in values, profile, file, environment and this builder, later ones
    /// winning.
    ///
    /// # Errors
    /// [`SettingsError`] names the first value that is not accepted: where, and what is.
    pub fn build(self) -> Result<Settings, SettingsError> {
        let Self {
            layer,
            without_process,
            given,
            refused,
        } = self;
        if let Some(error) = refused {
            return Err(error);
        }
        let is_given = |name: &OsStr| given.iter().any(|(other, _)| other == name);
        let process = std::env::vars_os().filter(|(name, _)| !without_process && !is_given(name));
        let Environment {
            layer: environment,
            config,
            profile,
            default_profile,
            warnings,
        } = environment::read(process.chain(given.iter().cloned()))?;
        let is_given = |name: &str| is_given(OsStr::new(name));
        let mut settings = Settings::default();
        for (name, line) in warnings {
            settings.warn(line, is_given(&name));
        }
        let others = given.iter().filter_map(|(name, _)| name.to_str());
        for name in others.filter(|name| !without_process && names::is_known(name)) {
            let line = format!("{name} is no setting: it counts in the environment alone");
            settings.warn(line, true);
        }
        // A profile that nobody named need not be there.
        let profile = match (profile, default_profile) {
            (Some(path), _) => Some((path, PROFILE.variable)),
            (None, Some(path)) if path.is_file() => Some((path, "the default place")),
            _ => None,
        };
        if let Some((path, named_by)) = profile {
            // A profile makes messages faster; one that cannot be used must not end anybody's job.
            let read = file::read(&path, named_by, RowSource::Profile);
            match read.and_then(|layer| settings.apply(layer)) {
                Ok(()) => settings.profile = Some(path),
                Err(error) => {
                    let line = format!(
                        "{error}; going on with built-in values. limic tune measures this machine, \
                         LIMIC_PROFILE=off ends this warning"
                    );
                    settings.warn(line, is_given(named_by));
                }
            }
        }
        if let Some(path) = config {
            let source = RowSource::File(path.clone());
            settings.apply(file::read(&path, CONFIG.variable, source)?)?;
            settings.config = Some(path);
        }
        settings.apply(environment)?;
        settings.apply(Layer {
            place: "the application".to_owned(),
            ..layer
        })?;
        settings.finish(is_given);
        if !without_process {
            let given = &settings.given_warnings;
            let lines = settings.warnings.iter();
            { lines.filter(|line| !given.contains(line)) }.for_each(|line| warning::say(line));
        }
        Ok(settings)
    }

    /// What `name`, a method of the builder, was given for a setting.
    pub(crate) fn say(mut self, name: &'static str, key: Key, value: String) -> Self {
        if (key.entry().accepts)(&value) {
            self.layer.values.push((key, value, RowSource::Application));
        } else if self.refused.is_none() {
            let accepted = key.entry().accepted.to_owned();
            self.refused = Some(SettingsError::Argument {
                name,
                value,
                accepted,
            });
        }
        self
    }
}
