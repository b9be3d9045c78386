//! The ring of a peer that talks a lot: it writes packets into memory here by RDMA, and this
//! side polls that memory instead of a completion queue.
//!
//! A slot is `length u32 | packet | length with all bits turned u32`, zero while it is free.
//! A ring is lent only where adapters place the bytes of one RDMA write in rising order, so a
//! packet is complete when its last word is there. The reader copies it out once and puts the slot
//! back to zero; how many slots are free again goes back in the headers of packets (credits).
//!
//! Adapters tell nobody of what is written into a ring, so an endpoint that is about to sleep asks
//! for a pause:
//!
//! ```text
//! reader                                writer
//! PAUSE_RING           ------------->   from now on all its packets go by send and receive
//!                      <-------------   RING_PAUSED, behind everything that it had written
//! may sleep as long as it likes
//! RESUME_RING          ------------->   may write again
//! ```
//!
//! Until the answer has come the reader looks into the ring every millisecond: the writer answers
//! when it makes progress. The reader resumes when that peer has sent
//! [`FabricSettings::ring_after`](super::FabricSettings::ring_after) packets more; twice as many
//! after each pause, up to 64 times, so that who sleeps a lot is not asked over and over.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::objects::{Bytes, StableBytes};
use crate::packet::HEADER;

/// Bytes of a slot that are not packet.
pub(super) const FRAME: usize = 8;

/// The writing end's account.
#[derive(Debug)]
pub(super) struct RingOut {
    /// Where the peer's ring lies, and its keys, as a word (`spread`).
    pub(super) start: u64,
    pub(super) keys: u64,
    slots: u16,
    slot_bytes: u16,
    next: u16,
    free: u16,
    /// The reader sleeps, or is about to.
    pub(super) paused: bool,
}

impl RingOut {
    /// `None` for numbers that make no sense.
    pub(super) fn new(start: u64, keys: u64, slots: u16, slot_bytes: u16) -> Option<Self> {
        let sane = slots > 0 && usize::from(slot_bytes) > FRAME + HEADER;
        start
            .checked_add(u64::from(slots) * u64::from(slot_bytes))
            .filter(|_| sane)?;
        Some(Self {
            start,
            keys,
            slots,
            slot_bytes,
            next: 0,
            free: slots,
            paused: false,
        })
    }

    /// Whether a packet of `len` bytes may go now.
    pub(super) fn has_room(&self, len: usize) -> bool {
        !self.paused && self.free > 0 && len + FRAME <= usize::from(self.slot_bytes)
    }

    /// Takes the next slot; gives its address. Ask [`has_room`](Self::has_room) before.
    pub(super) fn take(&mut self) -> u64 {
        let at = self.start + u64::from(self.next) * u64::from(self.slot_bytes);
        self.next = (self.next + 1) % self.slots;
        self.free = self.free.saturating_sub(1);
        at
    }

    /// Slots came back. False if the peer gives back more than it had.
    pub(super) fn give_back(&mut self, slots: u16) -> bool {
        match self.free.checked_add(slots) {
            Some(free) if free <= self.slots => {
                self.free = free;
                true
            }
            _ => false,
        }
    }
}

/// Whether a ring is written into, as its reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It may be at any time.
    No,
    /// The writer was asked to stop, and has not answered.
    Asked,
    /// It is not, and the reader may sleep.
    Granted,
}

/// The reading end.
#[derive(Debug)]
pub(super) struct RingIn {
    slots: u16,
    slot_bytes: u16,
    next: u16,
    /// Slots read since the peer was told.
    freed: u16,
}

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Empty,
    /// A packet was copied out, of so many bytes.
    Packet(usize),
    /// Its length makes no sense, or the writer had no slot left.
    Nonsense,
}

impl RingIn {
    pub(super) fn new(slots: u16, slot_bytes: u16) -> Self {
        Self {
            slots,
            slot_bytes,
            next: 0,
            freed: 0,
        }
    }

    pub(super) fn bytes(slots: u16, slot_bytes: u16) -> usize {
        usize::from(slots) * usize::from(slot_bytes)
    }

