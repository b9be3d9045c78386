//! Tagged messages between processes, with MPI's point-to-point semantics.
//!
//! ```no_run
//! use limic::{Endpoint, Tag, World};
//!
//! # fn main() -> Result<(), limic::Error> {
//! let world = World::init()?;
//! let right = world.peer((world.rank() + 1) % world.size())?;
//! let left = world.peer((world.rank() + world.size() - 1) % world.size())?;
//! let mut inbox = [0; 8];
//! world.send_recv(right, 7, &world.rank().to_le_bytes(), (left, Tag(7)), &mut inbox)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! - [`Endpoint`]: the calls. [`HybridEndpoint`] picks a path per message, [`ShmEndpoint`] uses
//!   shared memory only, [`KernelEndpoint`] leaves matching and copying to the kernel module.
//!   What a C interface or a runtime needs beyond them is in [`raw`].
//! - [`World`]: a job's ranks, under `limic run`, Hydra's `mpiexec` (PMI-1), `prterun` or `srun`
//!   (PMIx). A runtime with a bootstrap of its own hands out [`Address`]es instead.
//! - [`settings`]: everything that can be set, and the paths that messages take.
//! - [`topology`]: which ranks share a cache.
//! - [`heap`]: memory that peers may read, for messages with one copy.
//! - [`counters`]: what was sent and received, by path.
//!
//! # Inside
//!
//! `docs/architecture.md` in the repository follows a message through the engine.

#![deny(unsafe_code)]

mod address;
mod barrier;
pub mod bootstrap;
#[cfg(test)]
#[expect(unsafe_code, dead_code, reason = "forks; of all who do")]
#[path = "../../shm/src/process/child.rs"]
mod child;
mod connect_at_start;
/// What was moved: counts by path and peer, a histogram of sizes, and reasons.
///
/// Read from inside by [`Endpoint::counters`], at the end through `LIMIC_STATS`, and from outside
/// at any time by [`of_process`](counters::of_process), which `limic info --pid` uses.
/// docs/counters.md lists names, units and formats.
pub mod counters {
    #[doc(inline)]
    pub use limic_counters::{
        Counters, CountersError, Event, Found, Page, PageError, PeerCounts, Reason, SIZE_CLASSES,
        Traffic, TunedPath, of_process, size_class, size_class_range,
    };
    pub(crate) use limic_counters::{Recorder, Row, exit_report};
}
#[expect(
    unsafe_code,
    reason = "hands on the raw interface's promises, wraps blocking calls in it"
)]
mod endpoint;
#[expect(unsafe_code, reason = "implements the raw interface")]
mod endpoints;
#[expect(
    unsafe_code,
    reason = "keeps the raw interface's promises as the invariants of buffers"
)]
mod engine;
mod engine_cell;
mod error;
mod handle;
#[expect(
    unsafe_code,
    reason = "hands buffers to the kernel module, and implements the raw interface"
)]
mod kernel;
mod label;
#[expect(unsafe_code, reason = "memory in the shared segment, lent out")]
mod loan;
/// Memory that peers may read: buffers, and an allocator for the whole program.
pub mod heap {
    pub use limic_heap::{Buffer, PeerReadable};
}
pub mod networks;
#[expect(unsafe_code, reason = "buffers owned by operations")]
mod owned;
mod owned_bytes;
#[cfg(test)]
#[expect(unsafe_code, reason = "implements the raw interface on the heap")]
mod owners;
mod polling;
#[expect(unsafe_code, reason = "receives into a borrowed buffer")]
mod probe;
#[expect(unsafe_code, reason = "the raw interface")]
pub mod raw;
mod region;
#[expect(unsafe_code, reason = "buffers borrowed for a scope")]
mod scope;
#[doc(inline)]
pub use limic_settings as settings;
/// Where processes run and what they share there: packages, caches, NUMA nodes.
pub mod topology {
    #[doc(inline)]
    pub use limic_topology::{
        CacheSummary, CpuSet, Locality, NumaSummary, Origin, ParseCpuSetError, Place, Summary,
        Topology,
    };
}
mod wait;
mod world;

pub use address::{ADDRESS_LEN, Address};
pub use barrier::Barrier;
pub use connect_at_start::connect_at_start;
pub use endpoint::Endpoint;
#[cfg(feature = "ibverbs")]
pub use endpoints::VerbsEndpoint;
pub use endpoints::{HybridEndpoint, ShmEndpoint};
pub use error::{Errno, Error, Outcome, PeerFailure, Result};
pub use heap::Buffer;
pub use kernel::KernelEndpoint;
pub use label::{Selector, Status, Tag};
#[doc(inline)]
pub use limic_counters::{Counters, Peer};
#[doc(inline)]
pub use limic_settings::Settings;
use limic_settings::warning;
pub use loan::{Loan, LoanSend, Loaned, LoanedByte};
pub use owned::{OwnedRecv, OwnedSend};
pub use owned_bytes::OwnedBytes;
pub use probe::Claimed;
pub use raw::{Access, RegionId, RequestId};
pub use region::{Region, RegionKey};
pub use scope::{Scope, ScopedRecv, ScopedSend};
pub use wait::{
    Request, wait_all, wait_all_timeout, wait_any, wait_any_timeout, wait_some, wait_some_timeout,
};
pub use world::{Launcher, World};

/// What the fuzzer reads as if a peer had sent it.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub fn any_record(kind: u8, tag: u64, payload: &[u8]) {
        limic_records::any_record::any_record(kind, tag, payload);
    }
    pub fn any_greeting(bytes: &[u8]) {
        crate::engine::peer::greeting::any_greeting(bytes);
    }
}

/// The programs of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
