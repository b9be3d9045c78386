//! Eager messages in pieces, as their receiver sees them: see `in_pieces`.

use super::Core;
use super::in_hand::LONGEST;
use super::in_pieces;
use super::requests::{Incoming, Operation, ReceiveStage, Receiving, Requests, Slot};
use super::stash::{Arrived, Stash, Waiting};
use super::told::{Told, Wrong};
use super::wire;
use crate::buffer::{ReceiveBuffer, Source, append, word_at, words};
use crate::policy::Path;
use crate::policy::lag::LONG;
use crate::raw::{Posted, RequestId};

/// A message of which some pieces have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound {
    to: Into,
    /// Bytes that have come, and the length of the message.
    at: u64,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
enum Into {
    /// The buffer of a receive.
    Receive(RequestId),
    /// The stash, under this token.
    Kept(u32),
}

impl Core {
    /// A message in pieces begins.
    pub(crate) fn on_begins(&mut self, from: u32, tag: u64, source: &impl Source) {
        let (flags, len) = wire::parted(word_at(source, 0));
        let immediate = (flags & wire::WITH_IMMEDIATE != 0).then(|| word_at(source, 1));
        let Some(link) = self.peers.link(from) else {
            return;
        };
        if link.inbound.is_some() || len == 0 || len > LONGEST {
            return self.corrupt(
                from,
                "a message that begins within another one, or is too long to come in pieces",
            );
        }
        let to = match self.take_posted(from, tag) {
            Some(slot) => {
                if flags & wire::HELD_UP == 0 {
                    self.receive_was_posted(from);
                } else {
                    // There may be others before the next one, in the ring, where this endpoint does not see them.
                    self.sender_waits(from);
                    self.sender_waited(from, LONG);
                }
                let id = self.requests.id(slot);
                if let Some(receiving) = self.requests.receiving(slot) {
                    let room = receiving.into.len();
                    let incoming = incoming(from, tag, immediate, len, room);
                    receiving.stage = ReceiveStage::Assembling(incoming);
                    if room == 0 {
                        self.received(slot, &incoming);
                    }
                }
                Into::Receive(id)
            }
            None => {
                if len > in_pieces::LONGEST
                    && let Some(link) = self.peers.link(from)
                {
                    link.answered_unasked(&mut self.pool, len);
                }
                let waiting = Waiting::Coming(self.stash.buffer());
                let arrived = Arrived {
                    from,
                    tag,
                    immediate,
                    len,
                    waiting,
                };
                Into::Kept(self.store(arrived))
            }
        };
        if let Some(link) = self.peers.link(from) {
            link.inbound = Some(Inbound { to, at: 0, len });
        }
    }

    /// The next piece lies in a pool.
    pub(crate) fn on_next_piece(&mut self, from: u32, source: &impl Source) {
        let told = Told::from(words::<2>(source));
        let Some(link) = self.peers.link(from) else {
            return;
        };
        let brought = link.read_in_place(&mut self.pool, from, &told, |inbound, window| {
            next_bytes(&mut self.requests, &mut self.stash, inbound, from, window)
        });
        self.after_bytes(from, brought);
    }

    /// The next piece is all of the record.
    #[inline]
    pub(crate) fn on_next_bytes(&mut self, from: u32, bytes: &impl Source) {
        let Some(link) = self.peers.link(from) else {
            return;
        };
        let inbound = &mut link.inbound;
        let brought = next_bytes(&mut self.requests, &mut self.stash, inbound, from, bytes);
        self.after_bytes(from, brought);
    }

    #[inline]
    fn after_bytes(&mut self, from: u32, brought: Result<Brought, Wrong>) {
        match brought {
            Ok(Brought::Some) => {}
            Ok(Brought::All(slot, incoming)) => self.received(slot, &incoming),
            Ok(Brought::Kept(len)) => self.count_unexpected(len as i64),
            Err(wrong) => self.corrupt(from, wrong),
        }
    }

    fn received(&mut self, slot: Slot, incoming: &Incoming) {
        self.requests.complete(slot, incoming.outcome());
        self.received_in_pieces(incoming.from, incoming.sent);
    }

    /// All pieces of a message were received where they belong.
    pub(crate) fn received_in_pieces(&mut self, from: u32, len: u64) {
        self.was_at_work(from);
        self.note_received(from, 1, len);
        // Its sender is likely to look at its ring now: for an answer, or for room.
        self.look_at_hand_over(from);
    }

    /// A message in pieces begins, for a receive that takes them itself. False if another one is still coming.
    pub(crate) fn begins_directly(&mut self, from: u32) -> bool {
        let free = self
            .peers
            .link(from)
            .is_some_and(|link| link.inbound.is_none());
        if free {
            self.receive_was_posted(from);
        }
        free
    }

