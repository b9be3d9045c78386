//! Enums whose values have names: those of paths and localities, and of settings.

#[doc(hidden)]
pub use serde::{Serialize, Serializer};

/// An enum of the form `Value = "name"`. It gets the list of its values, and `name`, as which it
/// prints.
#[macro_export]
macro_rules! named {
    (
        $(#[$of_enum:meta])*
        pub enum $enum:ident {
            $($(#[$of_value:meta])* $value:ident = $name:literal,)*
        }
    ) => {
        $(#[$of_enum])*
        pub enum $enum {
            $($(#[$of_value])* $value,)*
        }

        impl $enum {
            /// All of them, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// The name that is printed and read.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }

        impl core::fmt::Display for $enum {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::named::Serialize for $enum {
            fn serialize<S: $crate::named::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

/// The value with this name, in letters of either size.
pub fn find<T: Copy>(all: &[T], name: fn(T) -> &'static str, text: &str) -> Option<T> {
    let text = text.trim();
    let mut all = all.iter().copied();
    all.find(|value| name(*value).eq_ignore_ascii_case(text))
}

/// A name that no value has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a {what}; accepted: {accepted}")]
pub struct UnknownName {
    text: String,
    what: &'static str,
    accepted: String,
}

/// As [`find`]; the error says `what` the values are, and the names of all.
pub fn parse<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
    what: &'static str,
    text: &str,
) -> Result<T, UnknownName> {
    find(all, name, text).ok_or_else(|| {
        let names: Vec<_> = all.iter().copied().map(name).collect();
        UnknownName {
            text: text.trim().to_owned(),
            what,
            accepted: names.join(", "),
        }
    })
}
