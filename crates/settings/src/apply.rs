//! What profile, file, environment and application say is laid over the built-in values.

use limic_policy::{Path, Row, RowSource};

use crate::table::Key;
use crate::{Settings, SettingsError};

/// What one source says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    /// The source, for errors.
    pub(crate) place: String,
    /// Texts that their settings accept.
    pub(crate) values: Vec<(Key, String, RowSource)>,
    pub(crate) rows: Vec<Row>,
}

impl Settings {
    /// Lays one layer over what there is: rows first, then the values, in the order of their keys.
    pub(crate) fn apply(&mut self, layer: Layer) -> Result<(), SettingsError> {
        let Layer {
            place,
            mut values,
            rows,
        } = layer;
        if !rows.is_empty() {
            let table = self.policy.overlaid(rows);
            self.policy = table.map_err(|source| SettingsError::Rows { place, source })?;
        }
        values.sort_by_key(|(key, _, _)| *key);
        for (key, text, source) in values {
            (key.entry().set)(self, &text, &source);
            self.sources[key as usize] = source;
        }
        Ok(())
    }

    /// What follows from the values once all of them are known. `is_given` tells of a variable
    /// whether the program gave it.
    pub(crate) fn finish(&mut self, is_given: impl Fn(&str) -> bool) {
        if self.sources[Key::StagingBufferBytes as usize] == RowSource::BuiltIn {
            let longest = self.pipeline_fragment().next_power_of_two();
            let bytes = &mut self.values.staging_buffer_bytes;
            *bytes = longest.max(*bytes);
        }
        let allowed = self.allowed();
        if !Path::settable().any(|path| path.is_rendezvous() && allowed.contains(path)) {
            let line = format!(
                "the allowed paths ({allowed}) carry no long messages: those take the pipeline all \
                 the same; add pipeline, cma, split-copy or kmod to LIMIC_PATHS"
            );
            self.warn(line, is_given("LIMIC_PATHS"));
        }
    }
}
