//! Everything that can go wrong, as values.

use std::io;

use crate::bootstrap::BootstrapError;
use crate::settings::SettingsError;
use crate::{Peer, Status, Tag};

/// Result of an operation of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;

limic_bootstrap::debug_as_display!(Error, PeerFailure);

/// Why a peer can no longer be talked to.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFailure {
    /// The peer's process ended, or lost its end of the connection, without closing its endpoint.
    #[error("its process ended without closing the endpoint")]
    Died,
    /// The peer closed its endpoint in good order.
    #[error("it closed its endpoint")]
    Closed,
    /// Nobody answers at the peer's address.
    #[error(
        "nobody answers at its address: the process has ended, never opened the endpoint, or runs in another network namespace; or the network does not lead there (any more)"
    )]
    Unreachable,
    /// The address names another machine, and no network path is available.
    #[error("it is on another node and no network leads there (`limic info` says why each is off)")]
    OtherNode,
    /// This process was forked from the one that opened the endpoint.
    #[error(
        "the endpoint belongs to the process that this one was forked from; open another one here"
    )]
    Forked,
    /// The peer refused the hand-shake.
    #[error("it refused the connection: {0}")]
    Refused(String),
    /// This process could not meet the peer, which may live: it is short of something, or what the
    /// peer handed over was not what it has to be. Or the two had met, and an adapter of this side
    /// has failed, through which the peer was reached.
    #[error("this process could not reach it: {0}")]
    NotMet(String),
    /// The peer wrote something into shared memory or onto the control socket that makes no sense.
    #[error("it sent bytes that make no sense ({0}); the connection was given up")]
    Corrupt(String),
    /// Another rank of the job said in a [barrier](crate::Barrier) that it has failed.
    #[error("{by} found that it has failed, and said so in a barrier")]
    Reported {
        /// The rank that said so.
        by: Peer,
    },
}

impl PeerFailure {
    /// The error of an operation that needed this peer.
    pub(crate) fn of(self, peer: Peer) -> Error {
        Error::PeerFailed { peer, why: self }
    }
}

/// An operation that could not be done, with what is needed to understand why.
///
/// Its `Debug` is its `Display`, so that a `main` which returns it prints words; so is that of
/// [`PeerFailure`], and of the errors of settings and of start-up, which become one by `?`.
///
/// ```
/// use limic::Settings;
///
/// fn settings() -> Result<Settings, limic::Error> {
///     Ok(Settings::builder().with_environment([("LIMIC_LONG", "smoke")]).build()?)
/// }
/// assert!(format!("{:?}", settings().unwrap_err()).contains("LIMIC_LONG=smoke"));
/// assert_eq!(format!("{:?}", limic::PeerFailure::Closed), "it closed its endpoint");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The message was longer than the buffer. The first `buffer` bytes were delivered.
    #[error(
        "message of {sent} bytes ({tag:?} from {peer}) does not fit the receive buffer of {buffer} bytes; the first {buffer} bytes were delivered"
    )]
    Truncated {
        /// The sender.
        peer: Peer,
        /// The message's tag.
        tag: Tag,
        /// Length of the message in bytes.
        sent: u64,
        /// Length of the buffer in bytes.
        buffer: u64,
        /// The word that came beside the bytes, if there was one.
        immediate: Option<u64>,
    },
    /// The operation was cancelled before it matched.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The peer has failed, for this reason.
    #[error("{peer} failed: {why}")]
    PeerFailed {
        /// The peer that failed.
        peer: Peer,
        /// How.
        why: PeerFailure,
    },
    /// The endpoint never handed out this peer.
    #[error("there is no {peer}: this endpoint knows {known} peers (0 to {})", .known.saturating_sub(1))]
    UnknownPeer {
        /// What was asked for.
        peer: Peer,
        /// How many peers the endpoint knows.
        known: u32,
    },
    /// A rank that the job does not have.
    #[error("rank {rank} is out of range: the job has {size} ranks (0 to {})", .size.saturating_sub(1))]
    RankOutOfRange {
        /// What was asked for.
        rank: u32,
        /// Ranks in the job.
        size: u32,
    },
    /// The bytes are not an address of a limic endpoint.
    #[error("malformed address: {0}")]
    BadAddress(String),
    /// The address is of another node, and no network is both here and there.
    #[error("no network leads to {0} (`limic info` says on each node what is off and why)")]
    NoCommonNetwork(String),
    /// The request is not (or no longer) one of this endpoint's.
    #[error(
        "the request is unknown to this endpoint: it was completed and freed, or belongs to another endpoint"
    )]
    UnknownRequest,
    /// The region key names nothing that the peer exposes (any more) for such an access.
    #[error(
        "{peer} exposes no region under this key (never did, or revoked it), or not for this kind of access"
    )]
    UnknownRegion {
        /// The region's owner.
        peer: Peer,
    },
    /// A region cannot have this key.
    #[error(
        "a region cannot have the key {key:#x}: it is 0, or another region of this endpoint has it"
    )]
    KeyInUse {
        /// The key.
        key: u64,
    },
    /// A region was to be taken back while a peer accesses it, and that peer does not come to an
    /// end: its process may be stopped. The memory stays with the endpoint, which never frees it by
    /// itself.
    #[error(
        "{peer} is in the middle of an access to the region and does not come to its end (is it stopped?): the memory stays with the endpoint"
    )]
    RegionInUse {
        /// The peer that accesses it.
        peer: Peer,
    },
    /// An access outside the region.
    #[error(
        "access of {len} bytes at offset {offset} reaches outside the region of {region} bytes"
    )]
    OutOfRegion {
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// Length of the region.
        region: u64,
    },
    /// No path can carry the message.
    #[error("no path to {peer} can carry this message: {reasons}")]
    NoPath {
        /// The peer.
        peer: Peer,
        /// Each path that was tried, with its reason.
        reasons: String,
    },
    /// Memory could not be had.
    #[error("out of memory: {0}")]
    NoMemory(String),
    /// The shared segment could not be made or mapped.
    #[error("shared segment: {0}")]
    Segment(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: Errno,
    },
    /// A setting is wrong.
    #[error("{0}")]
    Settings(String),
    /// The job's start-up failed.
    #[error("start-up: {0}")]
    Bootstrap(String),
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error.to_string())
    }
}

impl From<BootstrapError> for Error {
    fn from(error: BootstrapError) -> Self {
        Self::Bootstrap(error.to_string())
    }
}

impl Error {
    /// The peer that the error is about, if it is about one.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        match self {
            Self::Truncated { peer, .. }
            | Self::PeerFailed { peer, .. }
            | Self::UnknownPeer { peer, .. }
            | Self::UnknownRegion { peer }
            | Self::RegionInUse { peer, .. }
            | Self::NoPath { peer, .. } => Some(*peer),
            _ => None,
        }
    }

    pub(crate) fn system(what: &'static str, source: impl Into<io::Error>) -> Self {
        let number = source.into().raw_os_error();
        Self::System {
            what,
            source: Errno(number.unwrap_or(rustix::io::Errno::IO.raw_os_error())),
        }
    }
}

/// An errno of the operating system, comparable and cloneable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

impl std::error::Error for Errno {}

/// What a finished operation gives.
pub type Outcome = Result<Status>;
