//! What travels between two endpoints: the kinds of records, what their words say, and how they are
//! read.
//!
//! A record has a kind, a tag and a payload of words or bytes. The first five kinds bring a message
//! of the application, under the message's tag. If their kind has the bit [`IMMEDIATE`], the
//! payload begins with the message's immediate word.
//!
//! | kind | tag | payload |
//! |---|---|---|
//! | [`EAGER`] | message's | the message |
//! | [`EAGER_STAGED`] | message's | where it lies in a staging pool: page word, extent |
//! | [`EAGER_FRAGMENTED`] | message's | length and flags; its fragments follow |
//! | [`READY_TO_SEND`] | message's | send id, length and flags, address, key |
//! | [`ARENA`] | message's | name, offset, length and how many are ahead |
//! | [`CLEAR_TO_SEND`] | how the next ones go | send id, receive id, first byte, end |
//! | [`SPLIT_COPY`] | | send id, the receiver's line of `splits` |
//! | [`FRAGMENT_STAGED`] | | (receive id, first byte,) page word, extent |
//! | [`FRAGMENT_INLINE`] | receive id or 0 | (first byte,) the fragment |
//! | [`DONE`] | what is done | id, value |
//! | [`RETRACT`] | | send id |
//! | [`GET`], [`PUT`] | | id, key, offset, length |
//! | [`RING_GRANT`], [`RING_SWITCH`] | | ring |
//! | [`UPDATE`] | which | value |
//! | [`LATENCY_PROBE`] | 1: it is over | probe word |
//! | [`ARENA_RETIRED`] | | arena |
//! | [`ACCESSED`] | 1: written | the region's serial number |
//!
//! Ids are those of requests at either end: a send id is its sender's, a receive id its receiver's.
//!
//! # Invariants
//!
//! - What a peer wrote is read once. [`Frame::decode`] refuses what makes no sense in any state of
//!   an endpoint, and panics at nothing.
//! - What was read of a record can be written again, and says the same (`any_record`).

#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod any_record;
mod contents;
mod envelope;

use limic_pools::arena::ArenaMessage;
use limic_pools::staging::BufferDescriptor;
use limic_shm::bytes::{Skip, Source, flagged, unflagged, words};

pub use self::contents::{
    Accessed, ClearToSend, Done, Next, Offer, RegionAccess, SplitRequest, Transfer, Update,
};
pub use self::envelope::Envelope;

/// A message of the application, as its own payload.
pub const EAGER: u8 = 1;
/// A message that lies in a staging buffer.
pub const EAGER_STAGED: u8 = 2;
/// A message whose fragments follow.
pub const EAGER_FRAGMENTED: u8 = 3;
/// A message that its receiver has to ask for.
pub const READY_TO_SEND: u8 = 4;
/// A message in an arena of its sender.
pub const ARENA: u8 = 5;
/// The receiver asks for the bytes of an offer, in fragments.
pub const CLEAR_TO_SEND: u8 = 6;
/// The receiver asks the sender to write a part of an offer.
pub const SPLIT_COPY: u8 = 7;
/// A fragment in a staging buffer.
pub const FRAGMENT_STAGED: u8 = 8;
/// A fragment as the payload of its record.
pub const FRAGMENT_INLINE: u8 = 9;
/// A request of the peer is done.
pub const DONE: u8 = 10;
/// The sender wants its offer back.
pub const RETRACT: u8 = 11;
/// Bytes of a region are asked for.
pub const GET: u8 = 12;
/// Bytes for a region are offered.
pub const PUT: u8 = 13;
/// The receiver grants a private ring.
pub const RING_GRANT: u8 = 14;
/// The sender goes on in its private ring.
pub const RING_SWITCH: u8 = 15;
/// Something about the sender has changed.
pub const UPDATE: u8 = 16;
/// The time of a cache line between the two is measured.
pub const LATENCY_PROBE: u8 = 17;
/// An arena of the sender is no more.
pub const ARENA_RETIRED: u8 = 18;
/// A region was accessed without its owner's help.
pub const ACCESSED: u8 = 19;

/// Bit of a message's kind: the payload begins with the message's immediate word.
pub const IMMEDIATE: u8 = 0x80;

/// Bytes of an immediate word ahead of a payload.
pub const IMMEDIATE_BYTES: u64 = 8;

/// Bytes of the offset ahead of a fragment in a record.
pub const OFFSET_BYTES: u64 = 8;

/// Most words of a control record.
pub const WORDS: usize = 6;

/// What is wrong with what a peer sent.
pub use limic_pools::Violation;

const SHORT: Violation = "a record that is too short for its kind";

/// The kind of a record that brings a message, which may have an immediate word.
#[inline(always)]
#[must_use]
pub fn message_kind(kind: u8, immediate: Option<u64>) -> u8 {
    kind | immediate.map_or(0, |_| IMMEDIATE)
}