    /// Looks at the next slot, and copies its packet to `into` (cleared first) if there is one.
    ///
    /// Two cache lines are touched while nothing comes: the slot's first and, once that is there,
    /// its last.
    pub(super) fn poll(&mut self, memory: &Bytes, into: &mut Vec<u8>) -> Slot {
        let at = usize::from(self.next) * usize::from(self.slot_bytes);
        let len = word(memory, at).load(Ordering::Acquire) as usize;
        if len == 0 {
            return Slot::Empty;
        }
        let sane = len + FRAME <= usize::from(self.slot_bytes) && len % 4 == 0;
        if !sane || self.freed >= self.slots {
            return Slot::Nonsense;
        }
        // Acquire: pairs with the adapter's write of this word after the packet's bytes.
        let end = word(memory, at + 4 + len);
        if end.load(Ordering::Acquire) != !(len as u32) {
            return Slot::Empty;
        }
        into.clear();
        into.resize(len, 0);
        memory.read(at + 4, into);
        end.store(0, Ordering::Relaxed);
        // Only the words where a later packet's length or end could stand matter, and any multiple
        // of 4 could.
        for offset in (0..len + 4).step_by(4) {
            word(memory, at + offset).store(0, Ordering::Relaxed);
        }
        self.next = (self.next + 1) % self.slots;
        self.freed += 1;
        Slot::Packet(len)
    }

    /// Slots to give back with the packet that leaves now.
    pub(super) fn take_freed(&mut self) -> u16 {
        core::mem::take(&mut self.freed)
    }

    /// So many are free and unsaid that the peer may be about to run out.
    pub(super) fn must_tell(&self) -> bool {
        self.freed >= self.slots.div_ceil(2)
    }
}

fn word(memory: &Bytes, at: usize) -> &AtomicU32 {
    assert!(at % 4 == 0 && at + 4 <= memory.len(), "a word inside");
    // SAFETY: inside the mapping, aligned (mappings are page-aligned), and only ever touched as
    // words or bytes copied out; an adapter's writes are what atomics are for.
    unsafe { AtomicU32::from_ptr(memory.start().as_ptr().add(at).cast()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet in its frame, as the writing end puts it together in place (`Packets::frame`).
    fn frame(packet: &[u8]) -> Vec<u8> {
        let len = packet.len().next_multiple_of(4);
        let mut out = Vec::with_capacity(len + FRAME);
        out.extend((len as u32).to_le_bytes());
        out.extend(packet);
        out.resize(4 + len, 0);
        out.extend((!(len as u32)).to_le_bytes());
        out
    }

    proptest! {
        #[test]
        fn packets_go_round_with_credits(lengths in proptest::collection::vec(HEADER..100_usize, 1..200), batch in 1..9_usize) {
            let (slots, slot_bytes) = (8_u16, 128_u16);
            let mut memory = Bytes::zeroed(RingIn::bytes(slots, slot_bytes)).unwrap();
            let mut out = RingOut::new(0, 0, slots, slot_bytes).unwrap();
            let mut reader = RingIn::new(slots, slot_bytes);
            let mut got = Vec::new();
            for group in lengths.chunks(batch) {
                let mut sent = Vec::new();
                for (number, len) in group.iter().enumerate() {
                    let packet: Vec<u8> = (0..*len).map(|at| (at ^ number) as u8).collect();
                    let framed = frame(&packet);
                    if !out.has_room(framed.len() - FRAME) {
                        break;
                    }
                    memory.write(out.take() as usize, &framed);
                    sent.push(packet);
                }
                prop_assert!(!sent.is_empty());
                for packet in sent {
                    prop_assert_eq!(reader.poll(&memory, &mut got), Slot::Packet(packet.len().next_multiple_of(4)));
                    prop_assert_eq!(&got[..packet.len()], &packet[..]);
                }
                prop_assert_eq!(reader.poll(&memory, &mut got), Slot::Empty);
                prop_assert!(out.give_back(reader.take_freed()));
            }
            prop_assert!(!out.give_back(1), "more than there are");
        }

        #[test]
        fn any_bytes_in_a_ring_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 256)) {
            let mut memory = Bytes::zeroed(256).unwrap();
            memory.write(0, &bytes);
            let mut reader = RingIn::new(2, 128);
            let mut got = Vec::new();
            for _ in 0..4 {
                if reader.poll(&memory, &mut got) == Slot::Nonsense {
                    break;
                }
            }
        }
    }
}
