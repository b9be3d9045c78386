//! The rings that this endpoint reads, and what happens to a record.

use limic_shm::ring::line::LineConsumer;
use limic_shm::ring::shared::{Peek, SharedConsumer};
use limic_shm::ring::{LINE, Mapped};

use super::Core;
use super::requests::Requests;
use super::wire::{self, Control};
use crate::buffer::{Source, words};
use crate::counters::Event;
use crate::error::PeerFailure;

/// Records taken from one ring before the others get their turn.
const BATCH: usize = 32;
/// Records through the shared ring after which a peer gets a private one.
const TALKS_A_LOT: u32 = 4;

/// A private ring with a sender.
struct Private {
    ring: LineConsumer<Mapped>,
    number: u32,
    peer: u32,
    /// The last look at it found nothing: whoever waits, waits for the next record.
    idle: bool,
}

impl Private {
    /// Takes messages that come in the order of the receives that wait in line for them, as long as they do: how many, and
    /// their bytes.
    ///
    /// Lines of this process for each, beside the ring's: its entry in the table of requests, and its room.
    #[inline(never)]
    fn take_in_order(&mut self, requests: &mut Requests) -> (usize, u64) {
        let (mut taken, mut bytes) = (0, 0);
        let peer = self.peer;
        // As in `Inputs::drain`.
        let most = if self.idle { 1 } else { BATCH };
        while taken < most {
            let mut len = 0;
            let delivered = self.ring.take_if(|record| {
                len = record.len;
                record.kind == wire::EAGER
                    && requests.deliver_to_first(peer, record.tag, None, record)
            });
            if !delivered {
                break;
            }
            taken += 1;
            bytes += u64::from(len);
        }
        (taken, bytes)
    }
}

/// All rings of this endpoint's segment.
pub(crate) struct Inputs {
    shared: SharedConsumer<Mapped>,
    private: Vec<Private>,
    turn: u32,
}

impl Inputs {
    pub(crate) fn new(shared: SharedConsumer<Mapped>) -> Self {
        Self {
            shared,
            private: Vec::new(),
            turn: 0,
        }
    }

    /// Takes what has come. An idle poll reads one line per private ring and one of the shared ring, all of
    /// which stay in this core's cache until a sender writes them.
    ///
    /// The private ring of peer `but` is left alone: somebody looks at it who waits for just that.
    #[inline]
    pub(crate) fn drain(&mut self, core: &mut Core, but: Option<u32>) -> bool {
        let mut moved = false;
        for input in &mut self.private {
            if but == Some(input.peer) {
                // Who waits for it takes one at a time.
                input.idle = true;
                continue;
            }
            let mut taken = 0;
            let mut credited = false;
            let (mut messages, mut bytes) = (0, 0);
            let completed = core.requests.completed;
            if core.requests.has_line() {
                (taken, bytes) = input.take_in_order(&mut core.requests);
                messages = taken as u64;
                credited = input.ring.was_credited();
            }
            let mut over = taken > 0 && (input.idle || core.nothing_posted());
            while !over && taken < BATCH {
                match input.ring.peek() {
                    Ok(Some(record)) if record.kind == wire::EAGER => {
                        if core.deliver_eager(input.peer, record.tag, None, &record) {
                            messages += 1;
                            bytes += u64::from(record.len);
                        }
                    }
                    Ok(Some(record)) => {
                        core.on_record(input.peer, record.kind, record.tag, &record);
                    }
                    Ok(None) => {
                        input.idle |= taken == 0;
                        break;
                    }
                    Err(corrupt) => {
                        core.corrupt(input.peer, &corrupt.to_string());
                        break;
                    }
                }
                credited |= input.ring.pop();
                taken += 1;
                // A completion ends it where somebody may wait for just that one: the next line is with its sender,
                // so looking at it takes as long as a message. If records come faster than they are waited for, and
                // more are waited for, it goes on.
                over =
                    core.requests.completed != completed && (input.idle || core.nothing_posted());
            }
            if taken > 0 {
                moved = true;
                input.idle = false;
                core.note_received(input.peer, messages, bytes);
                core.popped(input.peer, credited);
            }
        }
        // While private rings deliver, the shared one gets every eighth turn.
        self.turn = self.turn.wrapping_add(1);
        if !moved || self.turn.is_multiple_of(8) {
            moved |= self.drain_shared(core);
        }
        moved
    }

