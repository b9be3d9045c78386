//! `LIMIC2_PATH`: which way copies take.

use crate::refusal::Refusal;

const VARIABLE: &str = "LIMIC2_PATH";

/// The way, as the user wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Path {
    /// The kernel module where it is there, and cross-memory attach for the rest.
    #[default]
    Auto,
    /// The kernel module and nothing else.
    Kmod,
    /// Cross-memory attach and nothing else.
    Cma,
}

impl Path {
    pub(crate) fn from_environment() -> Result<Self, Refusal> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        Self::of(&value.to_string_lossy())
    }

    fn of(value: &str) -> Result<Self, Refusal> {
        match value {
            "" | "auto" => Ok(Self::Auto),
            "kmod" => Ok(Self::Kmod),
            "cma" => Ok(Self::Cma),
            other => Err(Refusal::invalid(format!(
                "{VARIABLE}={other} is none of auto, kmod and cma"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_and_no_other() {
        let of = |value| Path::of(value).ok();
        assert_eq!(of(""), Some(Path::Auto));
        assert_eq!(of("auto"), Some(Path::Auto));
        assert_eq!(of("kmod"), Some(Path::Kmod));
        assert_eq!(of("cma"), Some(Path::Cma));
        assert_eq!(of("KMOD"), None);
    }
}
