//! How long a cache line takes from one endpoint to the other (H3), measured between long messages: `policy::nearness`
//! says what follows from it.
//!
//! The receiver of a long message, whose sender waits for its answer and so looks at its ring, asks for it by a record
//! that names a meet word, and the two pass that word's line to and fro a few times. Both count, and both learn. The one who
//! asks waits for the other to come, for so long as `policy::nearness` says, since the other may be at pieces of other messages;
//! from then on neither waits for longer than [`ARRIVAL_NS`] for the other to do its part. If the peer does not run, or is busy,
//! then nothing comes of it, and it is tried again later. The word is used again only after the peer has said that it has done
//! with it.

use limic_shm::ring::Memory;
use limic_shm::sync::{AtomicU64, Ordering};

use super::Core;
use super::ahead::now_ns;
use super::wire::{self, Control};
use crate::Peer;
use crate::buffer::{Source, words};
use crate::policy::nearness::Judge;
use crate::policy::{HandOver, Nearness};

/// Round trips of one measurement: the better half of two batches counts.
const BATCH: u64 = 8;
const BATCHES: u64 = 2;
const ROUNDS: u64 = BATCH * BATCHES;
/// The one who asked has given up.
const OVER: u64 = u64::MAX;
/// How long each waits for the other's next step, once both are there.
const ARRIVAL_NS: u64 = 3_000;
/// Looks at the word between two looks at the clock.
const LOOKS: u32 = 64;
/// Long messages between two looks at the clock whether a measurement is due.
const MESSAGES: u32 = 32;

/// What is known of the hand-over between this endpoint and a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passing {
    judge: Judge,
    /// Long messages until the clock is looked at.
    until_look: u32,
    /// The meet word that the peer may still write to.
    word: Option<u32>,
    /// The last that was measured, in nanoseconds one way.
    ns: u32,
    /// Messages that had come at the last look at peers with short ones.
    received: u64,
    /// And `until_look` then: long ones have come since if it is another.
    looked: u32,
}

impl Passing {
    pub(crate) const fn nearness(&self) -> Option<Nearness> {
        self.judge.nearness()
    }

    /// One of the two has moved.
    pub(crate) fn forget(&mut self) {
        self.judge.forget();
        self.until_look = 0;
    }

    /// The meet word that a peer that is gone will not give back.
    pub(crate) const fn word(&self) -> Option<u32> {
        self.word
    }
}

impl Core {
    /// Before the path of a long message is chosen: measures, if it is time. Costs one branch otherwise.
    #[inline]
    pub(crate) fn look_at_hand_over(&mut self, from: u32) {
        if let Some(link) = self.peers.link(from) {
            if link.passing.until_look == 0 {
                link.passing.until_look = MESSAGES;
                let patience_ns = link.passing.judge.patience_ns();
                self.measure_hand_over(from, patience_ns);
            } else {
                link.passing.until_look -= 1;
            }
        }
    }

    /// Now and then, for peers whose messages are all short: measures one of those from which only such have come since it
    /// was looked at last. Less hangs on it, and such a peer need not wait for anything: it is there at once, or not at all.
    #[cold]
    pub(crate) fn look_at_a_hand_over(&mut self) {
        let peers = self.peers.len();
        if peers == 0 || self.settings.hand_over() != HandOver::Measured {
            return;
        }
        let number = self.next_to_look_at % peers;
        self.next_to_look_at = number + 1;
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        let received = peer.counts.traffic().1.messages;
        if let Some(link) = &mut peer.link
            && link.passing.received != received
        {
            link.passing.received = received;
            let until_look = link.passing.until_look;
            if core::mem::replace(&mut link.passing.looked, until_look) == until_look {
                self.measure_hand_over(number, ARRIVAL_NS);
            }
        }
    }

    #[cold]
    fn measure_hand_over(&mut self, from: u32, patience_ns: u64) {
        // With more endpoints than CPUs the peer does not run beside this one.
        let possible = self.settings.hand_over() == HandOver::Measured && !self.is_crowded();
        let Some(peer) = self.peers.get(from) else {
            return;
        };
        let Some(link) = &mut peer.link else { return };
        if !possible
            || !peer.backlog.is_empty()
            || link.place.is_none()
            || link.passing.word.is_some()
            || !link.passing.judge.is_due(now_ns())
        {
            return;
        }
        let Some(number) = self.meets.pop() else {
            return;
        };
        let memory = self.segment.meet(number);
        let Some(line) = memory.as_ref() else { return };
        let word = line.word64(0);
        word.store(0, Ordering::Relaxed);
        if !link.push_control(&Control::new(wire::HAND_OVER, [u64::from(number)])) {
            self.meets.push(number);
            return;
        }
        link.passing.word = Some(number);
        // Odd numbers are the peer's, even ones this endpoint's.
        let ns = wait_for(word, 1, patience_ns).and_then(|()| pass(word, 1));
        if ns.is_none() {
            word.store(OVER, Ordering::Relaxed);
        }
        self.hand_over_took(from, ns);
    }

