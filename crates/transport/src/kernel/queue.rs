//! Receives that wait in this process, and find their messages by probes, in the order of their
//! posts.
//!
//! A receive that is posted behind one that waits here, and that could take a message of it, waits
//! too: in the module it would overtake. A message goes to the first receive in the queue that it
//! fits: it is left alone if it came between two probes and fits an earlier receive, and the probes
//! begin again.

use std::collections::VecDeque;

use limic_copy::{Found, Wanted};
use limic_shm::bytes::ReceiveBuffer;

use super::{KernelEngine, Offered, Operation, Place};
use crate::engine::request::Slot;
use crate::error::Outcome;
use crate::{Result, Selector, Tag};

/// Requests that wait in this process.
///
/// # Invariants
/// - A request stands here once, and is in no slot of the module then.
/// - Sends to one peer go in the order in which they stand here.
#[derive(Default)]
pub(super) struct Queue {
    /// Sends that the module could not take yet, in the order of their posts.
    pub(super) backlog: VecDeque<Slot>,
    /// Receives that wait for a probe, in the order of their posts.
    pub(super) waiting: VecDeque<Slot>,
    /// Whether those are to be looked at though nothing arrived.
    pub(super) look: bool,
}

/// What a look at a receive that waits here brought.
enum Served {
    Over(Outcome),
    /// It is in this slot of the module.
    InModule(u32),
    /// A message came that an earlier receive fits: look at all again.
    Again,
    NotYet,
}

/// Whether a message could fit both.
fn overlap(one: &Selector, other: &Selector) -> bool {
    let sources = match (one.source, other.source) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    sources && (one.tag.0 ^ other.tag.0) & one.mask & other.mask == 0
}

impl KernelEngine {
    /// Whether one of the first `end` receives that wait here could take the same message.
    pub(super) fn waits_before(&mut self, selector: &Selector, end: usize) -> bool {
        let requests = &mut self.requests;
        self.queue.waiting.iter().take(end).any(|slot| {
            matches!(requests.get(*slot), Operation::Receive(it) if overlap(&it.selector, selector))
        })
    }

    /// Finds messages for the receives that wait here, and hands those to the module that need not
    /// wait.
    pub(super) fn serve(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(slot) = self.queue.waiting.get(at).copied() {
            let Operation::Receive(receiving) = self.requests.get(slot) else {
                self.queue.waiting.remove(at);
                continue;
            };
            let (selector, probing) = (receiving.selector, receiving.probing);
            let behind = self.waits_before(&selector, at);
            let served = self.serve_one(slot, &selector, behind, probing, at);
            match served {
                Served::Over(outcome) => {
                    self.queue.waiting.remove(at);
                    self.requests.complete(slot, outcome);
                    moved = true;
                }
                Served::InModule(_) => {
                    self.queue.waiting.remove(at);
                    moved = true;
                }
                Served::Again => at = 0,
                Served::NotYet => at += 1,
            }
        }
        moved
    }

    fn serve_one(
        &mut self,
        slot: Slot,
        selector: &Selector,
        behind: bool,
        probing: bool,
        at: usize,
    ) -> Served {
        let wanted = match self.wanted(selector) {
            Ok(wanted) => wanted,
            Err(error) => return Served::Over(Err(error)),
        };
        // Its buffer, out of the table while the engine is asked.
        let Operation::Receive(receiving) =
            core::mem::replace(self.requests.get(slot), Operation::Over)
        else {
            return Served::NotYet;
        };
        let served = self.serve_with(&receiving.into, selector, wanted, behind, probing, at);
        let mut receiving = receiving;
        let served = match served {
            Ok(Some(served)) => served,
            Ok(None) => {
                receiving.probing = true;
                Served::Again
            }
            Err(error) => Served::Over(Err(error)),
        };
        if let Served::InModule(number) = served {
            receiving.place = Place::Module(number);
            if let Some(module) = &mut self.module {
                module.posted.push((number, slot));
            }
        }
        *self.requests.get(slot) = Operation::Receive(receiving);
        served
    }

    /// `None`: it has to find its message by probes from now on.
    fn serve_with(
        &mut self,
        into: &ReceiveBuffer,
        selector: &Selector,
        wanted: Wanted,
        behind: bool,
        probing: bool,
        at: usize,
    ) -> Result<Option<Served>> {
        let source = selector.source.filter(|_| !behind && !probing);
        if let Some(peer) = source {
            match self.offer_receive(peer, wanted, into)? {
                Some(Offered::Over(outcome)) => return Ok(Some(Served::Over(outcome))),
                Some(Offered::Queued(number)) => return Ok(Some(Served::InModule(number))),
                None => return Ok(None),
                // Its message may be here all the same.
                Some(Offered::Busy) => {}
            }
        }
        let Some(found) = self.look_for(wanted, !behind)? else {
            return Ok(Some(Served::NotYet));
        };
        if !behind {
            return Ok(Some(Served::Over(self.fetch(found, into))));
        }
        if self.fits_one_before(&found, at) {
            return Ok(Some(Served::Again));
        }
        // The oldest that fits is still the same: nobody else takes messages from here.
        Ok(Some(match self.look_for(wanted, true)? {
            Some(found) => Served::Over(self.fetch(found, into)),
            None => Served::NotYet,
        }))
    }

    /// Whether a message fits one of the first `end` receives that wait here.
    pub(super) fn fits_one_before(&mut self, found: &Found, end: usize) -> bool {
        let message = Selector::exact(self.peer_of(found.source), Tag(found.tag));
        self.waits_before(&message, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    #[test]
    fn receives_overlap_if_some_message_fits_both() {
        let exact = |peer, tag| Selector::exact(Peer(peer), Tag(tag));
        assert!(overlap(&exact(1, 7), &exact(1, 7)));
        assert!(!overlap(&exact(1, 7), &exact(2, 7)));
        assert!(!overlap(&exact(1, 7), &exact(1, 8)));
        assert!(overlap(&Selector::any(), &exact(3, 9)));
        assert!(!overlap(&Selector::any_source(Tag(1)), &exact(3, 9)));
        let masked = Selector::any().with_mask(0xf0);
        assert!(!overlap(&masked, &exact(1, 0x10)));
        assert!(overlap(&masked, &exact(1, 0x0f)));
    }
}
