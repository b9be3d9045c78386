//! Skew (H4): a receiver that lags behind tells its sender, and the sender's messages go ahead of it.
//!
//! What a message that holds its sender up does to the lag is in `policy::lag`. The receiver tells by a control
//! record, which costs the sender nothing while nothing changes. The sender then copies messages up to the policy's
//! skewed limit into an arena of its own and sends where they lie: one line in the ring, whatever their length, and
//! the send is done. So the receiver's memory holds none of these bytes; the sender's holds at most
//! `LIMIC_UNEXPECTED_BYTES` of them. Beyond that, and for longer messages, the sender waits as ever.

use super::Core;
use super::peers::Link;
use super::wire::{self, Control};
use crate::Peer;
use crate::buffer::{Source, Window, gather, words};
use crate::counters::Event;
use crate::policy::{Path, Skew};
use crate::raw::RawSlice;

/// Messages shorter than this never take the way round the ring: it holds hundreds of them.
const LEAST_BYTES: u64 = 1024;

/// Time without messages ahead after which their memory is given back: longer than a pause between two phases of a
/// program, since making it again takes a millisecond.
const IDLE_NS: u64 = 1_000_000_000;

impl Core {
    /// A message came before its receive, and its sender waits for that.
    pub(crate) fn sender_waits(&mut self, from: u32) {
        if self.settings.skew()
            && let Some(link) = self.peers.link(from)
        {
            link.lag.arrived(now_ns);
        }
    }

    /// Such a message meets its receive.
    pub(crate) fn sender_waited(&mut self, from: u32, behind: u32) {
        if self.settings.skew()
            && let Some(link) = self.peers.link(from)
        {
            let change = link.lag.taken(behind, now_ns());
            self.tell(from, change);
        }
    }

    /// Such a message found its receive posted.
    pub(crate) fn receive_was_posted(&mut self, from: u32) {
        if let Some(link) = self.peers.link(from)
            && !link.lag.is_calm()
        {
            let change = link.lag.expected();
            self.tell(from, change);
        }
    }

    /// The bytes of such a message have arrived.
    pub(crate) fn was_at_work(&mut self, from: u32) {
        if let Some(link) = self.peers.link(from)
            && !link.lag.is_calm()
        {
            link.lag.at_work(now_ns());
        }
    }

    fn tell(&mut self, sender: u32, change: Option<Skew>) {
        let Some(skew) = change else { return };
        tracing::debug!("messages from {}: {skew:?}", Peer(sender));
        let lags = u64::from(skew == Skew::Skewed);
        self.control(sender, Control::new(wire::SKEW, [lags]));
    }

    /// The receiver of this endpoint's messages lags behind, or does no longer.
    pub(crate) fn on_skew(&mut self, from: u32, source: &impl Source) {
        let [lags] = words::<1>(source);
        if !self.settings.skew() {
            return;
        }
        let Some(link) = self.peers.link(from) else {
            return;
        };
        link.skew = if lags == 0 { Skew::None } else { Skew::Skewed };
        tracing::debug!("{} is now {:?}", Peer(from), link.skew);
        self.tally.event(Event::SkewChanges);
    }

    /// Sends a message ahead of a receiver that lags. False if it cannot be: it does not lag, the message is too long,
    /// too much is ahead already, or something waits to go before it.
    ///
    /// # Safety
    /// The slices are readable during the call, and `len` is their length together.
    pub(crate) unsafe fn push_ahead(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
        len: u64,
    ) -> bool {
        let Some(peer) = self.peers.get(to) else {
            return false;
        };
        let fits = peer
            .link
            .as_ref()
            .is_some_and(|link| link.may_go_ahead(len));
        if !fits || !peer.backlog.is_empty() {
            return false;
        }
        let budget = self.settings.unexpected_budget_bytes();
        let Some(room) = self.arenas.room_ahead(len as usize, budget) else {
            return false;
        };
        let filled = self.arenas.memory_of(room).and_then(|(memory, offset)| {
            let mut window = Window::new(memory, offset, len)?;
            // SAFETY: the caller's promise; the window has `len` bytes.
            unsafe { gather(data, &mut window) };
            Some(())
        });
        if filled.is_none() || !self.hand_arena(to, room.arena) {
            self.arenas.free_room(room);
            return false;
        }
        if let Some((record, before)) = self.arenas.go_ahead(room, to) {
            let (flags, word) = wire::immediate_words(immediate);
            let words = [
                wire::halves(record.arena, record.flag),
                record.offset,
                len,
                wire::halves(record.generation, before),
                flags,
                word,
            ];
            let control = Control::new(wire::AHEAD, words).with_tag(tag);
            if self
                .peers
                .link(to)
                .is_some_and(|link| link.push_control(&control))
            {
                self.none_ahead_since_ns = 0;
                self.note_sent(to, Path::Eager, len);
                self.tally.event(Event::Ahead);
                self.tally.events(Event::AheadBytes, len);
                return true;
            }
            self.arenas.stay_behind();
        }
        false
    }

    /// Now and then: if no message has gone ahead for a while, the memory for them goes back to the system.
    #[cold]
    pub(crate) fn give_back_room_ahead(&mut self) {
        if !self.arenas.has_ahead() {
            return;
        }
        let now = now_ns();
        if self.none_ahead_since_ns == 0 {
            self.none_ahead_since_ns = now;
        }
        if now - self.none_ahead_since_ns < IDLE_NS {
            return;
        }
        for arena in self.arenas.retire_ahead() {
            for peer in 0..self.peers.len() {
                if self
                    .peers
                    .link(peer)
                    .is_some_and(|link| link.arenas.take_given(arena))
                {
                    self.control(peer, Control::new(wire::ARENA_GONE, [u64::from(arena)]));
                }
            }
        }
    }

    /// A peer has given an arena back.
    pub(crate) fn on_arena_gone(&mut self, from: u32, source: &impl Source) {
        let [arena] = words::<1>(source);
        // One that is not mapped here needs nothing: messages that name it are errors of their own.
        if let (Some(link), Ok(arena)) = (self.peers.link(from), u32::try_from(arena)) {
            link.arenas.leave(arena);
        }
    }

    /// The peers whose links fit, for the counters.
    pub(crate) fn peers_where(&self, fits: impl Fn(&Link) -> bool) -> Vec<Peer> {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.link.as_deref().is_some_and(&fits))
            .map(|(number, _)| Peer(number))
            .collect()
    }
}

impl Link {
    /// Whether a message that found no other way without asking may go ahead.
    fn may_go_ahead(&self, len: u64) -> bool {
        self.skew == Skew::Skewed && len >= LEAST_BYTES && len < self.ahead_below
    }
}

/// Nanoseconds on a clock that only goes forward.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
