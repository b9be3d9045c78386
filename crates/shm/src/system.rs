//! The seams between an endpoint and the system below it: clock, randomness, processes, calls of
//! the kernel that fail, and the places at which others have their turn.
//!
//! In each usual build these are calls of the standard library or of the kernel, or nothing at all.
//! Under `--cfg limic_sim` a simulator takes their place, as loom takes that of the atomics. Then
//! several endpoints run in one thread as if each were a process, and the simulator decides at each
//! access to shared memory which of them goes on, and which call of the kernel fails. The kernel's
//! objects (memfds, sockets, event sets) stay real: used by one thread, they always answer alike.

#[cfg(not(limic_sim))]
mod real;
#[cfg(limic_sim)]
mod simulated;

#[cfg(not(limic_sim))]
pub use self::real::*;
#[cfg(limic_sim)]
pub use self::simulated::*;

/// A call of the kernel that can fail though its caller did nothing wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// A descriptor is made: a socket, an event set, a timer, a memfd.
    Open,
    /// A connection is accepted.
    Accept,
    /// A connection is made.
    Connect,
    /// A message goes out over a connection.
    Send,
    /// Memory is reserved.
    Reserve,
}
