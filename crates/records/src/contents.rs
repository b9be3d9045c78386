//! What the words of a record say: offers, places of messages, what is asked for, and what became
//! of it.

use limic_policy::{Path, ReceiverPace};
use limic_shm::bytes::{flagged, unflagged};
use limic_topology::Place;

use crate::{ACCESSED, CLEAR_TO_SEND, ControlRecord, DONE, SPLIT_COPY, UPDATE, Violation};

/// A long message that its receiver has to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Bytes.
    pub len: u64,
    /// The sender's request.
    pub send: u64,
    /// Where the bytes lie in the sender's memory, if they lie in one place; in which of its
    /// arenas, if the receiver may read there.
    pub address: u64,
    /// The key under which they are exposed, or 0; the number of the arena.
    pub key: u64,
    /// The bytes lie in several slices, which single copy cannot name.
    pub vectored: bool,
    /// The bytes lie in an arena.
    pub peer_readable: bool,
    /// The sender waits for [`Done::Received`], also if the bytes come in packets.
    pub confirm: bool,
}

const VECTORED: u64 = 1;
const CONFIRM: u64 = 2;
const PEER_READABLE: u64 = 4;

impl Offer {
    /// What a record says of it.
    #[must_use]
    pub fn encode(&self) -> [u64; 4] {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(self.vectored, VECTORED)
            | flag(self.confirm, CONFIRM)
            | flag(self.peer_readable, PEER_READABLE);
        [self.send, flagged(flags, self.len), self.address, self.key]
    }

    pub(super) fn decode([send, len, address, key]: [u64; 4]) -> Self {
        let (flags, len) = unflagged(len);
        Self {
            len,
            send,
            address,
            key,
            vectored: flags & VECTORED != 0,
            confirm: flags & CONFIRM != 0,
            peer_readable: flags & PEER_READABLE != 0,
        }
    }

    /// The number of the arena in which the bytes lie.
    #[must_use]
    pub fn arena(&self) -> Option<u32> {
        self.peer_readable.then_some(self.key as u32)
    }
}

/// The receiver of an offer wants its bytes from `start` to `end` in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearToSend {
    /// The sender's request.
    pub send: u64,
    /// The receiver's.
    pub receive: u64,
    /// The first byte.
    pub start: u64,
    /// The first byte behind them.
    pub end: u64,
    /// How the sender is to go on with the next messages.
    pub next: Next,
}

/// How the sender of a message that was asked for is to go on with the next ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// As the table of paths says.
    #[default]
    Usual = 0,
    /// The receiver could have read this one through the kernel module: the next is to be exposed
    /// to it.
    Exposed = 1,
    /// The receiver takes them as they come: they need not be offered.
    Unasked = 2,
}

impl Next {
    pub(super) fn decode(tag: u64) -> Result<Self, Violation> {
        match tag {
            0 => Ok(Self::Usual),
            1 => Ok(Self::Exposed),
            2 => Ok(Self::Unasked),
            _ => Err("a request for bytes, and for the next ones in no known way"),
        }
    }
}

impl ClearToSend {
    /// What a record says of it.
    #[must_use]
    pub fn encode(&self) -> ControlRecord {
        let words = [self.send, self.receive, self.start, self.end];
        ControlRecord::new(CLEAR_TO_SEND, self.next as u64, words)
    }
}

/// The receiver reads from the front, and asks the sender to write from the back. Where to stands
/// in the receiver's line, and not here: any peer of the sender can write a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitRequest {
    /// The sender's request.
    pub send: u64,
    /// The receiver's line.
    pub line: u32,
}

impl SplitRequest {
    /// What a record says of it.
    #[must_use]
    pub fn encode(&self) -> ControlRecord {
        ControlRecord::new(SPLIT_COPY, 0, [self.send, self.line.into()])
    }
}

/// Of which message a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The eager message that is coming from the peer: its next bytes.
    Eager,
    /// A message, or bytes of a region, that a receive of the peer asked for.
    Asked {
        /// The receive.
        receive: u64,
        /// The first byte of the fragment.
        at: u64,
    },
}

