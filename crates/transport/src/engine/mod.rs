//! One endpoint from inside: an engine of components.
//!
//! [`Engine`] holds the rings that it reads, and [`cx::Cx`], which holds everything else. Protocol
//! code is made of functions over the context; docs/decisions/0001 says why. The life of a message
//! is in docs/architecture.md, below a table of the modules.

mod api;
mod bypass;
mod close;
mod contact;
pub(crate) mod control;
pub(crate) mod cx;
pub(crate) mod envelope;
mod fabric;
mod help;
mod identity;
pub(crate) mod matching;
mod memory;
mod open;
mod outbound;
mod outbox;
pub(crate) mod patience;
pub(crate) mod peer;
pub(crate) mod progress;
pub(crate) mod protocol;
mod regions;
pub(crate) mod request;
#[cfg(test)]
mod tests;
mod transfers;
mod waiting;

use core::time::Duration;

use limic_fabric::SELDOM_WHILE_POLLED;
use limic_pools::staging::IDLE_LOOKS;
use limic_shm::system::Instant;

use self::contact::{connections, failure};
use self::control::{line_latency, locality};
use self::cx::Cx;
use self::fabric::Arrivals;
use self::patience::{Awaited, Polled};
use self::peer::notes::Note;
use self::progress::rings::ReceiveRings;
use self::progress::{fabric as fabric_progress, work};
use self::protocol::{arena_message, rendezvous};
use crate::Result;
use crate::counters::Event;
use crate::engine_cell::without_unwinding;
use crate::error::PeerFailure;
use crate::settings::Settings;

/// Progress calls between two looks at the sockets while messages flow.
const SOCKETS_WHILE_BUSY: u32 = 4096;
/// The same between two looks at the clock while help rests, and nothing else is to be done: seldom
/// for a caller that waits, and often enough for one that polls now and then.
const RESTED_EVERY: u32 = 16;

/// An endpoint.
pub(crate) struct Engine {
    rings: ReceiveRings,
    /// Where records of the fabric lie while they are handled.
    arrivals: Arrivals,
    pub(crate) cx: Cx,
    /// Progress calls.
    turns: u32,
    /// A mask of the low bits of `turns`: where they are all 0, a progress call does the slow work
    /// though nothing asks for it.
    between: u32,
    polled: Polled,
    /// Receives that went past the queues, or tried to, since all peers had their turn.
    bypassed: u32,
}

