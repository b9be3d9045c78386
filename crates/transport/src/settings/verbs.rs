//! What can be said about verbs.

use core::fmt;
use core::str::FromStr;

/// Which peers are reached over verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VerbsUse {
    /// Those on other nodes, if this machine has a device.
    #[default]
    Auto,
    /// None.
    Off,
    /// All, those on this node too: opening an endpoint fails without a device.
    Only,
}

impl fmt::Display for VerbsUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Only => "only",
        })
    }
}

impl FromStr for VerbsUse {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "off" | "no" | "0" => Ok(Self::Off),
            "only" => Ok(Self::Only),
            _ => Err(()),
        }
    }
}

/// How verbs are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbsSettings {
    /// Which peers are reached over them (`LIMIC_VERBS`).
    pub used: VerbsUse,
    /// Queue pairs to each peer, 1 to 8 (`LIMIC_VERBS_STREAMS`, U4). The same in all ranks.
    pub streams: u8,
    /// Entries of each queue pair's send queue, 2 to 4096 (`LIMIC_VERBS_ENTRIES`, C1).
    pub entries: u16,
    /// Whether messages share packets while no entry is free (`LIMIC_VERBS_COALESCE`, C2).
    pub coalesce: bool,
}

impl Default for VerbsSettings {
    fn default() -> Self {
        Self {
            used: VerbsUse::Auto,
            streams: 1,
            entries: 10,
            coalesce: true,
        }
    }
}
