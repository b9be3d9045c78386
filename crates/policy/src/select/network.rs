//! How messages go over a network: what the sender plans, and what the receiver of an offer says.

use limic_fabric::{Limits, MOST_STRETCHES};

use crate::{Path, Refusal};

/// The eager limit over a network, in bytes: of longer messages the receiver is asked. The question
/// takes less than a tenth of their time.
const EAGER_LIMIT: u64 = 256 << 10;

/// Shorter messages are not worth a registration at each end.
const SHORTEST_READ: u64 = 16 << 10;

/// How a message leaves over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPlan {
    /// At once, in a record that it is copied into.
    Record,
    /// At once, in a record that is written out of the sender's memory.
    InPlace,
    /// The receiver is asked, and says how the bytes go.
    Offer,
}

/// How a message leaves whose record has `bytes` bytes. `asks`: its receiver wants to be asked, or
/// its sender wants an answer.
#[inline]
#[must_use]
pub fn plan(limits: &Limits, bytes: u64, slices: usize, asks: bool) -> NetworkPlan {
    if asks || bytes > EAGER_LIMIT.min(longest_record(limits, slices)) {
        NetworkPlan::Offer
    } else if bytes > limits.in_place_from {
        NetworkPlan::InPlace
    } else {
        NetworkPlan::Record
    }
}

/// Bytes of the longest record with a message in so many slices, or with a fragment of it. Where
/// one call does not write all slices, they are gathered into short records.
#[inline]
#[must_use]
pub fn longest_record(limits: &Limits, slices: usize) -> u64 {
    if slices <= MOST_STRETCHES {
        limits.longest
    } else {
        limits.longest.min(limits.in_place_from)
    }
}

/// Why the receiver of an offered message is not given its place, to read it there. `None`: it is.
#[inline]
#[must_use]
pub fn refuses_read(limits: &Limits, len: u64, slices: usize) -> Option<Refusal> {
    if !limits.has_reads {
        Some(Refusal::Unavailable)
    } else if slices != 1 {
        Some(Refusal::Vectored)
    } else if len < SHORTEST_READ {
        Some(Refusal::TooShort { min: SHORTEST_READ })
    } else {
        None
    }
}

/// How the bytes of an offered message come. `has_place`: its receiver was given their place.
#[inline]
#[must_use]
pub fn answer(has_place: bool, room_slices: usize) -> Path {
    if has_place && room_slices == 1 {
        Path::NetworkRead
    } else {
        Path::Network
    }
}
