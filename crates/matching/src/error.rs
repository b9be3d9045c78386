//! The one error of matching: a table is full.

use core::fmt;

/// A table has no room for another entry, or could not be made larger. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The table of posted receives.
    Posted {
        /// Entries that the table holds at most.
        capacity: usize,
    },
    /// The table of unexpected messages.
    Unexpected {
        /// Entries that the table holds at most.
        capacity: usize,
    },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, capacity) = match self {
            Self::Posted { capacity } => ("posted receives", capacity),
            Self::Unexpected { capacity } => ("unexpected messages", capacity),
        };
        write!(
            f,
            "the table of {what} is full at {capacity} entries: reserve more, or match some"
        )
    }
}

impl core::error::Error for Full {}
