//! The rings through which this endpoint reaches a peer, and the peer's doorbell.
//!
//! # Invariants
//! - Records leave through one ring at a time, so they arrive in order: at first the ring that all
//!   peers share, and a private one from the record on that announces it.
//! - The peer is rung after each record if it sleeps.

use limic_records::{self as frame, ControlRecord, EAGER, RING_SWITCH, WORDS};
use limic_shm::bytes::{Skip, gather, gather_behind, gather_part, put_words};
use limic_shm::control::PeerDoorbell;
use limic_shm::process;
use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineProducer;
use limic_shm::ring::shared::{self, SharedProducer};
use limic_shm::ring::wakeup::Waker;

use crate::counters::Row;
use crate::raw::RawSlice;

/// Payload that fits a slot of the shared ring.
const SHARED_PAYLOAD: u64 = shared::MAX_PAYLOAD as u64;

enum Ring {
    Shared(SharedProducer<Mapped>),
    Private(LineProducer<Mapped>),
}

/// Reserves room in the ring in use, fills it, and publishes it under a kind and a tag. False:
/// there is no room now. Each ring has code of its own for the whole record.
macro_rules! publish {
    ($ring:expr, $bytes:expr, $kind:expr, $tag:expr, |$room:ident| $fill:expr) => {
        match &mut $ring {
            Ring::Private(ring) => {
                publish!(@ ring.reserve_tagged($bytes, $tag), $kind, $tag, |$room| $fill)
            }
            Ring::Shared(ring) => publish!(@ ring.reserve($bytes), $kind, $tag, |$room| $fill),
        }
    };
    (@ $reserved:expr, $kind:expr, $tag:expr, |$room:ident| $fill:expr) => {
        match $reserved {
            Some(mut $room) => {
                $fill;
                $room.publish($kind, $tag);
                true
            }
            None => false,
        }
    };
}

/// The way of records to one peer.
pub(crate) struct Outbound {
    ring: Ring,
    /// A private ring that was granted; its announcement waits for room in the shared one.
    pending_switch: Option<(u32, LineProducer<Mapped>)>,
    waker: Waker<Mapped>,
    doorbell: PeerDoorbell,
    /// What comes from the peer, and how often it is woken.
    counts: Row,
    /// Most bytes in a record.
    longest_record: u64,
}

/// Bytes of a message that a record may carry as a fragment.
pub(crate) struct InlineFragment<'a> {
    pub(crate) data: &'a [RawSlice],
    /// The first byte, and the first behind what is left.
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// The receive that asked for it, if one did.
    pub(crate) receive: Option<u64>,
}

impl Outbound {
    pub(crate) fn new(
        shared: SharedProducer<Mapped>,
        waker: Waker<Mapped>,
        doorbell: PeerDoorbell,
        counts: Row,
        longest_record: u64,
    ) -> Self {
        Self {
            ring: Ring::Shared(shared),
            pending_switch: None,
            waker,
            doorbell,
            counts,
            longest_record,
        }
    }

    /// Most bytes in a record.
    pub(crate) fn longest_record(&self) -> u64 {
        self.longest_record
    }

    /// Pushes a short message, of so many lines at most, under the tag of the record before,
    /// through a private ring: whether the peer is to be rung. `None`: nothing was done.
    ///
    /// # Safety
    /// The slice is readable during the call.
    #[inline(always)]
    pub(crate) unsafe fn push_short<const LINES: usize>(
        &mut self,
        tag: u64,
        immediate: Option<u64>,
        data: RawSlice,
    ) -> Option<bool> {
        // A switch is announced before the ring is a private one, so none is pending then.
        let Ring::Private(ring) = &mut self.ring else {
            return None;
        };
        let kind = frame::message_kind(EAGER, immediate);
        // SAFETY: the caller's promise, and no slice of an application lies in a ring.
        let pushed =
            unsafe { ring.push_same_tag::<LINES>(kind, tag, immediate, data.start, data.len) };
        pushed.then(|| self.waker.must_ring())
    }

