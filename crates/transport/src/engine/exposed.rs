//! Long messages through the kernel module. Two ways:
//!
//! The sender exposes its bytes to the receiver when it offers them, and the receiver reads them (`copies`): one record, and one
//! back when the bytes are there. That is done if the module moved the last long message to this peer, since the
//! receiver picks the path, and an exposure that is not read is paid for nothing. It ends with the send.
//!
//! Else the receiver exposes its room to the sender, who writes into it: one record from the receiver, and one back. The room
//! is revoked before the receive ends, so that whatever the sender does, it writes nowhere afterwards.

use super::Core;
use super::copies::SLICE;
use super::requests::{Incoming, ReceiveStage, SendStage, Slot};
use super::wire::{self, Control};
use crate::RequestId;
use crate::buffer::{Source, words};
use crate::policy::Path;

impl Core {
    /// The receiver lets the sender write into its room.
    pub(crate) fn start_exposed(&mut self, slot: Slot, incoming: Incoming) {
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let Some(link) = self.peers.link(incoming.from) else {
            return;
        };
        match link.kmod.expose(&receiving.into, incoming.wanted) {
            Ok(handle) => {
                receiving.stage = ReceiveStage::Exposed(incoming, handle);
                let id = self.requests.id(slot);
                let words = [incoming.remote, id.0, handle, incoming.wanted];
                self.control(incoming.from, Control::new(wire::EXPOSED, words));
            }
            Err(failed) => {
                self.demote(incoming.from, Path::Kmod, &failed.why);
                self.ask_for_stream(slot, &incoming);
            }
        }
    }

    /// The sender may write.
    pub(crate) fn on_exposed(&mut self, from: u32, source: &impl Source) {
        let [id, remote, handle, end] = words::<4>(source);
        let Some(slot) = self.send_to(from, id) else {
            return;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        let SendStage::Offered { .. } = sending.stage else {
            return;
        };
        if end > sending.data.len() {
            return self.corrupt(from, "a request for bytes outside of the message");
        }
        sending.stage = SendStage::Writing {
            remote,
            handle,
            at: 0,
            end,
        };
        self.long_send_answered(from);
        self.work.copies.push_back(slot);
    }

    /// Writes the next piece. True if the send needs no more visits.
    pub(crate) fn write_exposed(&mut self, slot: Slot) -> bool {
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let SendStage::Writing {
            remote,
            handle,
            at,
            end,
        } = sending.stage
        else {
            return true;
        };
        let to = sending.to;
        let Some(link) = self.peers.link(to) else {
            return true;
        };
        let (at, failed) = match link.kmod.write(handle, &sending.data, end, at, SLICE) {
            Ok(copied) => (at + copied, None),
            Err(failed) => (at + failed.copied, Some(failed.why)),
        };
        sending.stage = SendStage::Writing {
            remote,
            handle,
            at,
            end,
        };
        if failed.is_none() && at < end {
            return false;
        }
        let (tag, len) = (sending.tag, sending.data.len());
        self.control(to, Control::new(wire::WRITTEN, [remote, at]));
        match failed {
            // The receiver asks for the rest by another path.
            Some(why) => self.demote(to, Path::Kmod, &why),
            None => {
                if let Some(link) = self.peers.link(to) {
                    link.kmod.note(true);
                }
                self.note_sent(to, Path::Kmod, len);
                self.end_send(slot, super::send::sent(to, tag, len));
            }
        }
        true
    }

    /// The sender has written what it could.
    pub(crate) fn on_written(&mut self, from: u32, source: &impl Source) {
        let [id, bytes] = words::<2>(source);
        let Some(slot) = self.requests.find(RequestId(id)) else {
            return;
        };
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let ReceiveStage::Exposed(mut incoming, handle) = receiving.stage else {
            return;
        };
        if incoming.from != from {
            return;
        }
        if bytes > incoming.wanted {
            return self.corrupt(from, "more bytes than it was given room for");
        }
        self.device.revoke(handle);
        incoming.got = bytes;
        if bytes == incoming.wanted {
            return self.complete_receive(slot, &incoming);
        }
        self.demote(from, Path::Kmod, "the sender could not write all of it");
        self.ask_for_stream(slot, &incoming);
    }
}
