//! The rings that this endpoint reads.

use core::time::Duration;

use limic_records as frame;
use limic_shm::bytes::Source;
use limic_shm::idle::Patience;
use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineConsumer;
use limic_shm::ring::shared::{Peek, SharedConsumer};

use crate::counters::Event;
use crate::engine::contact::connections;
use crate::engine::cx::Cx;
use crate::engine::envelope::Envelope;
use crate::engine::patience;
use crate::engine::peer::inquiry::Inquiry;
use crate::engine::progress::apart::LOOKS;
use crate::engine::progress::dispatch;
use crate::engine::progress::private_input::{BATCH, PrivateInput};
use crate::engine::protocol::{private_ring, receive};
use crate::error::PeerFailure;

/// Messages without a receive that are taken from one ring before the others get their turn, once
/// too many such messages are kept. So their senders take no more of the time than those who send
/// what is waited for.
pub(super) const FEW: usize = 2;

/// How long a claim of a peer that no connection leads to may take.
const LONGEST_CLAIM: Duration = Duration::from_secs(10);

/// All rings of this endpoint's segment.
pub(crate) struct ReceiveRings {
    shared: SharedConsumer<Mapped>,
    pub(super) private: Vec<PrivateInput>,
    /// Those that are read apart.
    pub(super) apart: Vec<PrivateInput>,
    /// Looks at the shared ring that are timed, unless somebody asks for help there again.
    pub(super) shared_timed: u32,
    turn: u32,
    /// The claim that the shared ring waits for: its position, its sender, whether that is to be
    /// waited for, and for how long it has been.
    stalled: Option<(u64, u32, Inquiry, Patience)>,
    /// It was said that slots of the shared ring make no sense.
    told_corrupt: bool,
}

impl ReceiveRings {
    pub(crate) fn new(shared: SharedConsumer<Mapped>) -> Self {
        Self {
            shared,
            private: Vec::new(),
            apart: Vec::new(),
            shared_timed: 0,
            turn: 0,
            stalled: None,
            told_corrupt: false,
        }
    }