impl core::fmt::Debug for Engine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine")
            .field("address", &self.cx.identity.address)
            .field("peers", &self.cx.peers)
            .field("requests", &self.cx.requests)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens an endpoint: a segment, a socket to be found at, and nothing else.
    pub(crate) fn open(settings: Settings) -> Result<Self> {
        let (rings, cx) = open::open(settings)?;
        Ok(Self {
            rings,
            arrivals: Arrivals::default(),
            cx,
            turns: 0,
            between: SOCKETS_WHILE_BUSY - 1,
            polled: Polled::default(),
            bypassed: 0,
        })
    }

    /// Moves everything on once. True if anything moved.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        self.progress_except(None)
    }

    /// The same without a look at the private ring of a peer.
    #[inline]
    fn progress_except(&mut self, peer: Option<u32>) -> bool {
        let mut moved = self.rings.drain(&mut self.cx, peer);
        self.turns = self.turns.wrapping_add(1);
        if work::has_slow_work(&self.cx) || self.turns & self.between == 0 {
            moved |= self.slow_work(moved);
        }
        moved
    }

    /// What most progress calls have not to do: connections, backlogs, adapters. `drained`: the
    /// rings have brought something.
    ///
    /// The order, and why:
    /// 1. A forked child ends everything, before it touches what is its parent's.
    /// 2. What is due now and then leaves notes and records, which the steps below take up.
    /// 3. Peers are told of arenas that are gone before a step below tells them of new ones.
    /// 4. Everything comes in before anything goes out: a ring to which a peer has switched, rings
    ///    that are read apart, networks. It brings the credit and the answers that backlogs and
    ///    long messages wait for.
    /// 5. These go on.
    /// 6. The sockets come after the rings: most of what they could tell has come by then.
    /// 7. Notes are last, since each step above may leave one: a peer that has ended fails once no
    ///    step is at work on its records.
    #[cold]
    fn slow_work(&mut self, drained: bool) -> bool {
        self.ensure_own();
        let mut moved = false;
        let helped = self.cx.regions.help.count();
        if self.cx.regions.help.is_rested() {
            self.end_rest();
        }
        if drained {
            self.cx.regions.help.holds_up_others();
        }
        let now_and_then = self.turns % SOCKETS_WHILE_BUSY == 0;
        if now_and_then {
            locality::check_cpu(&mut self.cx);
            line_latency::probe_next_peer(&mut self.cx);
            let retired = self.cx.arenas.retire_idle_send_ahead();
            arena_message::retire(&mut self.cx, &retired);
            self.give_back_idle(self.turns / SOCKETS_WHILE_BUSY);
            let patience = self.patience();
            if self.polled.is_over(&self.cx.requests, patience) {
                self.say_awaited(Awaited::Polled);
            }
        }
        if self.cx.transfers.heap.has_known() {
            arena_message::retire_gone(&mut self.cx);
        }
        for (ring, peer) in self.cx.memory.take_switched() {
            self.rings.open_ring(&mut self.cx, ring, peer);
            moved = true;
        }
        if self.cx.memory.has_apart() {
            moved |= self.rings.drain_apart(&mut self.cx);
        }
        self.cx.fabric.end_burst();
        if self.cx.fabric.looks.is_due(self.cx.peers.shares_memory()) {
            moved |= fabric_progress::poll(&mut self.cx, &mut self.arrivals);
        }
        moved |= work::push(&mut self.cx);
        if self.cx.memory.take_stalled() || now_and_then {
            moved |= connections::poll(&mut self.cx, Some(Duration::ZERO));
        }
        let helped = helped != self.cx.regions.help.count();
        if helped && self.rings.have_come() {
            self.cx.regions.help.holds_up_others();
        }
        if moved && !helped {
            self.cx.regions.help.others_moved();
        }
        self.cx.regions.help.end_turn();
        let rests = self.cx.regions.help.rests();
        self.between = if rests {
            RESTED_EVERY
        } else {
            SOCKETS_WHILE_BUSY
        } - 1;
        moved | self.handle_notes()
    }

    /// Help goes on: rings and reads that it left alone have their turns again.
    fn end_rest(&mut self) {
        if self.cx.regions.help.end_rest() {
            self.cx.memory.set_apart(true);
            self.cx.transfers.go_on();
        }
    }

    /// Gives back the staging buffers of one of the peers that were not used for long, and takes
    /// back those that others gave back. `look` counts the times.
    fn give_back_idle(&mut self, look: u32) {
        let pool = &mut self.cx.staging;
        let whose = look.checked_rem(self.cx.peers.len());
        if let Some(pair) = whose.and_then(|peer| self.cx.peers.pair(peer)) {
            pair.staging.give_back_idle(pool, &mut pair.out, look);
        }
        if look % IDLE_LOOKS == 0 {
            pool.recycled.reclaim();
        }
    }

    /// Does what the notes in the table of peers ask for. A peer whose connection ended fails after
    /// all that it had published was read. True if there was a note.
    fn handle_notes(&mut self) -> bool {
        if self.cx.peers.notes.is_empty() {
            return false;
        }
        let violations = self.cx.peers.notes.take_violations();
        self.cx.counters.events(Event::Violations, violations);
        while let Some((peer, note)) = self.cx.peers.notes.take_next() {
            match note {
                Note::HoldBack => self.rings.hold_back(&mut self.cx, peer),
                Note::Ended(why) => {
                    self.rings.drain_failed_peer(&mut self.cx, peer);
                    failure::fail_peer(&mut self.cx, peer, why);
                }
                Note::AsksHelp => self.rings.time(&mut self.cx, peer),
                Note::LeftRing(ring) => self.close_ring(peer, ring),
                Note::WasRead { receive, given_up } => {
                    connections::read_all_of(&mut self.cx, peer);
                    rendezvous::on_heard(&mut self.cx, receive, given_up);
                }
            }
        }
        true
    }

    /// Closes the private ring of a peer that is gone.
    fn close_ring(&mut self, peer: u32, ring: u32) {
        self.rings.close_ring(ring);
        if self.cx.identity.is_closed() {
            // Nobody gets a ring of an endpoint that is closed. Its peer may live, and has still to
            // read the last receipt there, so the memory stays as it is.
            return;
        }
        let kept = self.cx.quarantine.lives(peer) && self.cx.quarantine.keep_ring(peer, ring);
        if !kept {
            self.rings.recycle_ring(&mut self.cx, ring);
        }
    }

    /// Looks for new connections and dead peers. True if anything happened.
    #[cold]
    pub(crate) fn poll_sockets(&mut self) -> bool {
        self.ensure_own();
        connections::contact_sources(&mut self.cx);
        let happened = connections::poll(&mut self.cx, Some(Duration::ZERO));
        self.handle_notes();
        happened
    }

    /// A progress call by the application: it may be its only way of waiting, so the sockets get
    /// their turn.
    #[inline]
    pub(crate) fn poll(&mut self) -> bool {
        self.poll_except(None)
    }

    /// The same without a look at the private ring of a peer.
    #[inline]
    fn poll_except(&mut self, peer: Option<u32>) -> bool {
        let moved = self.progress_except(peer);
        if !moved && self.turns & self.cx.fabric.looks.poll_mask() == 0 {
            return self.poll_idle();
        }
        moved
    }

    /// The application may not poll again for long, so the networks have their turn each time.
    #[cold]
    fn poll_idle(&mut self) -> bool {
        let moved = self.cx.fabric.looks.is_active() && {
            self.cx.fabric.looks.look_now();
            self.slow_work(false)
        };
        if !moved && self.turns % SELDOM_WHILE_POLLED == 0 {
            return self.poll_sockets();
        }
        moved
    }

    /// Closes in good order: what was sent goes out as far as peers take it within the linger time.
    pub(crate) fn close(&mut self) {
        if !self.ensure_own() || self.cx.identity.is_closed() {
            return;
        }
        let deadline = Instant::now() + self.cx.settings.linger();
        self.wait_until(Awaited::Taking(deadline), |engine| {
            let over = !work::has_unsent(&mut engine.cx) || Instant::now() >= deadline;
            over.then_some(())
        });
        close::leave(&mut self.cx, deadline);
        self.handle_notes();
        close::end(&mut self.cx);
    }
}

impl Engine {
    /// Whether this is the process that opened the endpoint. In a child that was forked from it
    /// everything ends here, and what is shared with the parent is left to that.
    ///
    /// Calls that do more than to write and read memory, which a child has as its own, begin with
    /// this.
    #[inline(always)]
    pub(crate) fn ensure_own(&mut self) -> bool {
        self.cx.identity.is_own() || self.leave_to_parent()
    }

    #[cold]
    fn leave_to_parent(&mut self) -> bool {
        self.cx.transfers.splits.leave_to_parent();
        // Also what is kept beyond the end of an endpoint.
        failure::leave_to_parent(&mut self.cx);
        if self.cx.identity.is_closed() {
            return false;
        }
        // A peer that the parent has is never told, nor waited for.
        self.cx.sockets.leave_to_parent();
        self.cx.wakeup.poller.leave_to_parent();
        self.cx.fabric.leave_to_parent();
        self.cx.transfers.leave_to_parent();
        close::fail_all(&mut self.cx, &PeerFailure::Forked);
        self.handle_notes();
        close::end(&mut self.cx);
        false
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A panic would free buffers that peers may still write.
        without_unwinding(|| self.close());
    }
}
