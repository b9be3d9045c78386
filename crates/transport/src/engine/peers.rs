//! The table of peers: who they are, and the link to each that has been attached.

use core::cell::Cell;
use std::collections::{HashMap, VecDeque};

use limic_shm::control::Bell;
use limic_shm::ring::line::LineProducer;
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::sleep::Waker;
use limic_shm::ring::{Mapped, Memory, shared};
use limic_shm::ring::{PackedFlags, ReleaseFlags};
use limic_shm::segment::PeerSegment;
use limic_shm::sync::Ordering;

use super::hand_over::Passing;
use super::in_hand::Hand;
use super::inbound::Inbound;
use super::peer_arenas::PeerArenas;
use super::wire::{Control, EAGER, EAGER_IMMEDIATE, IMMEDIATE_BYTES, SWITCH, WORDS};
use crate::buffer::{gather, gather_behind, put_words};
use crate::counters::Row;
use crate::error::PeerFailure;
use crate::kmod::KmodPair;
use crate::policy::adapt::Adapter;
use crate::policy::lag::Lag;
use crate::policy::{Capabilities, Skew, Thresholds};
use crate::raw::{RawSlice, RequestId};
use crate::single_copy::RemoteProcess;
use crate::topology::{Locality, Place};
use crate::{Address, Error, Peer, Result};

/// Payload that fits a slot of the shared ring.
pub(crate) const SHARED_INLINE: u64 = shared::MAX_PAYLOAD as u64;

/// Regions of one peer that are found again at once.
pub(crate) const REGION_PLACES: usize = 8;

/// Something that waits for its turn to go to a peer.
pub(crate) enum Outgoing {
    /// A send whose turn has not come.
    Message(RequestId),
    /// A control record.
    Control(Control),
}

/// One peer.
pub(crate) struct PeerEntry {
    pub(crate) address: Address,
    pub(crate) link: Option<Box<Link>>,
    /// The connection of the fabric, for a peer that is reached over verbs.
    pub(crate) wire: Option<u32>,
    /// What could not be pushed yet, in order. While it is not empty, everything queues behind it.
    pub(crate) backlog: VecDeque<Outgoing>,
    /// The peer stands in the list of peers with a backlog.
    pub(crate) listed: bool,
    /// A connection was started and not answered.
    pub(crate) connecting: bool,
    /// It stands in the list of peers whose first contact waits.
    pub(crate) put_off: bool,
    pub(crate) failure: Option<PeerFailure>,
    /// Records that came through the shared ring; decides who gets a private one.
    pub(crate) heard: u32,
    /// The private ring, in this endpoint's segment, that the peer was given.
    pub(crate) ring: Option<u32>,
    /// What was sent to it and received from it.
    pub(crate) counts: Row,
}

/// The ring through which this endpoint reaches a peer.
pub(crate) enum Out {
    Shared(SharedProducer<Mapped>),
    Private(LineProducer<Mapped>),
}

/// An attached peer: its segment, mapped here, and what this pair can do.
pub(crate) struct Link {
    pub(crate) out: Out,
    /// A private ring that was granted; its announcement waits for room in the shared one.
    pub(crate) switching: Option<(u32, LineProducer<Mapped>)>,
    pub(crate) waker: Waker<Mapped>,
    pub(crate) bell: Bell,
    /// Where the wake-ups are counted.
    pub(crate) counts: Row,
    /// The line on which the peer says how it is.
    pub(crate) status: Mapped,
    /// The peer's table of regions.
    pub(crate) regions: Mapped,
    /// Where accesses to them are announced.
    pub(crate) access_slots: Mapped,
    /// Places in that table where regions were found last, by the low bits of their keys.
    pub(crate) region_places: [Cell<u32>; REGION_PLACES],
    pub(crate) segment: PeerSegment,
    /// Through which the peer sends longer messages, and in which this endpoint answers.
    pub(crate) pool: Mapped,
    pub(crate) released: ReleaseFlags<Mapped>,
    pub(crate) loans_released: PackedFlags<Mapped>,
    /// Which messages go without asking the receiver.
    pub(crate) thresholds: Thresholds,
    /// And those of them that are shorter than this in one record.
    pub(crate) record_below: u64,
    /// And messages shorter than this do not ask the receiver either, while there are pieces in hand for them.
    pub(crate) answers_below: u64,
    /// The longest that go whole in a piece in hand.
    pub(crate) longest_whole: u64,
    /// The most that a record takes.
    pub(crate) longest_record: u64,
    /// The last message that went in pieces had to wait for room.
    pub(crate) held_up: bool,
    /// What was read and is written next.
    pub(crate) hand: Hand,
    /// The message from the peer that is coming in pieces.
    pub(crate) inbound: Option<Inbound>,
    /// While the peer lags behind, messages shorter than this go ahead of it; see `ahead`.
    pub(crate) ahead_below: u64,
    /// Whether the peer lags behind, by its own word.
    pub(crate) skew: Skew,
    /// How this endpoint keeps up with the peer.
    pub(crate) lag: Lag,
    /// What was measured of long messages from the peer; made at the first one.
    pub(crate) adapter: Option<Box<Adapter>>,
    /// How far away the peer is by what was measured.
    pub(crate) passing: Passing,
    /// Where the peer runs; `None` in this process.
    pub(crate) place: Option<Place>,
    /// Bytes of a chunk of a pipelined message.
    pub(crate) chunk_bytes: u64,
    /// Most bytes in the pool that are on their way to this peer.
    pub(crate) window: u64,
    pub(crate) locality: Locality,
    pub(crate) capabilities: Capabilities,
    /// The peer is in this process.
    pub(crate) same_process: bool,
    pub(crate) remote: RemoteProcess,
    pub(crate) kmod: KmodPair,
    /// This endpoint's number at the peer.
    pub(crate) my_number: u32,
    pub(crate) channels: Vec<u32>,
    pub(crate) arenas: PeerArenas,
}

