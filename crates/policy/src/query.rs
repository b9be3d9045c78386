//! What the policy is asked.

use core::str::FromStr;

use super::Capabilities;
use crate::named;
use crate::named::{UnknownName, parse};

named! {
    /// How far apart two endpoints are, nearest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    #[repr(u8)]
    pub enum Locality {
        /// An endpoint and itself.
        Itself = "self",
        /// Two endpoints in one process.
        SameProcess = "same-process",
        /// Two processes on cores that share an L2 or L3 cache.
        SharedCache = "shared-cache",
        /// Two processes on one package, without a common cache or where it is not known.
        SamePackage = "same-package",
        /// Two processes on different packages.
        OtherPackage = "other-package",
    }
}

impl Locality {
    /// The localities of two different processes.
    pub const BETWEEN_PROCESSES: [Self; 3] =
        [Self::SharedCache, Self::SamePackage, Self::OtherPackage];

    /// A small number for tables: less than `Locality::ALL.len()`.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl FromStr for Locality {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        parse(&Self::ALL, Self::name, "locality", name)
    }
}

named! {
    /// How the receiver keeps up with the sender: each row of the table holds for one of these.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    #[repr(u8)]
    pub enum ReceiverPace {
        /// Both sides keep pace.
        #[default]
        Steady = "usual",
        /// The receiver lags behind, and has asked this sender to send ahead what it can.
        Slow = "slow-receiver",
    }
}

impl FromStr for ReceiverPace {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        parse(&Self::ALL, Self::name, "situation", name)
    }
}

/// What [`Table::choose`](super::Table::choose) is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Length of the message in bytes.
    pub bytes: u64,
    /// How far away the receiver is.
    pub locality: Locality,
    /// How the receiver keeps up.
    pub pace: ReceiverPace,
    /// Whether the bytes lie in several slices.
    pub vectored: bool,
    /// Whether they lie in memory that peers may read (`limic::Buffer`).
    pub peer_readable: bool,
    /// What the pair can do.
    pub capabilities: Capabilities,
}

impl Query {
    /// A question about bytes in one slice, to a receiver that keeps up, for a pair that can do
    /// everything.
    #[must_use]
    pub const fn new(bytes: u64, locality: Locality) -> Self {
        Self {
            bytes,
            locality,
            pace: ReceiverPace::Steady,
            vectored: false,
            peer_readable: false,
            capabilities: Capabilities::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (i, locality) in Locality::ALL.into_iter().enumerate() {
            assert_eq!(locality.index(), i);
            assert_eq!(locality.to_string().parse::<Locality>(), Ok(locality));
        }
        let error = "socket"
            .parse::<Locality>()
            .expect_err("no such locality")
            .to_string();
        assert!(
            error.contains("'socket'") && error.contains("shared-cache"),
            "{error}"
        );
    }
}
