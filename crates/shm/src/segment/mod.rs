//! The memory that endpoints share: memfds, their layout, how they are made,
//! checked and mapped.
//!
//! Each endpoint owns one segment of two memfds: what others write to it lies in
//! the shared part, and what only it writes in the owner's part, which peers map
//! for reading and which is sealed against any writing but through its owner's
//! mapping. Both go to the peers through a [`Socket`](crate::control::Socket).
//! Nothing has a name, so nothing is left after SIGKILL; the
//! size is sealed and the space reserved before anybody uses it, so no access
//! raises SIGBUS, unless a hostile peer punches holes where it may write and no
//! memory is left to fill them again.
//!
//! - [`Shape`], [`Geometry`]: how much of everything, and where it lies.
//! - [`OwnSegment`], [`PeerSegment`]: the two sides of one segment; both give
//!   the same [`Areas`], and the owner's part to write or [to read](ReadOnly).
//! - [`Arena`], [`PeerArena`], [`UnmappedArena`]: further memory, which only its owner writes: for
//!   loans, messages that are sent ahead, and the heap.
//! - [`Placement`], [`Granted`]: NUMA node and huge pages, asked and granted.

mod areas;
mod arena;
mod error;
mod header;
mod layout;
mod limits;
mod mapping;
mod memfd;
mod placement;
mod read_only;

pub use areas::{Areas, OwnSegment, PeerSegment};
pub use arena::{Arena, PeerArena, UnmappedArena};
pub use error::{GeometryError, MemoryLimit, SegmentError};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use header::any_header;
pub use header::{LAYOUT_VERSION, MAGIC};
pub use layout::{Geometry, LOAN_FLAGS, MAX_SEGMENT_BYTES, STAGING_PAGE, Shape};
pub use placement::{Grant, Granted, Placement};
pub use read_only::ReadOnly;
