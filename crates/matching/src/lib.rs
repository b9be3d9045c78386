//! MPI message matching: the posted queue and the unexpected queue, at a cost that does not grow
//! with their depth.
//!
//! A [`Matcher`] holds the receives that wait for a message (*posted*) and the messages that wait
//! for a receive (*unexpected*). It stores labels and opaque [`Token`]s only; what a token means (a
//! request, a buffer, a slot of a ring) is the caller's affair.
//!
//! ```
//! # #[cfg(feature = "alloc")]
//! # fn example() -> Result<(), limic_matching::Full> {
//! use limic_matching::{Envelope, HeapMatcher, Selector, Source};
//!
//! let mut matcher = HeapMatcher::with_capacity(64, 64)?;
//! let selector = Selector { source: Source::Any, tag: 7, mask: !0 };
//!
//! // Receive: look for a message that is here already, else queue the receive.
//! assert!(matcher.take_unexpected(&selector).is_none());
//! let id = matcher.post(&selector, 1)?;
//!
//! // Arrival: look for a receive that waits, else queue the message.
//! let envelope = Envelope { source: 3, tag: 7 };
//! assert_eq!(matcher.take_posted(&envelope), Some(1));
//! assert_eq!(matcher.take_posted(&envelope), None);
//! matcher.push_unexpected(&envelope, 2)?;
//!
//! assert_eq!(matcher.take_unexpected(&selector), Some((envelope, 2)));
//! assert_eq!(matcher.cancel_posted(id), None, "it was matched: the id is stale");
//! # Ok(())
//! # }
//! # #[cfg(feature = "alloc")]
//! # example().expect("room for 64");
//! ```
//!
//! # Labels
//! A message carries an [`Envelope`] (source, 64-bit tag); a receive asks with a [`Selector`]
//! (source or any, tag, mask). It fits if the source fits and
//! `(envelope.tag ^ selector.tag) & selector.mask == 0`: a mask bit of 1 means "must be equal".
//! libfabric's `ignore` is the complement of the mask.
//!
//! MPI's (source, tag, context id) maps on it with the context in the upper and the tag in the
//! lower half, so that the sender's number in the endpoint is the source:
//!
//! | MPI | `source` | `tag` | `mask` |
//! |---|---|---|---|
//! | message | rank | `context << 32 \| tag` | |
//! | receive | `Is(rank)` | `context << 32 \| tag` | `!0` |
//! | `MPI_ANY_SOURCE` | `Any` | `context << 32 \| tag` | `!0` |
//! | `MPI_ANY_TAG` | `Is(rank)` | `context << 32` | `0xffff_ffff_8000_0000` |
//! | both | `Any` | `context << 32` | `0xffff_ffff_8000_0000` |
//!
//! MPI's tags are not negative, so the top bit of the lower half tells the library's own messages
//! (collectives) from those of the user, and "any tag" keeps it in the mask. MPIs over libfabric
//! never send a mask of 0: they leave a few protocol bits out of every receive (MPICH ignores
//! `0x00c0_0000_0000_0000`, Open MPI `0x1_0000_0000`), plus the tag bits for "any tag". A run so
//! uses a handful of distinct masks.
//!
//! # Order
//! MPI's non-overtaking rule: an arriving message matches the *oldest* posted receive that it fits,
//! a receive the *oldest* unexpected message that fits it, whichever index the entry sits in.
//!
//! # Cost
//! A *class* is a pair of mask and "any source or not". Entries sit in hash bins by (class, source
//! unless any, tag under the mask); a bin is a list in order of age, so its first entry is its
//! oldest.
//!
//! | operation | cost |
//! |---|---|
//! | post, push, cancel, remove | O(1) |
//! | arrival (`take_posted`) | amortised O(1): one look-up per class that has receives in bins; none if it fits the oldest receives |
//! | receive, probe | one look-up; amortised O(1) (see below) |
//!
//! * Posted: receives are put into their bins by the first arrival that has to pass over them
//!   (receives that are matched in the order of their posting are never hashed). Up to 64 classes
//!   at a time are indexed, a class exists while it has receives in bins. Receives of further
//!   classes are scanned one by one.
//! * Unexpected: a class is made when a receive or probe first uses it on a queue too long to scan,
//!   and each message is put into its bins by the first receive or probe of that class that has to
//!   pass over it (so once per class; a queue that is drained in order is never hashed at all, and
//!   a class that is not used any more costs nothing). Up to 16 classes (8 masks, with and without
//!   any source) are kept; a further one takes the place of one that has been idle, or else its
//!   receives scan the queue.
//! * The first few entries that are not in bins are scanned before anything is hashed, see `SCAN`
//!   in the source.
//! * Distinct keys that fall into one hash bucket are chained, one link per key and not per entry.
//!   Callers whose peers may be hostile give [`Matcher::with_seed`] a random seed.
//!
//! # Memory
//! Nothing is allocated while matching: a full table is [`Full`], nothing has changed, and the
//! caller may [`Matcher::reserve`] and try again. [`Storage`] says where tables live:
//! [`HeapStorage`] (feature `alloc`), [`SliceStorage`] over memory of the caller, or an
//! implementation of one's own. A posted receive takes 64 bytes (one cache line) and 16 to 32 bytes
//! of buckets; an unexpected message 64 bytes, the same of buckets, and 168 bytes of links that are
//! touched only for a third and further class.
//!
//! # In the kernel
//! The files use `core` only, `super::` and `self::` paths, no edition-2024 syntax and no panicking
//! index, so a kernel module can include this file with
//! `#[path = ".../lib.rs"] #[allow(unused_attributes)] mod matching;` and bring its pages as a
//! [`Storage`].

#![no_std]
#![forbid(unsafe_code)]

mod bins;
mod error;
#[cfg(feature = "alloc")]
mod heap;
mod key;
mod label;
mod matcher;
mod posted;
mod posted_node;
mod queue;
mod slices;
mod storage;
mod unexpected;
mod unexpected_node;

pub use self::bins::{Bucket, Link};
pub use self::error::Full;
#[cfg(feature = "alloc")]
pub use self::heap::{HeapMatcher, HeapStorage};
pub use self::label::{Envelope, Selector, Source, Token};
pub use self::matcher::{Matcher, PostedId, UnexpectedId};
pub use self::posted_node::PostedNode;
pub use self::slices::SliceStorage;
pub use self::storage::{EXTRA_LINKS, PostedMemory, Storage, UnexpectedMemory};
pub use self::unexpected_node::UnexpectedNode;

/// The programs of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
