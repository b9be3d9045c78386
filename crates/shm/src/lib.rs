//! Shared memory between the processes of one node: one memfd segment per
//! endpoint, the rings and pools in it, wake-ups, and the hand-over of all that
//! through a Unix socket.
//!
//! Everything here is mechanism. Which side sends what, and when, is decided
//! in the `limic` crate above.
//!
//! - [`sync`]: the one seam through which atomics come in (loom swaps them).
//! - [`ring`]: the private line ring of one sender, the shared ring of many
//!   senders, the release flags of pool chunks, and the wake-up flag. All of it is generic over
//!   where the bytes live.
//! - [`bytes`]: where bytes of messages come from and go to: rings, windows of segments, arenas.
//! - [`owner`]: what an endpoint says in memory that only it can write: of split copies and
//!   regions.
//! - [`segment`]: the memfd, its layout, and how it is mapped and checked.
//! - [`control`]: the Unix socket: hand-over of file descriptors, liveness, and
//!   the event set on which an idle endpoint sleeps.
//! - [`idle`]: how an endpoint waits: spins, yields, sleep; and how work that peers cause rests.
//! - [`line_latency`]: how long a cache line takes from one end of a pair to the other.
//! - [`system`]: the seams at which a simulator takes the place of clock, kernel and scheduler.
//! - [`processor`]: what differs between the processors of different makers.
//! - [`process`]: whether this is still the process that opened an endpoint.

pub mod owner;
pub mod ring;
pub mod sync;

#[cfg(not(loom))]
pub mod bytes;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod idle;
#[cfg(not(loom))]
pub mod line_latency;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub mod processor;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod system;

/// The programs of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
