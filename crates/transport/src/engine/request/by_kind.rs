//! The operation in a slot, where its kind is known.

use limic_matching::PostedId;
use limic_shm::bytes::ReceiveBuffer;

use super::{Incoming, Operation, ReceiveStage, Receiving, Requests, Sending, Slot};

impl Requests {
    /// A send that is known to be under way.
    #[track_caller]
    pub(crate) fn known_send(&mut self, slot: Slot) -> Option<&mut Sending> {
        let sending = self.sending(slot);
        debug_assert!(sending.is_some(), "a send that is over moves on");
        sending
    }

    /// A receive that is known to be matched, and not over.
    #[track_caller]
    pub(crate) fn known_receive(&mut self, slot: Slot) -> Option<&mut Receiving> {
        let receiving = self.receiving(slot);
        debug_assert!(receiving.is_some(), "a receive that is over moves on");
        receiving
    }

    /// The send in a slot, if there is one: peers and lists may name what is over.
    pub(crate) fn sending(&mut self, slot: Slot) -> Option<&mut Sending> {
        match &mut self.cold[slot as usize].operation {
            Operation::Send(sending) => Some(sending),
            _ => None,
        }
    }

    /// A message that is read by this side alone, and where to.
    pub(crate) fn reading(&self, slot: Slot) -> Option<(Incoming, &ReceiveBuffer)> {
        match self.under_way(slot)? {
            Operation::Receive(Receiving {
                into,
                stage: ReceiveStage::Reading(incoming),
            }) => Some((*incoming, into)),
            _ => None,
        }
    }

    /// The position of a receive in the posted queue.
    pub(crate) fn posted_as(&mut self, slot: Slot) -> Option<PostedId> {
        match self.receiving(slot)?.stage {
            ReceiveStage::Posted { id } => Some(id),
            _ => None,
        }
    }

    /// The receive in a slot, if there is one: peers and lists may name what is over.
    pub(crate) fn receiving(&mut self, slot: Slot) -> Option<&mut Receiving> {
        match self.get(slot) {
            Operation::Receive(receiving) => Some(receiving),
            _ => None,
        }
    }
}