    /// A peer measures.
    pub(crate) fn on_hand_over(&mut self, from: u32, source: &impl Source) {
        let [number] = words::<1>(source);
        let Some(link) = self.peers.link(from) else {
            return;
        };
        let memory = u32::try_from(number)
            .ok()
            .and_then(|number| link.segment.meet(number));
        let Some(line) = memory else {
            return self.corrupt(from, "a meet word that it does not have");
        };
        let word = line.word64(0);
        // Else it has given up already.
        if word.load(Ordering::Relaxed) == 0 {
            word.store(1, Ordering::Relaxed);
            let ns = pass(word, 2);
            if self.settings.hand_over() == HandOver::Measured {
                self.hand_over_took(from, ns);
                if let Some(link) = self.peers.link(from) {
                    link.passing.judge.asked();
                }
            }
        }
        self.control(from, Control::new(wire::HAND_OVER_DONE, [number]));
    }

    /// The peer has done with the word.
    pub(crate) fn on_hand_over_done(&mut self, from: u32, source: &impl Source) {
        let [number] = words::<1>(source);
        let Some(link) = self.peers.link(from) else {
            return;
        };
        match link.passing.word.take() {
            Some(word) if u64::from(word) == number => self.meets.push(word),
            other => {
                link.passing.word = other;
                self.corrupt(from, "the end of a hand-over that was not begun");
            }
        }
    }

    fn hand_over_took(&mut self, peer: u32, ns: Option<u32>) {
        let Some(link) = self.peers.link(peer) else {
            return;
        };
        link.passing.ns = ns.unwrap_or(link.passing.ns);
        if link.passing.judge.measured(ns, now_ns()) {
            let (ns, nearness) = (link.passing.ns, link.passing.nearness());
            let before = link.locality;
            self.fit(peer);
            let now = self.peers.link(peer).map_or(before, |link| link.locality);
            tracing::debug!("{}: a cache line is handed over in {ns} ns", Peer(peer));
            if now != before {
                let like = match nearness {
                    Some(Nearness::Far) => "as slow as between two caches",
                    _ => "as fast as within one cache",
                };
                self.tally.reason(
                    None,
                    peer,
                    &format!("the hand-over of a cache line is {like}: the rows of {now} hold instead of those of {before} (LIMIC_HANDOVER)"),
                );
            }
        }
    }
}

/// Passes the line of `word` to and fro, where this side waits for `first` and every second number behind it, and answers
/// each by the next one. Gives the time of one way in nanoseconds; `None` if the other side was not there all the time.
///
/// Moves one cache line twice a round. Nothing hangs on the order of anything else, so all accesses are relaxed.
fn pass(word: &AtomicU64, first: u64) -> Option<u32> {
    let mut best = u64::MAX;
    let mut since = 0;
    for round in 0..=ROUNDS {
        let wanted = first + 2 * round;
        wait_for(word, wanted, ARRIVAL_NS)?;
        if round % BATCH == 0 {
            let now = now_ns();
            if round > 0 {
                best = best.min(now - since);
            }
            since = now;
        }
        // The last word is that of the one who asked.
        if round < ROUNDS || first == 1 {
            word.store(wanted + 1, Ordering::Relaxed);
        }
    }
    u32::try_from(best / (2 * BATCH)).ok()
}

/// Waits until the word has a value, for so many nanoseconds at most.
fn wait_for(word: &AtomicU64, wanted: u64, most_ns: u64) -> Option<()> {
    let mut until = 0;
    loop {
        for _ in 0..LOOKS {
            match word.load(Ordering::Relaxed) {
                OVER => return None,
                value if value == wanted => return Some(()),
                _ => {}
            }
        }
        let now = now_ns();
        if until == 0 {
            until = now + most_ns;
        } else if now > until {
            return None;
        }
    }
}