    #[inline]
    fn drain_shared(&mut self, core: &mut Core) -> bool {
        let mut taken = 0;
        while taken < BATCH {
            match self.shared.peek() {
                Ok(Peek::Empty) => break,
                Ok(Peek::Ready(record)) => {
                    let from = record.sender;
                    if !core.on_shared_record(from, record.kind, record.tag, &record) {
                        core.stalled = true;
                        break;
                    }
                }
                Ok(Peek::Stalled { sender }) => {
                    // It is between claim and publication; or it died there.
                    if core.publishes_no_more(sender) && self.shared.skip_stalled() {
                        taken += 1;
                        continue;
                    }
                    core.stalled = true;
                    break;
                }
                Err(corrupt) => {
                    tracing::error!("the shared ring: {corrupt}; the slot is skipped");
                    if !self.shared.skip_corrupt() {
                        break;
                    }
                    taken += 1;
                    continue;
                }
            }
            self.shared.pop();
            taken += 1;
        }
        taken > 0
    }

    /// Takes everything that a peer had published before its connection ended, also what lies in the shared ring behind a
    /// record that another sender is at work on, or is stopped in: nobody has to wait for that one.
    #[cold]
    pub(crate) fn take_last_words(&mut self, core: &mut Core, peer: u32) {
        let shape = core.segment.shape();
        // The shared ring first: the switch to the private one lies there. What a ring holds is bounded, and so are these
        // loops, though other senders go on.
        for _ in 0..=shape.shared_slots as usize / BATCH {
            if !self.drain_shared(core) {
                break;
            }
        }
        self.shared.take_from(peer, |record| {
            // If its greeting could not be had by now, nothing can be.
            let _ = core.on_shared_record(peer, record.kind, record.tag, record);
        });
        for (ring, peer) in core::mem::take(&mut core.opened) {
            self.open(core, ring, peer);
        }
        if let Some(input) = self.private.iter_mut().find(|input| input.peer == peer) {
            // No record is shorter than a word.
            for _ in 0..shape.ring_bytes / 8 {
                match input.ring.peek() {
                    Ok(Some(record)) => core.on_record(peer, record.kind, record.tag, &record),
                    Ok(None) => break,
                    Err(corrupt) => {
                        core.corrupt(peer, &corrupt.to_string());
                        break;
                    }
                }
                input.ring.pop();
            }
        }
    }

    /// The private ring that a sender has switched to.
    #[inline]
    pub(crate) fn private_ring_of(&mut self, peer: u32) -> Option<&mut LineConsumer<Mapped>> {
        let input = self.private.iter_mut().find(|input| input.peer == peer);
        input.map(|input| &mut input.ring)
    }

    /// Before sleeping: a hostile sender may have moved the head hint of the shared ring so that others leave a gap.
    pub(crate) fn mend(&mut self) {
        self.shared.mend_head();
    }

    /// Reads a ring from now on, since its sender has switched to it.
    pub(crate) fn open(&mut self, core: &mut Core, number: u32, peer: u32) {
        // It may have failed since.
        if core.peers.get(peer).and_then(|peer| peer.ring) != Some(number) {
            return;
        }
        let Some(ring) = ring_of(core, number) else {
            return;
        };
        if self.private.iter().any(|input| input.number == number) {
            return core.corrupt(peer, "a second switch to its private ring");
        }
        self.private.push(Private {
            ring,
            number,
            peer,
            idle: true,
        });
    }

    /// Stops reading the ring of a peer that is gone.
    pub(crate) fn leave(&mut self, number: u32) {
        self.private.retain(|input| input.number != number);
    }

    /// Makes the ring of a peer that is gone ready for another. Also one that was never read: the peer may have written there
    /// before its switch was met.
    pub(crate) fn make_ready(&mut self, core: &mut Core, number: u32) {
        if let Some(mut ring) = ring_of(core, number) {
            ring.reset();
            core.free_rings.push(number);
        }
    }
}

/// The receiver's end of a private ring of this endpoint.
fn ring_of(core: &Core, number: u32) -> Option<LineConsumer<Mapped>> {
    let lines = core.segment.shape().ring_bytes / LINE as u32;
    // The shape of the own segment was checked when it was made.
    LineConsumer::new(core.segment.private_ring(number)?, lines).ok()
}

impl Core {
    /// A record of a peer was taken off its ring: its sender may sleep because that was full.
    #[inline(always)]
    pub(super) fn popped(&mut self, peer: u32, credited: bool) {
        if credited && let Some(link) = self.peers.link(peer) {
            link.wake();
        }
    }

    pub(crate) fn on_record(&mut self, from: u32, kind: u8, tag: u64, record: &impl Source) {
        match kind {
            wire::EAGER => self.on_eager(from, tag, None, record),
            wire::EAGER_IMMEDIATE => self.on_eager_immediate(from, tag, record),
            wire::EAGER_CHUNK => self.on_eager_chunk(from, tag, record),
            wire::PIECE => self.on_piece(from, tag, record),
            wire::DATA => self.on_data(from, record),
            wire::NEXT_BYTES => self.on_next_bytes(from, record),
            wire::NEXT_PIECE => self.on_next_piece(from, record),
            _ => self.on_control(from, kind, tag, record),
        }
    }

