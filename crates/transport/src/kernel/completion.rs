//! How requests end: what the module shows becomes the outcome.

use limic_copy::Ended;
use limic_policy::{Path, select};

use super::{KernelEngine, Operation};
use crate::engine::envelope::{Envelope, Told};
use crate::engine::request::sent;
use crate::error::Outcome;
use crate::{Error, Peer};

impl KernelEngine {
    /// Ends the requests that others' calls, or a cancellation, have completed. Looks at the status
    /// of each request in the module.
    pub(super) fn collect(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(module) = &mut self.module {
            let Some((number, slot)) = module.posted.get(at).copied() else {
                break;
            };
            let Some(ended) = module.messages.ended(number) else {
                at += 1;
                continue;
            };
            module.posted.swap_remove(at);
            module.free.push(number);
            self.end(slot, ended);
            moved = true;
        }
        if moved && !self.queue.waiting.is_empty() {
            // There are slots for receives that waited for one.
            self.queue.look = true;
        }
        moved
    }

    fn end(&mut self, slot: u32, ended: Ended) {
        let outcome = match self.requests.get(slot) {
            Operation::Send(sending) => {
                let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
                self.sent(to, tag, len, Some(ended))
            }
            Operation::Receive(receiving) => {
                let (room, source) = (receiving.into.len(), receiving.selector.source);
                self.received(room, source, Some(ended))
            }
            Operation::Over => return,
        };
        self.requests.complete(slot, outcome);
    }

    /// The outcome of a send.
    pub(super) fn sent(&mut self, to: u32, tag: u64, len: u64, ended: Option<Ended>) -> Outcome {
        match ended.map_or(libc::EIO, |ended| ended.errno) {
            0 => {
                let path = select::module::path(len);
                self.counters.sent(self.peers.row(to), path, len);
                sent(to, tag, len)
            }
            libc::ECANCELED => Err(Error::Cancelled),
            libc::EPIPE => Err(self.failed(to)),
            errno => Err(Error::System {
                what: "copying a message through /dev/limic",
                source: crate::Errno(errno),
            }),
        }
    }

    /// The outcome of a receive that had `room` bytes.
    pub(super) fn received(
        &mut self,
        room: u64,
        source: Option<Peer>,
        ended: Option<Ended>,
    ) -> Outcome {
        let Some(ended) = ended else {
            return Err(Error::UnknownRequest);
        };
        match ended.errno {
            0 | libc::EMSGSIZE => {
                let peer = self.peer_of(ended.source);
                let path = select::module::path(ended.full_len);
                if path == Path::Kmod {
                    self.counters.received(path, ended.full_len);
                }
                self.peers.row(peer.0).received(1, ended.full_len);
                let envelope = Envelope {
                    from: peer.0,
                    tag: ended.tag,
                    immediate: ended.immediate,
                };
                envelope.outcome(ended.full_len, room)
            }
            libc::ECANCELED => Err(Error::Cancelled),
            libc::EPIPE => {
                let peer = source.unwrap_or_else(|| self.peer_of(ended.source));
                Err(self.failed(peer.0))
            }
            errno => Err(Error::System {
                what: "copying a message through /dev/limic",
                source: crate::Errno(errno),
            }),
        }
    }
}
