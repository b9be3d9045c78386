//! Cancellation: of what has not matched yet.

use super::Core;
use super::requests::{Operation, SendStage, Slot};
use super::stash::Waiting;
use super::wire::{self, Control};
use crate::raw::RequestId;
use crate::{Error, Result};

impl Core {
    /// Asks that a request be cancelled. It completes with `Cancelled` now or soon, or as usual if it
    /// has matched already.
    pub(crate) fn cancel(&mut self, id: RequestId) -> Result<()> {
        let slot = self.requests.find(id).ok_or(Error::UnknownRequest)?;
        if let Operation::Send(sending) = self.requests.get(slot) {
            let (to, stage) = (sending.to, sending.stage);
            self.cancel_send(slot, id, to, stage);
        } else if self.take_back(slot) {
            self.requests.complete(slot, Err(Error::Cancelled));
        }
        Ok(())
    }

    fn cancel_send(&mut self, slot: Slot, id: RequestId, to: u32, stage: SendStage) {
        match stage {
            // Its place in the backlog finds nothing when its turn comes.
            SendStage::Queued => {
                // One over verbs may be registered already, and wait for room to be offered.
                self.remote.send_is_over(id);
                self.requests.complete(slot, Err(Error::Cancelled));
            }
            SendStage::Offered { retracting: false } => {
                if let Some(sending) = self.requests.sending(slot) {
                    sending.stage = SendStage::Offered { retracting: true };
                }
                self.control(to, Control::new(wire::RETRACT, [id.0]));
            }
            SendStage::Local => {
                let waiting = self.stash.find(
                    |arrived| matches!(arrived.waiting, Waiting::Local(other) if other == id),
                );
                // A claimed message is matched, and not found.
                if let Some(token) = waiting.first().copied() {
                    self.withdraw(token);
                    self.requests.complete(slot, Err(Error::Cancelled));
                }
            }
            // One that has begun to go in pieces goes on: its receiver has a part of it.
            _ => {}
        }
    }
}
