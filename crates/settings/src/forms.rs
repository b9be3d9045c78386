//! How the values of settings are written: read from text and shown as text.

use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;

use limic_policy::{ByteSize, Path, PathSet};

/// A way to write values of a type. What is shown reads as the same value.
pub(crate) trait Form<T> {
    /// The value in a text without spaces around it; `None` if it is not accepted.
    fn read(&self, text: &str) -> Option<T>;

    fn show(&self, value: &T) -> String;
}

/// As the type itself is read and printed, if this holds.
pub(crate) struct Plain<T>(pub(crate) fn(&T) -> bool);

impl<T: FromStr + Display> Form<T> for Plain<T> {
    fn read(&self, text: &str) -> Option<T> {
        text.parse().ok().filter(self.0)
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// At least one path, and the one to oneself. A program may name some that no text does: they
/// count for nothing.
pub(crate) struct Paths;

impl Form<PathSet> for Paths {
    fn read(&self, text: &str) -> Option<PathSet> {
        let paths: PathSet = text.parse().ok()?;
        (!paths.is_empty()).then(|| paths.with(Path::SelfCopy))
    }

    fn show(&self, value: &PathSet) -> String {
        value.and(PathSet::ALL).to_string()
    }
}

/// A number in a range.
pub(crate) struct Count<T>(pub(crate) RangeInclusive<T>);

impl<T: FromStr + Display + PartialOrd> Form<T> for Count<T> {
    fn read(&self, text: &str) -> Option<T> {
        text.parse().ok().filter(|n| self.0.contains(n))
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// A number of bytes for which this holds.
pub(crate) struct Bytes(pub(crate) fn(u64) -> bool);

impl<T: TryFrom<u64> + Into<u64> + Copy> Form<T> for Bytes {
    fn read(&self, text: &str) -> Option<T> {
        let ByteSize(bytes) = text.parse().ok()?;
        T::try_from(bytes).ok().filter(|_| self.0(bytes))
    }

    fn show(&self, value: &T) -> String {
        ByteSize((*value).into()).to_string()
    }
}

/// Milliseconds in a range.
pub(crate) struct Millis(pub(crate) RangeInclusive<u128>);

impl Form<Duration> for Millis {
    fn read(&self, text: &str) -> Option<Duration> {
        let time = text.parse().ok().map(Duration::from_millis);
        time.filter(|time| self.0.contains(&time.as_millis()))
    }

    /// Rounded up: 0 may mean never.
    fn show(&self, value: &Duration) -> String {
        value.as_nanos().div_ceil(1_000_000).to_string()
    }
}

/// One word for no, one for yes.
pub(crate) struct Flag(pub(crate) [&'static str; 2]);

impl Form<bool> for Flag {
    fn read(&self, text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "on" | "1" => Some(true),
            "no" | "false" | "off" | "0" => Some(false),
            _ => None,
        }
    }

    fn show(&self, value: &bool) -> String {
        self.0[usize::from(*value)].to_owned()
    }
}

/// This word for none, or a value for which that holds.
pub(crate) struct Or<T>(pub(crate) &'static str, pub(crate) fn(&T) -> bool);

impl<T: FromStr + Display> Form<Option<T>> for Or<T> {
    fn read(&self, text: &str) -> Option<Option<T>> {
        if text.eq_ignore_ascii_case(self.0) {
            return Some(None);
        }
        text.parse().ok().filter(self.1).map(Some)
    }

    fn show(&self, value: &Option<T>) -> String {
        let text = value.as_ref().map(T::to_string);
        text.unwrap_or_else(|| self.0.to_owned())
    }
}