impl Link {
    /// Pushes a message. False: no room now.
    ///
    /// # Safety
    /// The slices are readable during the call, and `len` is their length together.
    #[inline(always)]
    pub(crate) unsafe fn push(
        &mut self,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
        len: u64,
    ) -> bool {
        /// The payload and its kind, written into a reservation of either ring.
        macro_rules! publish {
            ($room:expr) => {{
                let Some(mut room) = $room else {
                    return false;
                };
                match immediate {
                    // SAFETY: the caller's promise; room for `len` is reserved.
                    None => unsafe { gather(data, &mut room) },
                    // SAFETY: as above, with room for the word.
                    Some(word) => unsafe { gather_behind(word, data, &mut room) },
                }
                let kind = immediate.map_or(EAGER, |_| EAGER_IMMEDIATE);
                room.publish(kind, 0, tag);
            }};
        }
        let bytes = (len + immediate.map_or(0, |_| IMMEDIATE_BYTES)) as u32;
        match &mut self.out {
            Out::Private(ring) => publish!(ring.reserve_tagged(bytes, tag)),
            Out::Shared(ring) => publish!(ring.reserve(bytes)),
        }
        self.wake();
        true
    }

    /// A message in pieces is out: its credit is looked for off the way of the next one.
    pub(crate) fn look_ahead(&mut self) {
        if let Out::Private(ring) = &mut self.out {
            ring.look_ahead();
        }
    }

    /// Pushes a control record.
    pub(crate) fn push_control(&mut self, control: &Control) -> bool {
        self.push_words(control.kind, control.tag, control.words)
    }

    /// Pushes a record of words, [`WORDS`] at most.
    #[inline(always)]
    pub(crate) fn push_words<const N: usize>(
        &mut self,
        kind: u8,
        tag: u64,
        words: [u64; N],
    ) -> bool {
        const { assert!(N <= WORDS, "all rings hold as many") };
        let bytes = (N * 8) as u32;
        if !self.finish_switch() {
            return false;
        }
        match &mut self.out {
            Out::Private(ring) => {
                if !ring.push_words_same_tag(kind, tag, words) {
                    let Some(mut room) = ring.reserve_tagged(bytes, tag) else {
                        return false;
                    };
                    room.write_words(words);
                    room.publish(kind, 0, tag);
                }
            }
            Out::Shared(ring) => {
                let Some(mut room) = ring.reserve(bytes) else {
                    return false;
                };
                put_words(&mut room, &words);
                room.publish(kind, 0, tag);
            }
        }
        self.wake();
        true
    }

    /// Whether a message goes in one record without asking the receiver. Behind the first cache line's worth of bytes that
    /// is not so while the receiver holds more unexpected bytes than its budget; its status line stays in this
    /// core's cache meanwhile.
    #[inline(always)]
    pub(crate) fn may_go_eager(&self, len: u64) -> bool {
        len < self.thresholds.inline_below
            || (len < self.record_below && self.status.word32(0).load(Ordering::Relaxed) == 0)
    }

