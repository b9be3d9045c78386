//! Which instructions copy long messages, and why: tried out as an endpoint does.

use std::fmt;

use limic::settings::Settings;
use limic_shm::ring::instructions::{self, LongCopy};

/// What copies.
#[derive(Debug, serde::Serialize)]
pub(super) struct Copies {
    /// `vector` or `rep movsb`.
    instructions: &'static str,
    reason: String,
}

impl Copies {
    /// Chooses as an endpoint with these settings.
    pub(super) fn choose(settings: &Settings) -> Self {
        let chosen = instructions::choose(settings.copy().wanted());
        Self {
            instructions: match chosen.instructions {
                LongCopy::Vector => "vector",
                LongCopy::RepMovsb => "rep movsb",
            },
            reason: chosen.reason(),
        }
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "long copies by {}: {}", self.instructions, self.reason)
    }
}
