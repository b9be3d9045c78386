//! Sends over the fabric: messages in packets, offers of long ones, streams, control records.

use limic_ibverbs::fabric::ConnectionId;
use limic_ibverbs::objects::Access;

use super::super::peers::{Outgoing, PeerEntry};
use super::super::requests::{SendStage, Slot};
use super::super::wire::{self, Control};
use super::super::{Core, send};
use super::Remote;
use crate::RequestId;
use crate::buffer::{Behind, Place, put_words};
use crate::policy::Path;

/// Bytes before the payload of a [`wire::PIECE`].
const OFFSET_BYTES: u64 = 8;
/// Shorter messages than this are not worth a registration at each end.
const WORTH_REGISTERING: u64 = 16 << 10;

impl Core {
    /// Pushes the backlog of a peer over the fabric as far as there is room. True if anything went.
    pub(crate) fn flush_remote(&mut self, to: u32, wire: u32) -> bool {
        let connection = ConnectionId(wire);
        let mut moved = false;
        let several = |peer: &mut PeerEntry| peer.backlog.len() > 1;
        if self.peers.get(to).is_some_and(several)
            && let Some(fabric) = &mut self.remote.fabric
        {
            fabric.cork(connection);
        }
        while let Some(peer) = self.peers.get(to) {
            let gone = match peer.backlog.front() {
                None => break,
                Some(Outgoing::Control(control)) => {
                    let control = *control;
                    self.remote.control(connection, &control)
                }
                Some(Outgoing::Message(id)) => {
                    let id = *id;
                    self.push_remote(to, connection, id)
                }
            };
            if !gone {
                break;
            }
            moved = true;
            if let Some(peer) = self.peers.get(to) {
                peer.backlog.pop_front();
            }
        }
        if let Some(fabric) = &mut self.remote.fabric {
            fabric.uncork(connection);
        }
        moved
    }

    /// The turn of a queued send has come. True if it left the backlog.
    fn push_remote(&mut self, to: u32, connection: ConnectionId, id: RequestId) -> bool {
        // Cancelled meanwhile: nothing to push.
        let Some(slot) = self.requests.find(id) else {
            return true;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let Some(fabric) = &mut self.remote.fabric else {
            return true;
        };
        let (tag, len, immediate) = (sending.tag, sending.data.len(), sending.immediate);
        match sending.stage {
            SendStage::Queued => {
                let ahead = immediate.map_or(0, |_| wire::IMMEDIATE_BYTES);
                let most = fabric.longest_message(connection) as u64;
                // What lies in an adapter's queue is lost with this process: the answer to an offer says that it arrived.
                let may_go = !sending.delivered && !self.remote.ask_first.contains(&to);
                if len + ahead <= most && may_go {
                    let kind = immediate.map_or(wire::EAGER, |_| wire::EAGER_IMMEDIATE);
                    let sent = fabric.send(connection, kind, tag, (ahead + len) as usize, |room| {
                        let mut place = Place::new(room);
                        if let Some(word) = immediate {
                            put_words(&mut place, &[word]);
                        }
                        let mut behind = Behind {
                            inner: &mut place,
                            skip: ahead,
                        };
                        sending.data.copy_to(0, len, &mut behind);
                    });
                    if sent.is_err() {
                        return false;
                    }
                    self.note_sent(to, Path::RcEager, len);
                    self.requests.complete(slot, send::sent(to, tag, len));
                    return true;
                }
                self.offer_remote(slot, connection, id)
            }
            SendStage::Put { key, offset } => {
                let control = Control::new(wire::PUT, [id.0, key, offset, len]);
                self.remote.control(connection, &control)
            }
            _ => true,
        }
    }

    /// Offers a long message; the receiver may read it out of registered memory.
    fn offer_remote(&mut self, slot: Slot, connection: ConnectionId, id: RequestId) -> bool {
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let (tag, len) = (sending.tag, sending.data.len());
        let (mut flags, word) = wire::immediate_words(sending.immediate);
        if sending.delivered {
            flags |= wire::CONFIRM;
        }
        let (mut address, mut keys) = (0, 0);
        match sending.data.slices() {
            [one] if len >= WORTH_REGISTERING => {
                if !self.remote.offered.contains_key(&id.0)
                    && let Some(fabric) = &mut self.remote.fabric
                {
                    // SAFETY: the bytes are only read. The registration goes when the operation is over (`send_is_over`), before the
                    // application has its buffer back; or it is kept, and the peer, which has the key, can go on reading what lies
                    // there: it gets bytes that may be any, and nothing here changes.
                    let spread = unsafe {
                        fabric.register_again(one.start.cast_mut(), one.len, Access::REMOTE_READ)
                    };
                    match spread {
                        Ok(spread) => {
                            self.remote.offered.insert(id.0, spread);
                        }
                        Err(error) => tracing::debug!("a message goes in packets: {error}"),
                    }
                }
                if let Some(spread) = self.remote.offered.get(&id.0) {
                    (address, keys) = (spread.start(), spread.remote_keys());
                }
            }
            [_] => {}
            _ => flags |= wire::IN_PIECES,
        }
        let words = [id.0, len, address, keys, flags, word];
        let control = Control::new(wire::READY_TO_SEND, words).with_tag(tag);
        if !self.remote.control(connection, &control) {
            return false;
        }
        if let Some(sending) = self.requests.sending(slot) {
            sending.stage = SendStage::Offered { retracting: false };
        }
        true
    }

    /// Sends the next bytes of a long message in packets: (bytes moved, it is over).
    pub(crate) fn push_stream_remote(&mut self, slot: Slot, wire: u32) -> (bool, bool) {
        let connection = ConnectionId(wire);
        let mut moved = false;
        loop {
            let Some(sending) = self.requests.sending(slot) else {
                return (moved, true);
            };
            let SendStage::Streaming {
                remote,
                at,
                end,
                confirm,
            } = sending.stage
            else {
                return (moved, true);
            };
            if at == end {
                self.streamed(slot, confirm);
                return (moved, true);
            }
            let Some(fabric) = &mut self.remote.fabric else {
                return (moved, true);
            };
            let most = fabric.longest_message(connection) as u64 - OFFSET_BYTES;
            let len = most.min(end - at);
            let sent = fabric.send(
                connection,
                wire::PIECE,
                remote,
                (OFFSET_BYTES + len) as usize,
                |room| {
                    let mut place = Place::new(room);
                    put_words(&mut place, &[at]);
                    let mut behind = Behind {
                        inner: &mut place,
                        skip: OFFSET_BYTES,
                    };
                    sending.data.copy_to(at, len, &mut behind);
                },
            );
            if sent.is_err() {
                return (moved, false);
            }
            sending.stage = SendStage::Streaming {
                remote,
                at: at + len,
                end,
                confirm,
            };
            moved = true;
        }
    }

    /// Tells the peers over the fabric whether they have to ask before they send.
    pub(crate) fn tell_pressed(&mut self, pressed: bool) {
        if self.remote.told == pressed {
            return;
        }
        self.remote.told = pressed;
        let peers: Vec<u32> = self.remote.peers.values().copied().collect();
        for peer in peers {
            self.control(peer, Control::new(wire::PRESSED, [u64::from(pressed)]));
        }
    }
}

impl Remote {
    /// Sends a control record. False: no room now.
    fn control(&mut self, to: ConnectionId, control: &Control) -> bool {
        let Some(fabric) = &mut self.fabric else {
            return true;
        };
        let bytes = wire::WORDS * 8;
        fabric
            .send(to, control.kind, control.tag, bytes, |room| {
                put_words(&mut Place::new(room), &control.words);
            })
            .is_ok()
    }
}