    /// Takes what has come. An idle poll reads one line per private ring and one of the shared
    /// ring, all of which stay in this core's cache until a sender writes them.
    ///
    /// The private ring of peer `but` is left alone: somebody looks at it who waits for just that.
    #[inline]
    pub(crate) fn drain(&mut self, cx: &mut Cx, but: Option<u32>) -> bool {
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
            let completed = cx.requests.completed();
            if cx.requests.has_fifo() {
                (taken, bytes) = input.deliver_in_order(&mut cx.requests);
                messages = taken as u64;
                credited = input.ring.was_credited();
            }
            let mut over = taken > 0 && (input.idle || cx.matching.nothing_posted(&cx.requests));
            while !over && taken < BATCH {
                match input.ring.peek() {
                    Ok(Some(record)) if record.kind == frame::EAGER => {
                        let envelope = Envelope::new(input.peer, record.tag);
                        if receive::deliver_eager(cx, envelope, &record) {
                            messages += 1;
                            bytes += u64::from(record.length());
                        } else if cx.matching.is_over_budget() {
                            taken = taken.max(BATCH - FEW);
                        }
                    }
                    Ok(Some(record)) => {
                        let (kind, tag) = (record.kind, record.tag);
                        if cx.matching.is_over_budget() && is_unexpected(cx, input.peer, kind, tag)
                        {
                            taken = taken.max(BATCH - FEW);
                        }
                        dispatch::on_record(cx, input.peer, kind, tag, &record);
                    }
                    Ok(None) => {
                        input.idle |= taken == 0;
                        break;
                    }
                    Err(corrupt) => {
                        cx.peers.violated(input.peer, corrupt.to_string());
                        break;
                    }
                }
                credited |= input.ring.pop();
                taken += 1;
                // A completion ends it where somebody may wait for just that one: the next line is
                // with its sender, so looking at it takes as long as a message. If records come
                // faster than they are waited for, and more are waited for, it goes on.
                over = cx.requests.completed() != completed
                    && (input.idle || cx.matching.nothing_posted(&cx.requests))
                    || input.idle && cx.matching.has_reserved();
            }
            if taken > 0 {
                moved = true;
                input.idle = false;
                cx.peers.count_received(input.peer, messages, bytes);
                credit_returned(cx, input.peer, credited);
            }
        }
        // While private rings deliver, the shared one gets every eighth turn. It gets each where
        // endpoints outnumber processors: a wait there may give the processor away behind any turn,
        // and what it waits for may lie in the shared ring.
        self.turn = self.turn.wrapping_add(1);
        let its_turn = !moved || self.turn % 8 == 0 || cx.wakeup.is_oversubscribed();
        if its_turn && self.shared_timed == 0 && !self.shared.is_empty() {
            moved |= self.drain_shared(cx);
        }
        moved
    }

    /// Apart, since most looks find nothing.
    #[inline(never)]
    pub(super) fn drain_shared(&mut self, cx: &mut Cx) -> bool {
        let (is_timed, count) = (self.shared_timed > 0, cx.regions.help.count());
        let mut taken = 0;
        while taken < BATCH {
            match self.shared.peek() {
                Ok(Peek::Empty) => break,
                Ok(Peek::Ready(from, record)) => {
                    // Each by itself: the ring is that of all, and not all ask for help.
                    let piece = is_timed.then(|| cx.regions.help.begin());
                    let goes_on = on_shared_record(cx, from, record.kind, record.tag, &record);
                    if piece.is_some_and(|piece| !cx.regions.help.end(&piece)) {
                        cx.regions.help.holds_up_others();
                    }
                    if !goes_on {
                        cx.memory.stall();
                        break;
                    }
                }
                Ok(Peek::Stalled { sender }) => {
                    // It is between claim and publication; or it died there; or another one says
                    // that it is there.
                    let gone = publisher_is_gone(cx, sender);
                    if (gone || self.is_no_publisher(cx, sender)) && self.shared.skip_stalled() {
                        taken += 1;
                        continue;
                    }
                    cx.memory.stall();
                    break;
                }
                Err(corrupt) => {
                    cx.counters.event(Event::Violations);
                    if !core::mem::replace(&mut self.told_corrupt, true) {
                        tracing::error!("the shared ring: {corrupt}; such slots are skipped");
                    }
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
        if count != cx.regions.help.count() {
            self.shared_timed = LOOKS;
            cx.memory.set_apart(true);
        } else if is_timed {
            self.shared_timed -= 1;
        }
        taken > 0
    }

    /// Whether there is something to be taken from rings that are not read apart.
    #[cold]
    pub(crate) fn have_come(&mut self) -> bool {
        let mut private = self.private.iter_mut();
        private.any(|input| !matches!(input.ring.peek(), Ok(None)))
            || self.shared_timed == 0 && matches!(self.shared.peek(), Ok(Peek::Ready(..)))
    }

    /// Whether the sender that a claim names says that it has none. The answer is about this claim
    /// alone: the sender may have made the next one since.
    #[cold]
    fn is_no_publisher(&mut self, cx: &mut Cx, sender: u32) -> bool {
        let position = self.shared.position();
        let (_, _, inquiry, waited) = match &mut self.stalled {
            Some(stalled) if (stalled.0, stalled.1) == (position, sender) => stalled,
            other => other.insert((position, sender, Inquiry::new(), Patience::default())),
        };
        let patience = cx.settings.patience();
        if waited.is_over(patience) {
            let what = format!(
                "the shared ring, for a record that peer {sender} has begun and does not end: is \
                 it stopped? Messages of all peers without a ring of their own wait behind it"
            );
            patience::say_line(cx.identity.address.id, patience, &what);
        }
        if inquiry.is_refuted(&mut cx.peers, &cx.sockets, sender) {
            return true;
        }
        // Over no connection it can be asked: it has closed, has become another program, or ends
        // its connections at will. If it lives, it has had time.
        inquiry.age() >= LONGEST_CLAIM && !cx.sockets.is_connected(sender)
    }

    /// Makes as if the claim that the shared ring waits for were so old that it is given up.
    #[cfg(test)]
    pub(crate) fn make_claim_old(&mut self) {
        let stalled = self.stalled.as_mut().expect("a claim");
        stalled.2.make_older(LONGEST_CLAIM);
    }

    /// Takes everything that a peer had published before its connection ended, also what lies in
    /// the shared ring behind a record that another sender is at work on, or is stopped in: nobody
    /// has to wait for that one.
    #[cold]
    pub(crate) fn drain_failed_peer(&mut self, cx: &mut Cx, peer: u32) {
        // It sends nothing any more, so a ring is all that comes beyond its share.
        self.go_on(peer);
        let shape = cx.memory.segment.shape();
        // The shared ring first: the switch to the private one lies there. What a ring holds is
        // bounded, and so are these loops, though other senders go on.
        for _ in 0..=shape.shared_slots as usize / BATCH {
            if !self.drain_shared(cx) {
                break;
            }
        }
        self.shared.take_from(peer, |record| {
            // If its greeting could not be had by now, nothing can be.
            let _ = on_shared_record(cx, peer, record.kind, record.tag, record);
        });
        for (ring, peer) in cx.memory.take_switched() {
            self.open_ring(cx, ring, peer);
        }
        if let Some(input) = self.private.iter_mut().find(|input| input.peer == peer) {
            // No record is shorter than a word.
            for _ in 0..shape.ring_bytes / 8 {
                match input.ring.peek() {
                    Ok(Some(record)) => {
                        dispatch::on_record(cx, peer, record.kind, record.tag, &record)
                    }
                    Ok(None) => break,
                    Err(corrupt) => {
                        cx.peers.violated(peer, corrupt.to_string());
                        break;
                    }
                }
                input.ring.pop();
            }
        }
    }

    /// The private ring of a peer, wherever it is read, for receipts.
    #[inline(always)]
    pub(crate) fn input_of(&self, peer: u32) -> Option<&LineConsumer<Mapped>> {
        let mut inputs = self.private.iter().chain(&self.apart);
        let input = inputs.find(|input| input.peer == peer);
        input.map(|input| &input.ring)
    }

    /// The private ring that a sender has switched to.
    #[inline]
    pub(crate) fn private_ring_of(&mut self, peer: u32) -> Option<&mut LineConsumer<Mapped>> {
        let input = self.private.iter_mut().find(|input| input.peer == peer);
        input.map(|input| &mut input.ring)
    }

    /// Before sleeping: a hostile sender may have moved the head hint of the shared ring so that
    /// others leave a gap.
    pub(crate) fn repair_head(&mut self) {
        self.shared.repair_head();
    }

    /// Reads a ring from now on, since its sender has switched to it.
    pub(crate) fn open_ring(&mut self, cx: &mut Cx, number: u32, peer: u32) {
        // It may have failed since.
        if cx.peers.get(peer).and_then(|peer| peer.ring) != Some(number) {
            return;
        }
        let Some(ring) = cx.memory.consumer(number) else {
            return;
        };
        let mut open = self.private.iter().chain(&self.apart);
        if open.any(|input| input.number == number) {
            return cx
                .peers
                .violated(peer, "a second switch to its private ring");
        }
        if let Some(peer) = cx.peers.get(peer) {
            peer.has_switched = true;
        }
        self.private.push(PrivateInput {
            ring,
            number,
            peer,
            idle: true,
            timed: 0,
        });
    }

    /// Stops reading the ring of a peer that is gone.
    pub(crate) fn close_ring(&mut self, number: u32) {
        self.private.retain(|input| input.number != number);
        self.apart.retain(|input| input.number != number);
    }

    /// Makes the ring of a peer that is gone ready for another. Also one that was never read: the
    /// peer may have written there before its switch was met.
    pub(crate) fn recycle_ring(&mut self, cx: &mut Cx, number: u32) {
        if let Some(mut ring) = cx.memory.consumer(number) {
            ring.reset();
            cx.memory.return_ring(number);
        }
    }
}

/// Whether a record of this kind brings a message for which there is no receive.
pub(super) fn is_unexpected(cx: &mut Cx, from: u32, kind: u8, tag: u64) -> bool {
    frame::is_message(kind) && !cx.matching.finds_posted(&cx.requests, from, tag)
}

/// A record of a peer was taken off its ring: its sender may sleep because that was full.
#[inline(always)]
pub(crate) fn credit_returned(cx: &mut Cx, peer: u32, credited: bool) {
    if !credited {
        return;
    }
    if let Some(pair) = cx.peers.pair(peer) {
        pair.out.wake();
    }
}

/// False if the record has to wait in the ring: its sender's greeting is there, but no descriptor
/// is free for those that come with it.
fn on_shared_record(cx: &mut Cx, from: u32, kind: u8, tag: u64, record: &impl Source) -> bool {
    let met = cx.peers.find(from).and_then(|peer| peer.pair());
    if met.is_none() {
        // Its greeting is there: it was sent before the record was published.
        connections::read_greeting_of(cx, from);
    }
    let Some(peer) = cx.peers.find(from) else {
        return true;
    };
    if peer.pair().is_none() {
        return !cx.sockets.has_unread(from);
    }
    let busy = private_ring::is_earned(peer);
    if peer.served > 0 {
        cx.regions.help.note();
    }
    dispatch::on_record(cx, from, kind, tag, record);
    if busy {
        private_ring::grant(cx, from);
    }
    true
}

/// Whether nobody needs to wait for what a sender has begun in the shared ring. One that lives
/// publishes it as soon as it runs, and would do so in a slot that is another's; but one whose
/// bytes make no sense may never. One that no connection leads to, as this endpoint itself, never
/// had this memory: another one forged the claim.
fn publisher_is_gone(cx: &mut Cx, sender: u32) -> bool {
    match cx.peers.find(sender).map(|peer| peer.failure()) {
        Some(None) => !cx.sockets.is_connected(sender) && !cx.quarantine.lives(sender),
        None | Some(Some(PeerFailure::Corrupt(_))) => true,
        Some(Some(_)) => !cx.quarantine.lives(sender),
    }
}