    /// Pushes a message as its own payload. False: no room now.
    ///
    /// # Safety
    /// The slices are readable during the call, and `len` is their length together.
    #[inline(always)]
    pub(crate) unsafe fn push_eager(
        &mut self,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
        len: u64,
    ) -> bool {
        let bytes = frame::message_bytes(len, immediate) as u32;
        let kind = frame::message_kind(EAGER, immediate);
        publish!(self.ring, bytes, kind, tag, |room| match immediate {
            // SAFETY: the caller's promise; room for `len` is reserved.
            None => unsafe { gather(data, &mut room) },
            // SAFETY: as above, with room for the word.
            Some(word) => unsafe { gather_behind(word, data, &mut room) },
        }) && self.wake()
    }

    /// Whether a message of `len` bytes may be its own payload: slots of the shared ring are small.
    #[inline(always)]
    pub(crate) fn fits(&self, len: u64, immediate: Option<u64>) -> bool {
        match &self.ring {
            Ring::Private(_) => true,
            Ring::Shared(_) => frame::message_bytes(len, immediate) <= SHARED_PAYLOAD,
        }
    }

    /// Pushes a fragment as the payload of its record; gives its length. `None`: no room now.
    ///
    /// # Safety
    /// The slices are readable during the call, and have `end` bytes, more than `at`.
    pub(crate) unsafe fn push_fragment(&mut self, fragment: &InlineFragment<'_>) -> Option<u64> {
        let (at, left) = (fragment.at, fragment.end - fragment.at);
        let (ahead, tag) = match fragment.receive {
            None => (0, 0),
            Some(receive) => (frame::OFFSET_BYTES, receive),
        };
        if !self.announce_switch_if_pending() {
            return None;
        }
        let most = match &self.ring {
            Ring::Private(_) => self.longest_record,
            Ring::Shared(_) => SHARED_PAYLOAD,
        };
        let len = left.min(most - ahead);
        let bytes = (ahead + len) as u32;
        let pushed = publish!(self.ring, bytes, frame::FRAGMENT_INLINE, tag, |room| {
            if ahead > 0 {
                // SAFETY: reserved.
                unsafe { put_words(&mut room, &[at]) };
            }
            let mut rest = Skip {
                inner: &mut room,
                skip: ahead,
            };
            // SAFETY: the caller's promise; `len` bytes are left, and reserved.
            unsafe { gather_part(fragment.data, at, len, &mut rest) }
        });
        (pushed && self.wake()).then_some(len)
    }

    /// Pushes a control record. False: no room now.
    pub(crate) fn push_control(&mut self, control: &ControlRecord) -> bool {
        let (kind, tag, words) = (control.kind, control.tag, control.words());
        if !self.announce_switch_if_pending() {
            return false;
        }
        let bytes = size_of_val(words) as u32;
        publish!(self.ring, bytes, kind, tag, |room| {
            // SAFETY: reserved.
            unsafe { put_words(&mut room, words) }
        }) && self.wake()
    }

    /// Pushes a record of words that brings a message. False: no room now.
    #[inline(always)]
    pub(crate) fn push_message<const N: usize>(
        &mut self,
        kind: u8,
        tag: u64,
        immediate: Option<u64>,
        words: [u64; N],
    ) -> bool {
        match immediate {
            None => self.push_words(kind, tag, words),
            Some(_) => self.push_control(&ControlRecord::message(kind, tag, immediate, words)),
        }
    }

    /// Asks for the lines of a record of so many words, beside its header, that comes next: see
    /// [`LineProducer::ask_for_next`]. Slots of the shared ring are not known beforehand.
    #[inline(always)]
    pub(crate) fn ask_for_next(&self, words: usize) {
        if let Ring::Private(ring) = &self.ring {
            ring.ask_for_next(1 + words as u64);
        }
    }

