//! Single copy between processes.
//!
//! A message that goes through a shared segment is copied twice: in by the sender, out by the
//! receiver. The engines here copy it once, straight from one process's buffer into the other's.
//!
//! - [`CopyEngine`] is what every engine offers: expose a buffer, read a peer's, write a peer's.
//!   Lists of slices on both sides, any length, and a bounded form ([`CopyEngine::read_at`]) so
//!   that a caller gets back to its progress loop.
//! - [`Cma`] is the engine over `process_vm_readv(2)` and `process_vm_writev(2)` ("cross-memory
//!   attach"). [`Cma::probe`] tries it on a peer and, when that is refused, says exactly why and
//!   what to do ([`Refused`]). [`explain`] says the same of this machine without a peer.
//! - [`Kmod`] is the engine over the kernel module's `/dev/limic`: the owner exposes a buffer to
//!   one peer, by a handle, and no permission to trace is needed.
//! - A failed copy is not the end of a message: [`CopyError`] says how much got through, and
//!   another path moves the rest.
//! - [`SplitCopy`] lets sender and receiver copy one message together: the receiver reads blocks
//!   from the front while the sender writes blocks from the back.
//! - [`RemoteProcess`], [`KmodBackendPair`] and [`same_process`] do the same for buffers of
//!   operations under way: with one peer, or the reason why not.
//!
//! Linux only.

#[cfg(test)]
#[path = "../../shm/src/process/child.rs"]
mod child;
mod cma;
mod engine;
mod error;
mod evidence;
mod explain;
mod kmod;
mod procfs;
mod ptracer;
mod refusal;
mod remote;
pub mod same_process;
#[cfg(limic_sim)]
pub mod simulated;
mod split_copy;
mod transfer;
mod window;

pub use cma::{Cma, CmaPeer, ProbeWord};
pub use engine::{Access, CopyEngine, LocalSlice, LocalSliceMut, RemoteRange};
pub use error::CopyError;
pub use explain::{Explanation, explain};
pub use kmod::{
    CallError, Ended, Exposed, Found, Group, Kmod, KmodBackend, KmodBackendPair, KmodPair,
    KmodPeer, Lasting, Member, Messages, News, Opened, Posted, Wanted,
};
pub use ptracer::{PeerAccess, allow_peers};
pub use refusal::{RefusalReason, Refused};
pub use remote::{
    Failed, MOST_TOGETHER, Probe, ProbeData, RemoteProcess, address_of, address_of_room,
};
pub use split_copy::{SplitCopy, SplitCopyError};

/// The programs of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