    /// The first `at` bytes of a message are where they belong; the others come in the ordinary way.
    pub(crate) fn go_on_receiving(
        &mut self,
        mut incoming: Incoming,
        at: u64,
        into: ReceiveBuffer,
    ) -> Slot {
        incoming.got = at.min(incoming.wanted);
        let (from, len) = (incoming.from, incoming.sent);
        let stage = ReceiveStage::Assembling(incoming);
        let slot = self
            .requests
            .insert(Operation::Receive(Receiving { into, stage }));
        let to = Into::Receive(self.requests.id(slot));
        if let Some(link) = self.peers.link(from) {
            // The only message of this peer that is still coming.
            link.inbound = Some(Inbound { to, at, len });
        }
        slot
    }

    /// Receives a message of which the pieces `bytes` have come so far, for a scope if `owner` is not 0.
    pub(crate) fn receive_coming(
        &mut self,
        mut incoming: Incoming,
        bytes: Vec<u8>,
        into: ReceiveBuffer,
        owner: u32,
    ) -> Posted {
        self.count_unexpected(-(bytes.len() as i64));
        let at = bytes.len() as u64;
        let got = at.min(incoming.wanted);
        into.copy_from(0, got, &bytes[..]);
        self.stash.recycle(bytes);
        if at == incoming.sent {
            incoming.got = got;
            self.was_at_work(incoming.from);
            self.note_received(incoming.from, 1, incoming.sent);
            return Posted::Done(incoming.outcome());
        }
        let slot = self.go_on_receiving(incoming, at, into);
        if got >= incoming.wanted {
            self.received(slot, &incoming);
        }
        match self.requests.take_done(slot) {
            Some(outcome) => Posted::Done(outcome),
            None => {
                self.requests.set_owner(slot, owner);
                Posted::Pending(self.requests.id(slot))
            }
        }
    }
}

/// What a piece brought.
enum Brought {
    /// Bytes that nobody waits for alone, or not any more.
    Some,
    /// The last bytes of a receive.
    All(Slot, Incoming),
    /// So many bytes for the stash.
    Kept(u64),
}

/// Copies the next bytes of the message that is coming from a peer to where they belong.
#[inline]
fn next_bytes(
    requests: &mut Requests,
    stash: &mut Stash,
    coming: &mut Option<Inbound>,
    from: u32,
    bytes: &impl Source,
) -> Result<Brought, Wrong> {
    let len = bytes.len();
    let Some(inbound) = coming.filter(|inbound| len > 0 && len <= inbound.len - inbound.at) else {
        return Err("a piece of no message, or beyond its end");
    };
    let at = inbound.at + len;
    *coming = (at < inbound.len).then_some(Inbound { at, ..inbound });
    Ok(match inbound.to {
        Into::Receive(id) => copy_piece(requests, from, id, inbound.at, bytes),
        Into::Kept(token) => match stash.coming(token) {
            Some(kept) => {
                append(bytes, kept);
                Brought::Kept(len)
            }
            None => Brought::Some,
        },
    })
}

/// Copies a piece to its place in a receive, which may be over: cancelled with its scope, or full.
#[inline]
fn copy_piece(
    requests: &mut Requests,
    from: u32,
    id: RequestId,
    at: u64,
    bytes: &impl Source,
) -> Brought {
    let Some(slot) = requests.find(id) else {
        return Brought::Some;
    };
    let Some(receiving) = requests.receiving(slot) else {
        return Brought::Some;
    };
    let ReceiveStage::Assembling(incoming) = &mut receiving.stage else {
        return Brought::Some;
    };
    if incoming.from != from {
        return Brought::Some;
    }
    let len = bytes.len().min(incoming.wanted.saturating_sub(at));
    incoming.got += len;
    let incoming = *incoming;
    receiving.into.copy_part(at, len, bytes, incoming.wanted);
    if incoming.got >= incoming.wanted {
        Brought::All(slot, incoming)
    } else {
        Brought::Some
    }
}

/// What is known of a message in pieces when it is matched.
pub(crate) fn incoming(
    from: u32,
    tag: u64,
    immediate: Option<u64>,
    len: u64,
    room: u64,
) -> Incoming {
    Incoming {
        from,
        tag,
        immediate,
        sent: len,
        wanted: len.min(room),
        got: 0,
        remote: 0,
        address: 0,
        key: 0,
        path: Path::Eager,
        past_caches: false,
        region: None,
        spell: None,
        confirm: false,
    }
}
