//! What one row of the table of settings says, and what is made of the rows.

use limic_policy::RowSource;

use crate::{Group, Settings};

/// A setting.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) variable: &'static str,
    /// Its name in a file.
    pub(crate) toml: &'static str,
    pub(crate) group: Group,
    pub(crate) meaning: &'static str,
    /// What it accepts, in words.
    pub(crate) accepted: &'static str,
    pub(crate) accepts: fn(&str) -> bool,
    /// Sets what the text says, which must be accepted. A row of the policy table keeps the source.
    pub(crate) set: fn(&mut Settings, &str, &RowSource),
    pub(crate) show: fn(&Settings) -> String,
}

/// Makes of the table's rows `Key`, a number for each; an [`Entry`] for each; `Values`, with a
/// field for each row of `values`, and the defaults; and the methods of `Settings` and its builder.
macro_rules! settings {
    (
        edits {$(
            $edit_key:ident: $edit_group:ident $edit_variable:literal $edit_toml:literal,
            $edit:ident: $argument:ident = $with:ident, $edit_form:expr, $shown:expr,
            $edit_meaning:literal,
            $edit_accepted:literal;
        )*}
        values {$(
            $key:ident: $group:ident $variable:literal $toml:literal,
            $open:vis $field:ident: $type:ident = $default:expr, $form:expr,
            $meaning:literal,
            $accepted:literal;
            $($more:literal;)?
        )*}
    ) => {
        /// The settings, in the order in which the values of one source are laid over others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Key {
            $($edit_key,)*
            $($key,)*
        }

        impl Key {
            pub(crate) const ALL: [Self; [$($edit_toml,)* $($toml),*].len()] =
                [$(Self::$edit_key,)* $(Self::$key),*];

            pub(crate) fn entry(self) -> &'static Entry {
                &ENTRIES[self as usize]
            }
        }

        static ENTRIES: [Entry; Key::ALL.len()] = [
            $(Entry {
                variable: $edit_variable,
                toml: $edit_toml,
                group: Group::$edit_group,
                meaning: $edit_meaning,
                accepted: $edit_accepted,
                accepts: |text| Form::<$argument>::read(&$edit_form, text.trim()).is_some(),
                set: |settings, text, source| {
                    if let Some(value) = $edit_form.read(text.trim()) {
                        settings.policy = settings.policy.$with(value, source);
                    }
                },
                show: $shown,
            },)*
            $(Entry {
                variable: $variable,
                toml: $toml,
                group: Group::$group,
                meaning: $meaning,
                accepted: $accepted,
                accepts: |text| Form::<$type>::read(&$form, text.trim()).is_some(),
                set: |settings, text, _| {
                    if let Some(value) = $form.read(text.trim()) {
                        settings.values.$field = value;
                    }
                },
                show: |settings| $form.show(&settings.values.$field),
            },)*
        ];

        /// What the settings hold beside the policy table.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct Values {
            $(pub(crate) $field: $type,)*
        }

        impl Default for Values {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                }
            }
        }

        impl Settings {
            $(crate::entry::getter! {
                concat!("`", $variable, "`: ", $meaning, "." $(, " ", $more)?),
                $open $field $type
            })*
        }

        impl SettingsBuilder {
            $(crate::entry::setter! {
                concat!("`", $edit_variable, "`: ", $edit_meaning, "; ", $edit_accepted, "."),
                $edit $argument $edit_key $edit_form
            })*
            $(crate::entry::setter! {
                concat!("`", $variable, "`: ", $meaning, "; ", $accepted, "."),
                $field $type $key $form
            })*
        }
    };
}

/// The method that gives a value.
macro_rules! getter {
    ($doc:expr, $open:vis $field:ident Text) => {
        #[doc = $doc]
        #[must_use]
        $open fn $field(&self) -> Option<&str> {
            self.values.$field.as_deref()
        }
    };
    ($doc:expr, $open:vis $field:ident $type:ident) => {
        #[doc = $doc]
        #[inline]
        #[must_use]
        $open fn $field(&self) -> $type {
            self.values.$field
        }
    };
}

/// The builder's method that takes a value.
macro_rules! setter {
    ($doc:expr, $field:ident Text $key:ident $form:expr) => {
        #[doc = $doc]
        pub fn $field(self, value: &str) -> Self {
            self.say(stringify!($field), Key::$key, value.to_owned())
        }
    };
    ($doc:expr, $field:ident $type:ident $key:ident $form:expr) => {
        #[doc = $doc]
        pub fn $field(self, value: $type) -> Self {
            self.say(stringify!($field), Key::$key, $form.show(&value))
        }
    };
}

pub(crate) use {getter, setter, settings};
