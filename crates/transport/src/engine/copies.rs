//! Single copies under way: read by the receiver alone, or by both sides at once.
//!
//! Each visit copies a bounded piece, so that an endpoint that moves gigabytes still answers others.

use super::Core;
use super::requests::{Operation, ReceiveStage, SendStage, Slot};
use crate::policy::Path;
use crate::single_copy::RemoteBytes;

/// Bytes per visit.
pub(crate) const SLICE: u64 = 2 << 20;

impl Core {
    /// Moves every single copy on by one piece. True if bytes moved.
    pub(crate) fn push_copies(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..self.work.copies.len() {
            let Some(slot) = self.work.copies.pop_front() else {
                break;
            };
            let over = match self.requests.get(slot) {
                Operation::Receive(receiving) => match receiving.stage {
                    ReceiveStage::Reading(_) => self.read_piece(slot),
                    ReceiveStage::Front(..) => self.read_front(slot),
                    _ => true,
                },
                Operation::Send(sending) => match sending.stage {
                    SendStage::Back(_) => self.write_back(slot),
                    SendStage::Writing { .. } => self.write_exposed(slot),
                    _ => true,
                },
                _ => true,
            };
            moved = true;
            if !over {
                self.work.copies.push_back(slot);
            }
        }
        moved
    }

    /// Reads the next piece out of the sender's memory. True if the receive needs no more visits.
    fn read_piece(&mut self, slot: Slot) -> bool {
        let Some(receiving) = self.requests.receiving(slot) else {
            return true;
        };
        let ReceiveStage::Reading(mut incoming) = receiving.stage else {
            return true;
        };
        let Some(link) = self.peers.link(incoming.from) else {
            return true;
        };
        let (into, got) = (&receiving.into, incoming.got);
        let read = if incoming.path == Path::Kmod {
            link.kmod
                .read(incoming.key, into, incoming.wanted, got, SLICE)
        } else {
            let remote = RemoteBytes {
                address: incoming.address,
                key: 0,
                len: incoming.wanted,
            };
            link.remote.read(remote, into, got, SLICE)
        };
        let (copied, failed) = match read {
            Ok(0) if incoming.got < incoming.wanted => {
                (0, Some("it gave no bytes, and no reason".to_owned()))
            }
            Ok(copied) => (copied, None),
            Err(failed) => (failed.copied, Some(failed.why)),
        };
        incoming.got += copied;
        if let Some(why) = failed {
            self.demote(incoming.from, incoming.path, &why);
            self.ask_for_stream(slot, &incoming);
            return true;
        }
        receiving.stage = ReceiveStage::Reading(incoming);
        let all = incoming.got >= incoming.wanted;
        if all {
            self.finish_receive(slot, &incoming);
        }
        all
    }
}