    /// Pushes a record of words. False: no room now.
    #[inline(always)]
    pub(crate) fn push_words<const N: usize>(
        &mut self,
        kind: u8,
        tag: u64,
        words: [u64; N],
    ) -> bool {
        const { assert!(N <= WORDS, "all rings hold as many") };
        let bytes = (N * 8) as u32;
        if !self.announce_switch_if_pending() {
            return false;
        }
        let pushed = match &mut self.ring {
            Ring::Private(ring) => {
                ring.push_words_same_tag(kind, tag, words)
                    || publish!(@ ring.reserve_tagged(bytes, tag), kind, tag, |room| {
                        room.write_words(words)
                    })
            }
            Ring::Shared(ring) => publish!(@ ring.reserve(bytes), kind, tag, |room| {
                // SAFETY: reserved.
                unsafe { put_words(&mut room, &words) }
            }),
        };
        pushed && self.wake()
    }

    /// Whether any record of words has room now.
    pub(crate) fn has_room(&mut self) -> bool {
        const BYTES: u32 = (WORDS * 8) as u32;
        self.announce_switch_if_pending()
            && match &mut self.ring {
                Ring::Private(ring) => ring.reserve(BYTES).is_some(),
                Ring::Shared(ring) => ring.has_room(),
            }
    }

    /// A message of several records is out: its credit is looked for off the way of the next one.
    pub(crate) fn refresh_credit(&mut self) {
        if let Ring::Private(ring) = &mut self.ring {
            ring.refresh_credit();
        }
    }

    /// The peer grants a private ring under this number.
    pub(crate) fn granted(&mut self, number: u32, ring: LineProducer<Mapped>) {
        if let Ring::Shared(_) = self.ring {
            self.pending_switch = Some((number, ring));
            // If there is no room now, the next record announces it first.
            self.announce_switch_if_pending();
        }
    }

    /// Announces a granted ring, behind everything that was pushed before. False: no room yet.
    ///
    /// The receiver looks into the private ring only after it has met this record, so the pair's
    /// order holds across the switch.
    #[inline(always)]
    pub(crate) fn announce_switch_if_pending(&mut self) -> bool {
        self.pending_switch.is_none() || self.announce_switch()
    }

    #[cold]
    fn announce_switch(&mut self) -> bool {
        let Some((number, ring)) = self.pending_switch.take() else {
            return true;
        };
        if let Ring::Shared(shared) = &mut self.ring {
            let Some(mut room) = shared.reserve(8) else {
                self.pending_switch = Some((number, ring));
                return false;
            };
            // SAFETY: reserved.
            unsafe { put_words(&mut room, &[u64::from(number)]) };
            room.publish(RING_SWITCH, 0);
            self.ring = Ring::Private(ring);
            return self.wake();
        }
        true
    }

    /// The last receipt of the peer, which gives them for what came through a private ring.
    #[inline(always)]
    pub(crate) fn receipt(&self) -> u64 {
        match &self.ring {
            Ring::Private(ring) => ring.receipt(),
            Ring::Shared(_) => 0,
        }
    }

    /// Rings the peer if it sleeps. While it is awake this is one load of a line that stays in
    /// this core's cache. False: nobody reads what was pushed.
    #[inline(always)]
    pub(crate) fn wake(&mut self) -> bool {
        !self.waker.must_ring() || self.ring_doorbell()
    }

    /// Rings the peer. False: this is a forked child, and the ring is a copy that nobody reads.
    #[cold]
    #[inline(never)]
    pub(crate) fn ring_doorbell(&mut self) -> bool {
        if process::was_forked() && !self.waker.has_receiver() {
            return false;
        }
        self.doorbell.ring();
        self.counts.rang();
        true
    }
}

impl limic_pools::staging::Peer for Outbound {
    #[inline(always)]
    fn wake(&mut self) {
        self.wake();
    }

    #[inline(always)]
    fn received_bytes(&self) -> u64 {
        self.counts.received_bytes()
    }

    #[inline(always)]
    fn is_counted(&self) -> bool {
        self.counts.is_own()
    }
}
