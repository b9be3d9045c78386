//! Messages to this endpoint itself.

use super::Core;
use super::requests::{Operation, SendStage, Sending, Slot};
use super::send::sent;
use super::stash::{Arrived, Waiting};
use crate::policy::Path;
use crate::raw::Posted;

impl Core {
    /// A message to this endpoint itself: one copy if its receive is posted, two if it is short.
    pub(super) fn send_to_self(&mut self, sending: Sending) -> Posted {
        let (me, tag, len) = (sending.to, sending.tag, sending.data.len());
        let immediate = sending.immediate;
        let done = Posted::Done(sent(me, tag, len));
        self.give_row(me);
        // Nobody rings for it, and another thread may poll for it.
        self.poller.disturb();
        self.note_sent(me, Path::SelfCopy, len);
        if let Some(slot) = self.take_posted(me, tag) {
            self.deliver_local(slot, me, tag, &sending);
            return done;
        }
        let short = len <= self.pool.chunk_bytes;
        let (waiting, posted) = if short {
            self.count_unexpected(len as i64);
            (Waiting::Bytes(sending.data.to_vec()), done)
        } else {
            let sending = Sending {
                stage: SendStage::Local,
                ..sending
            };
            let slot = self.requests.insert(Operation::Send(sending));
            let id = self.requests.id(slot);
            (Waiting::Local(id), Posted::Pending(id))
        };
        self.store(Arrived {
            from: me,
            tag,
            immediate,
            len,
            waiting,
        });
        posted
    }

    /// Copies a local send into a posted receive and completes the receive.
    pub(crate) fn deliver_local(&mut self, slot: Slot, me: u32, tag: u64, sending: &Sending) {
        let len = sending.data.len();
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let room = receiving.into.len();
        receiving.into.copy_from_send(&sending.data, room);
        self.note_received_by(me, Path::SelfCopy, len);
        self.requests.complete(
            slot,
            super::requests::receive_outcome(me, tag, sending.immediate, len, room),
        );
    }
}