/// A one-sided access that goes through the owner of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAccess {
    /// The request of who asks.
    pub id: u64,
    /// The key of the region.
    pub key: u64,
    /// The first byte in it.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl RegionAccess {
    /// What a record says of it.
    #[must_use]
    pub fn encode(&self, kind: u8) -> ControlRecord {
        ControlRecord::new(kind, 0, [self.id, self.key, self.offset, self.len])
    }

    pub(super) fn decode([id, key, offset, len]: [u64; 4]) -> Self {
        Self {
            id,
            key,
            offset,
            len,
        }
    }
}

/// A peer has accessed a region by itself, of which the region's owner wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// The region's number, by which its owner tells it from those that had the same key before.
    pub serial: u64,
    /// It has written, and its bytes are in place; else it has read.
    pub wrote: bool,
}

impl Accessed {
    /// What a record says of it.
    #[must_use]
    pub fn encode(self) -> ControlRecord {
        ControlRecord::new(ACCESSED, self.wrote.into(), [self.serial])
    }

    pub(super) fn decode(wrote: u64, serial: u64) -> Result<Self, Violation> {
        let wrote = match wrote {
            0 => false,
            1 => true,
            _ => return Err("an access of no known kind"),
        };
        Ok(Self { serial, wrote })
    }
}

/// What became of a request that the peer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The receiver has all bytes, which came by this path.
    Received(Path),
    /// The offer is taken back; nobody had matched it.
    Retracted,
    /// The sender has written its blocks of a split copy, or takes no part in it: its line says
    /// which.
    Written,
    /// The one-sided access asks for no bytes.
    Nothing,
    /// No region has this key.
    NoRegion,
    /// The access reaches outside of the region, which has so many bytes.
    OutOfRegion(u64),
}

impl Done {
    /// What a record says of it.
    #[must_use]
    pub fn encode(self, id: u64) -> ControlRecord {
        let (what, value) = match self {
            Self::Received(path) => (0, path.index() as u64),
            Self::Retracted => (1, 0),
            Self::Written => (2, 0),
            Self::Nothing => (3, 0),
            Self::NoRegion => (4, 0),
            Self::OutOfRegion(len) => (5, len),
        };
        ControlRecord::new(DONE, what, [id, value])
    }

    pub(super) fn decode(what: u64, value: u64) -> Result<Self, Violation> {
        Ok(match what {
            0 => {
                let path = usize::try_from(value).ok();
                let path = path.and_then(|path| Path::ALL.get(path).copied());
                Self::Received(path.ok_or("a message by a path that does not exist")?)
            }
            1 => Self::Retracted,
            2 => Self::Written,
            3 => Self::Nothing,
            4 => Self::NoRegion,
            5 => Self::OutOfRegion(value),
            _ => return Err("the end of a request in no known way"),
        })
    }
}

/// Something about a peer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// How it keeps up with this endpoint's messages.
    Pace(ReceiverPace),
    /// Where it runs.
    Place(Place),
    /// Whether it wants to be asked first. Over networks, since it holds too many unexpected bytes;
    /// of that, a peer that shares memory is told by the status line. Such a peer is told so where
    /// a long message came before its receive.
    AskFirst(bool),
}

impl Update {
    /// What a record says of it.
    #[must_use]
    pub fn encode(self) -> ControlRecord {
        let (which, value) = match self {
            Self::Pace(pace) => (0, u64::from(pace == ReceiverPace::Slow)),
            Self::Place(place) => (1, u64::from_le_bytes(place.to_bytes())),
            Self::AskFirst(over) => (2, over.into()),
        };
        ControlRecord::new(UPDATE, which, [value])
    }

    pub(super) fn decode(which: u64, value: u64) -> Result<Self, Violation> {
        Ok(match which {
            0 if value == 0 => Self::Pace(ReceiverPace::Steady),
            0 => Self::Pace(ReceiverPace::Slow),
            1 => Self::Place(Place::from_bytes(value.to_le_bytes())),
            2 => Self::AskFirst(value != 0),
            _ => return Err("an update of no known kind"),
        })
    }
}
