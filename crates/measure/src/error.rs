//! Why a measurement gives nothing.

use std::path::PathBuf;

use crate::content::Wrong;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The command line, or where it is called, makes no sense.
    #[error("{0}")]
    Usage(String),

    /// A setting of the environment makes no sense.
    #[error("{0}")]
    Settings(#[from] limic::settings::SettingsError),

    /// An operation of a rank failed.
    #[error("rank {rank}: {source}")]
    Rank {
        /// Of which.
        rank: u32,
        /// Why.
        source: limic::Error,
    },

    /// The ranks do not find each other.
    #[error("{0}")]
    Start(limic::Error),

    /// Received bytes are not those that were sent.
    #[error("rank {rank}: {wrong}")]
    Content {
        /// The rank that received them.
        rank: u32,
        /// What is wrong with them.
        wrong: Wrong,
    },

    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },

    /// A picture cannot be drawn.
    #[error("drawing {}: {reason}", path.display())]
    Plot {
        /// Where to.
        path: PathBuf,
        /// Why.
        reason: String,
    },

    /// The system refuses something.
    #[error("{step}: {source}")]
    System {
        /// What.
        step: &'static str,
        /// Why.
        source: std::io::Error,
    },

    /// The kernel module, or its figures.
    #[error("{0}")]
    Module(String),

    /// No number came out.
    #[error("nothing was measured: {0}")]
    Nothing(String),
}

/// Exit code for a command line, or a setting, that makes no sense. The same as clap's.
pub const BAD_USAGE: u8 = 2;

impl MeasureError {
    /// Of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Settings(_) | Self::File { .. } => BAD_USAGE,
            _ => 1,
        }
    }
}
