//! Memory that an endpoint lends to its peers, and what it keeps of theirs.
//!
//! - [`staging`]: pages of a segment through which messages take two copies, in turn or to and fro.
//! - [`arena`]: memory beside the segment that peers map for reading: loans, and messages that go
//!   ahead of their receivers.
//!
//! Both work alike. The owner alone hands room out, under a generation, and notes to whom; a record
//! names it to a peer; and it comes back by a [release flag](limic_shm::ring::release), so neither
//! side waits for the other. Which message goes where, and what records look like, is up to the
//! engine of `limic` above.
//!
//! # Invariants
//!
//! - Room is lent to one peer at a time. When a peer is forgotten, what it had is free again, but
//!   for what its living process may still read.
//! - A generation is not used again for the same room while a flag may hold it.
//! - Numbers that came from a peer are checked before they are used. A wrong one is a
//!   [`Violation`], and changes nothing here.

pub mod arena;
pub mod staging;

#[cfg(test)]
#[path = "../../shm/src/process/child.rs"]
mod child;

/// What is wrong with what a peer said.
pub type Violation = &'static str;

/// The program of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