    /// Rings the peer if it sleeps. While it is awake this is one load of a line that stays in
    /// this core's cache.
    #[inline(always)]
    pub(crate) fn wake(&mut self) {
        if self.waker.must_ring() {
            self.ring_bell();
        }
    }

    #[cold]
    pub(crate) fn ring_bell(&mut self) {
        self.bell.ring();
        self.counts.rang();
    }

    /// Whether a payload of `len` bytes travels in the ring itself.
    #[inline(always)]
    pub(crate) fn fits_ring(&self, len: u64, immediate: Option<u64>) -> bool {
        match &self.out {
            Out::Private(_) => true,
            Out::Shared(_) => len + immediate.map_or(0, |_| IMMEDIATE_BYTES) <= SHARED_INLINE,
        }
    }

    /// Announces a granted ring, behind everything that was pushed before. False: no room yet.
    ///
    /// The receiver looks into the private ring only after it has met this record, so the pair's
    /// order holds across the switch.
    #[inline(always)]
    pub(crate) fn finish_switch(&mut self) -> bool {
        if self.switching.is_none() {
            return true;
        }
        self.announce_switch()
    }

    #[cold]
    fn announce_switch(&mut self) -> bool {
        let Some((number, ring)) = self.switching.take() else {
            return true;
        };
        if let Out::Shared(shared) = &mut self.out {
            let Some(mut room) = shared.reserve((WORDS * 8) as u32) else {
                self.switching = Some((number, ring));
                return false;
            };
            put_words(&mut room, &Control::new(SWITCH, [u64::from(number)]).words);
            room.publish(SWITCH, 0, 0);
            self.out = Out::Private(ring);
            self.wake();
        }
        true
    }
}

/// All peers, by number and by address.
pub(crate) struct Peers {
    entries: Vec<PeerEntry>,
    by_id: HashMap<u64, u32>,
    pub(crate) me: Option<u32>,
    /// Where is counted what has to do with peers that have not been met.
    shared_row: Row,
    /// Attached peers.
    pub(crate) attached: u32,
    /// Endpoints of this node that are known by address, this one included if it is.
    pub(crate) local: u32,
}

impl Peers {
    pub(crate) fn new(shared_row: Row) -> Self {
        Self {
            shared_row,
            entries: Vec::new(),
            by_id: HashMap::new(),
            me: None,
            attached: 0,
            local: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The number of the endpoint with this address; a new one if it was not known. `None` if the address has the
    /// id of a known endpoint and differs otherwise: it was tampered with.
    pub(crate) fn enter(&mut self, address: &Address, myself: &Address) -> Option<u32> {
        if let Some(number) = self.by_id.get(&address.id) {
            let known = self.entries.get(*number as usize)?;
            return (known.address == *address).then_some(*number);
        }
        let number = self.len();
        self.by_id.insert(address.id, number);
        self.local += u32::from(address.is_local());
        if address.id == myself.id {
            self.me = Some(number);
        }
        self.entries.push(PeerEntry {
            address: *address,
            link: None,
            wire: None,
            backlog: VecDeque::new(),
            listed: false,
            connecting: false,
            put_off: false,
            failure: None,
            heard: 0,
            ring: None,
            counts: self.shared_row.clone(),
        });
        Some(number)
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut PeerEntry> {
        self.entries.get_mut(number as usize)
    }

    /// Like [`get`](Self::get), with the error that a caller of the interface sees.
    #[inline]
    pub(crate) fn known(&mut self, number: u32) -> Result<&mut PeerEntry> {
        let known = self.len();
        match self.entries.get_mut(number as usize) {
            Some(entry) => Ok(entry),
            // Not by `ok_or`: that makes the error, and drops it, each time.
            None => Err(Error::UnknownPeer {
                peer: Peer(number),
                known,
            }),
        }
    }

    /// Whether there is such a peer, and it has not failed.
    #[inline(always)]
    pub(crate) fn is_alive(&self, number: u32) -> bool {
        let entry = self.entries.get(number as usize);
        entry.is_some_and(|entry| entry.failure.is_none())
    }

    pub(crate) fn link(&mut self, number: u32) -> Option<&mut Link> {
        self.get(number)?.link.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &PeerEntry)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(number, entry)| (number as u32, entry))
    }
}

impl core::fmt::Debug for Peers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} peers, {} attached",
            self.entries.len(),
            self.attached
        )
    }
}