/// Bytes of a record that brings a message of so many bytes, which may have an immediate word.
#[inline(always)]
#[must_use]
pub fn message_bytes(len: u64, immediate: Option<u64>) -> u64 {
    len + immediate.map_or(0, |_| IMMEDIATE_BYTES)
}

/// Whether a record of this kind brings a message of the application.
#[must_use]
pub const fn is_message(kind: u8) -> bool {
    kind & !IMMEDIATE <= ARENA
}

/// A record of a peer, whose words were read once. What they say of this endpoint's requests, rings
/// and memory is still to be checked by whom it concerns.
#[derive(Debug)]
pub enum Frame<'a, S: ?Sized> {
    /// A message: its bytes.
    Eager(Envelope, Skip<&'a S>),
    /// A message in a staging buffer.
    EagerStaged(Envelope, BufferDescriptor),
    /// A message of so many bytes; the flag says that its sender had to wait with the one before.
    EagerFragmented(Envelope, u64, bool),
    /// A message that has to be asked for.
    ReadyToSend(Envelope, Offer),
    /// A message in an arena.
    Arena(Envelope, ArenaMessage),
    /// An offer is asked for.
    ClearToSend(ClearToSend),
    /// A part of an offer is to be written.
    SplitCopy(SplitRequest),
    /// A fragment in a staging buffer.
    FragmentStaged(Transfer, BufferDescriptor),
    /// A fragment: its bytes.
    FragmentInline(Transfer, Skip<&'a S>),
    /// What became of the request of this id.
    Done(u64, Done),
    /// The send of this id is to be taken back.
    Retract(u64),
    /// Bytes of a region are asked for.
    Get(RegionAccess),
    /// Bytes for a region are offered.
    Put(RegionAccess),
    /// The private ring of this number is granted.
    RingGrant(u32),
    /// What follows comes through the private ring of this number.
    RingSwitch(u32),
    /// Something about the peer has changed.
    Update(Update),
    /// A line is to be answered, at the probe word of this number.
    LatencyProbe(u32),
    /// The probe at the word of this number is over.
    LatencyProbeDone(u32),
    /// The arena of this number is no more.
    ArenaRetired(u32),
    /// The peer has accessed a region by itself.
    Accessed(Accessed),
}

impl<'a, S: Source + ?Sized> Frame<'a, S> {
    /// Reads a record that came from a peer.
    ///
    /// # Errors
    /// What makes no sense, whatever this endpoint's state.
    #[inline(always)]
    pub fn decode(from: u32, kind: u8, tag: u64, record: &'a S) -> Result<Self, Violation> {
        if is_message(kind) {
            return Self::decode_message(from, kind, tag, record);
        }
        let ahead = |skip| Skip {
            inner: record,
            skip,
        };
        Ok(match kind {
            FRAGMENT_STAGED => match eager_fragment(kind, record) {
                Some(staged) => Self::FragmentStaged(Transfer::Eager, staged),
                None => {
                    let [receive, at, page, extent] = read(record)?;
                    Self::FragmentStaged(Transfer::Asked { receive, at }, [page, extent].into())
                }
            },
            FRAGMENT_INLINE if tag == 0 => Self::FragmentInline(Transfer::Eager, ahead(0)),
            FRAGMENT_INLINE => {
                let [at] = read(record)?;
                let transfer = Transfer::Asked { receive: tag, at };
                Self::FragmentInline(transfer, ahead(OFFSET_BYTES))
            }
            _ => return Self::decode_control(kind, tag, record),
        })
    }

    #[inline(always)]
    fn decode_message(from: u32, kind: u8, tag: u64, record: &'a S) -> Result<Self, Violation> {
        let (envelope, body) = message(from, kind, tag, record)?;
        Ok(match kind & !IMMEDIATE {
            EAGER => Self::Eager(envelope, body),
            EAGER_STAGED => Self::EagerStaged(envelope, staged(&body)?),
            EAGER_FRAGMENTED => {
                let [word] = read(&body)?;
                let (len, waited) = fragmented_from(word);
                Self::EagerFragmented(envelope, len, waited)
            }
            READY_TO_SEND => Self::ReadyToSend(envelope, Offer::decode(read(&body)?)),
            ARENA => Self::Arena(envelope, arena(&body)?),
            _ => return Err("a record of a kind that does not exist"),
        })
    }

    #[inline(never)]
    fn decode_control(kind: u8, tag: u64, record: &'a S) -> Result<Self, Violation> {
        let one = || read(record).map(|[word]: [u64; 1]| word);
        Ok(match kind {
            CLEAR_TO_SEND => {
                let [send, receive, start, end] = read(record)?;
                Self::ClearToSend(ClearToSend {
                    send,
                    receive,
                    start,
                    end,
                    next: Next::decode(tag)?,
                })
            }
            SPLIT_COPY => {
                let [send, line] = read(record)?;
                let line = number(line)?;
                Self::SplitCopy(SplitRequest { send, line })
            }
            DONE => {
                let [id, value] = read(record)?;
                Self::Done(id, Done::decode(tag, value)?)
            }
            RETRACT => Self::Retract(one()?),
            GET => Self::Get(RegionAccess::decode(read(record)?)),
            PUT => Self::Put(RegionAccess::decode(read(record)?)),
            RING_GRANT => Self::RingGrant(number(one()?)?),
            RING_SWITCH => Self::RingSwitch(number(one()?)?),
            UPDATE => Self::Update(Update::decode(tag, one()?)?),
            LATENCY_PROBE if tag == 0 => Self::LatencyProbe(number(one()?)?),
            LATENCY_PROBE => Self::LatencyProbeDone(number(one()?)?),
            ARENA_RETIRED => Self::ArenaRetired(number(one()?)?),
            ACCESSED => Self::Accessed(Accessed::decode(tag, one()?)?),
            _ => return Err("a record of a kind that does not exist"),
        })
    }
}

/// A message as its own payload, if the record is one: what its receiver is told, and its bytes.
#[inline(always)]
#[must_use]
pub fn eager<S: Source + ?Sized>(
    from: u32,
    kind: u8,
    tag: u64,
    record: &S,
) -> Option<(Envelope, Skip<&S>)> {
    if kind & !IMMEDIATE != EAGER {
        return None;
    }
    message(from, kind, tag, record).ok()
}

/// What the receiver of a message is told, and what is behind that in its record.
#[inline(always)]
fn message<S: Source + ?Sized>(
    from: u32,
    kind: u8,
    tag: u64,
    record: &S,
) -> Result<(Envelope, Skip<&S>), Violation> {
    let mut envelope = Envelope::new(from, tag);
    let mut body = Skip {
        inner: record,
        skip: 0,
    };
    if kind & IMMEDIATE != 0 {
        let [word] = read(record)?;
        envelope.immediate = Some(word);
        body.skip = IMMEDIATE_BYTES;
    }
    Ok((envelope, body))
}

/// The length word of [`EAGER_FRAGMENTED`]. `waited`: the sender had to wait with the message
/// before.
#[inline(always)]
#[must_use]
pub fn fragmented(len: u64, waited: bool) -> u64 {
    flagged(waited.into(), len)
}

/// What such a word says: the length, and whether the sender had to wait.
#[inline(always)]
#[must_use]
pub fn fragmented_from(word: u64) -> (u64, bool) {
    let (waited, len) = unflagged(word);
    (len, waited != 0)
}

/// Where the bytes of a fragment lie that nobody asked for, if the record is of one: the words of a
/// short [`FRAGMENT_STAGED`].
#[inline(always)]
#[must_use]
pub fn eager_fragment(kind: u8, record: &(impl Source + ?Sized)) -> Option<BufferDescriptor> {
    (kind == FRAGMENT_STAGED && record.len() == 16).then(|| words::<2>(record).into())
}

/// Where the bytes of a message lie: the words of [`EAGER_STAGED`].
///
/// # Errors
/// The record is too short.
#[inline(always)]
pub fn staged(record: &(impl Source + ?Sized)) -> Result<BufferDescriptor, Violation> {
    Ok(read::<2>(record)?.into())
}

/// What the words of [`ARENA`] say.
///
/// # Errors
/// The record is too short.
#[inline(always)]
pub fn arena(record: &(impl Source + ?Sized)) -> Result<ArenaMessage, Violation> {
    Ok(ArenaMessage::decode(read(record)?))
}

/// The first words of a record, all of which it must have.
#[inline(always)]
fn read<const N: usize>(record: &(impl Source + ?Sized)) -> Result<[u64; N], Violation> {
    if record.len() < N as u64 * 8 {
        return Err(SHORT);
    }
    Ok(words(record))
}

/// A number of something that there are fewer than 2^32 of.
fn number(word: u64) -> Result<u32, Violation> {
    u32::try_from(word).map_err(|_| "a number of something that does not exist")
}

/// A record of words before it has room in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRecord {
    /// Its kind.
    pub kind: u8,
    /// Its tag.
    pub tag: u64,
    words: [u64; WORDS],
    count: usize,
}

impl ControlRecord {
    /// A record of these words.
    #[must_use]
    pub fn new<const N: usize>(kind: u8, tag: u64, given: [u64; N]) -> Self {
        const { assert!(N <= WORDS, "too many words for a record") };
        let mut words = [0; WORDS];
        words[..N].copy_from_slice(&given);
        Self {
            kind,
            tag,
            words,
            count: N,
        }
    }

    /// A record that brings a message.
    #[must_use]
    pub fn message<const N: usize>(
        kind: u8,
        tag: u64,
        immediate: Option<u64>,
        given: [u64; N],
    ) -> Self {
        const { assert!(N < WORDS, "too many words for a record") };
        let mut record = Self::new(kind, tag, given);
        if let Some(word) = immediate {
            record.kind |= IMMEDIATE;
            record.words.rotate_right(1);
            record.words[0] = word;
            record.count += 1;
        }
        record
    }

    /// Its payload.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

#[cfg(test)]
mod tests;

/// The program of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