    /// False if the record has to wait in the ring: its sender's greeting is there, but no descriptor is free for those that come
    /// with it.
    fn on_shared_record(&mut self, from: u32, kind: u8, tag: u64, record: &impl Source) -> bool {
        if self.peers.link(from).is_none() {
            // Its greeting is there: it was sent before the record was published.
            self.read_connections_of(from);
        }
        let Some(peer) = self.peers.get(from) else {
            return true;
        };
        if peer.link.is_none() {
            return !self.is_unheard(from);
        }
        peer.heard = peer.heard.saturating_add(1);
        let grant = peer.ring.is_none() && peer.heard >= TALKS_A_LOT;
        self.on_record(from, kind, tag, record);
        if grant && let Some(ring) = self.free_rings.pop() {
            if let Some(peer) = self.peers.get(from) {
                peer.ring = Some(ring);
            }
            self.tally.event(Event::PrivateRings);
            self.control(from, Control::new(wire::GRANT, [u64::from(ring)]));
        }
        true
    }

    fn on_control(&mut self, from: u32, kind: u8, tag: u64, record: &impl Source) {
        match kind {
            wire::BEGINS => self.on_begins(from, tag, record),
            wire::READY_TO_SEND => self.on_offer(from, tag, record),
            wire::CLEAR_TO_SEND => self.on_clear_to_send(from, record),
            wire::BOTH_SIDES => self.on_both_sides(from, record),
            wire::FINISHED => self.on_finished(from, record),
            wire::BACK_DONE => self.on_back_done(from, record),
            wire::GRANT => self.on_grant(from, record),
            wire::SWITCH => self.on_switch(from, record),
            wire::LOAN => self.on_loan(from, tag, record),
            wire::RETRACT => self.on_retract(from, record),
            wire::RETRACTED => self.on_retracted(from, record),
            wire::GET => self.on_get(from, record),
            wire::PUT => self.on_put(from, record),
            wire::ANSWERED => self.on_answered(from, tag, record),
            wire::AHEAD => self.on_ahead(from, tag, record),
            wire::SKEW => self.on_skew(from, record),
            wire::MOVED => self.on_moved(from, record),
            wire::EXPOSED => self.on_exposed(from, record),
            wire::WRITTEN => self.on_written(from, record),
            wire::PRESSED => self.on_pressed(from, record),
            wire::ARENA_GONE => self.on_arena_gone(from, record),
            wire::HAND_OVER => self.on_hand_over(from, record),
            wire::HAND_OVER_DONE => self.on_hand_over_done(from, record),
            other => self.corrupt(
                from,
                &format!("a record of kind {other}, which does not exist"),
            ),
        }
    }

    /// Whether nobody needs to wait for what a sender has begun in the shared ring. One that lives publishes it as soon as it
    /// runs, and would do so in a slot that is another's; but one whose bytes make no sense may never.
    fn publishes_no_more(&mut self, sender: u32) -> bool {
        match self.peers.get(sender).map(|peer| &peer.failure) {
            Some(None) => false,
            None | Some(Some(PeerFailure::Corrupt(_))) => true,
            Some(Some(_)) => !self.given_up.lives(sender),
        }
    }

    /// A peer gives this endpoint a private ring.
    fn on_grant(&mut self, from: u32, source: &impl Source) {
        let [ring] = words::<1>(source);
        let Some(link) = self.peers.link(from) else {
            return;
        };
        let lines = link.segment.shape().ring_bytes / LINE as u32;
        let memory = u32::try_from(ring)
            .ok()
            .and_then(|ring| link.segment.private_ring(ring));
        let producer =
            memory.and_then(|memory| limic_shm::ring::line::LineProducer::new(memory, lines).ok());
        match producer {
            Some(producer) if matches!(link.out, super::peers::Out::Shared(_)) => {
                link.switching = Some((ring as u32, producer));
                // If there is no room now, the next record announces it first.
                link.finish_switch();
            }
            Some(_) => {}
            None => self.corrupt(from, "a private ring that it does not have"),
        }
    }

    /// A peer's further records come through its private ring.
    fn on_switch(&mut self, from: u32, source: &impl Source) {
        let [ring] = words::<1>(source);
        match self.peers.get(from).and_then(|peer| peer.ring) {
            Some(granted) if u64::from(granted) == ring => self.opened.push((granted, from)),
            _ => self.corrupt(from, "a switch to a ring that it was not given"),
        }
    }
}
