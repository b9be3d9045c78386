//! Long messages: an offer is accepted, a path is picked, and the bytes move.
//!
//! The receiver picks the path, since only it knows both buffers. Whatever it picks, the message
//! was matched already, so several long messages of a pair may move at the same time and in any order.

use limic_shm::segment::POOL_PAGE;

use super::Core;
use super::peers::Link;
use super::pool::piece_of;
use super::requests::{Incoming, ReceiveStage, SendStage, Slot};
use super::stash::Offer;
use super::wire::{self, Control};
use crate::buffer::{Behind, SendBuffer, Source, put_words, words};
use crate::counters::Event;
use crate::policy::{BufferKind, Path, Query};
use crate::raw::RequestId;
use crate::single_copy::address_of_room;

/// Longest piece of a long message that travels in the ring, with its header.
const MOST_IN_RING: u64 = 4 << 10;
/// Shortest piece that travels through a chunk, unless the message or the chunk ends.
const LEAST_CHUNK: u64 = 16 << 10;
/// Bytes of a piece's own words.
const PIECE_WORDS: u64 = 8;
/// Bytes of these, and of the record's header.
const PIECE_HEADER: u64 = PIECE_WORDS + 16;

/// Polls in vain before yielding under which two ranks are taken not to run at the same time. Each turn of one then
/// has to move as much as it can: through chunks, which hold twenty times as much as the near lap.
pub(crate) const FEW_SPINS: u32 = 100;
/// Chunks to fill, before the ring is tried again, once a stream has waited so long that its sender yielded.
pub(crate) const CROWDED: u32 = 32;

/// Bytes of the first and the last piece of a message through the pool: a quarter of it, within these bounds, and at most half of
/// it. The receiver can only begin when the first is there, and ends when it has copied the last.
const FIRST_PIECE: core::ops::RangeInclusive<u64> = 8 << 10..=16 << 10;

/// Bytes of the piece at byte `at` of a message of `len` bytes, of at most `most` bytes: short ones first and last, and longer
/// ones, of which each costs as much to tell as a short one, in between.
pub(crate) fn piece_bytes(len: u64, at: u64, most: u64) -> u64 {
    let pages = |bytes: u64| bytes.next_multiple_of(POOL_PAGE.into());
    let first = pages(len / 4).clamp(*FIRST_PIECE.start(), *FIRST_PIECE.end());
    let first = first.min(pages(len.div_ceil(2)));
    let left = len - at;
    at.min(pages(left / 2)).max(first).min(most).min(left)
}

/// What is known of a long message when it is matched.
pub(crate) fn incoming(offer: &Offer, room: u64) -> Incoming {
    Incoming {
        from: offer.from,
        tag: offer.tag,
        immediate: offer.immediate,
        sent: offer.len,
        wanted: offer.len.min(room),
        got: 0,
        remote: offer.remote,
        address: offer.address,
        key: offer.key,
        region: None,
        spell: None,
        path: Path::Pipeline,
    }
}

impl Core {
    /// Matches an offer with a receive and starts the transfer.
    pub(crate) fn accept(&mut self, slot: Slot, offer: &Offer) {
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let room = receiving.into.len();
        let whole = address_of_room(receiving.into.slices()).is_some();
        let mut incoming = incoming(offer, room);
        receiving.stage = ReceiveStage::Assembling(incoming);
        if incoming.wanted == 0 {
            return self.finish_receive(slot, &incoming);
        }
        if let Some(wire) = self.peers.get(offer.from).and_then(|peer| peer.wire) {
            return self.accept_remote(slot, offer, incoming, wire);
        }
        let Some(link) = self.peers.link(offer.from) else {
            return;
        };
        if link.same_process {
            let peer_id = self.peers.get(offer.from).map_or(0, |peer| peer.address.id);
            if let Some(receiving) = self.requests.receiving(slot)
                && crate::same_process::copy(
                    peer_id,
                    offer.remote,
                    &receiving.into,
                    incoming.wanted,
                )
            {
                incoming.path = Path::SameProcess;
                return self.finish_receive(slot, &incoming);
            }
        }
        self.look_at_hand_over(offer.from);
        let (path, spell) = self.choose(offer, incoming.wanted, whole);
        incoming.spell = spell;
        incoming.path = path;
        match path {
            // Through the module if the sender lets this endpoint read; else it is asked to write (`exposed`).
            Path::Kmod if offer.key == 0 => self.start_exposed(slot, incoming),
            Path::Cma | Path::Kmod => {
                if let Some(receiving) = self.requests.receiving(slot) {
                    receiving.stage = ReceiveStage::Reading(incoming);
                }
                self.work.copies.push_back(slot);
            }
            Path::BothSides => self.start_both_sides(slot, incoming),
            _ => self.ask_for_stream(slot, &incoming),
        }
    }

    /// The path for the bytes of a matched long message, and the spell in which it is measured, if it is.
    fn choose(&mut self, offer: &Offer, len: u64, whole: bool) -> (Path, Option<u32>) {
        let Some(link) = self.peers.link(offer.from) else {
            return (Path::Pipeline, None);
        };
        // The message was offered, so the paths without asking are not open to it any more.
        let mut capabilities = link.capabilities;
        capabilities.demote(Path::Inline);
        capabilities.demote(Path::Eager);
        if offer.in_pieces {
            // A single copy needs one address on the sender's side.
            capabilities.demote(Path::Cma);
        }
        if !whole {
            // Both sides need one on each.
            capabilities.demote(Path::BothSides);
        }
        let query = Query {
            bytes: len,
            locality: link.locality,
            skew: link.lag.skew(),
            buffer: if offer.in_pieces {
                BufferKind::Vectored
            } else {
                BufferKind::Plain
            },
            capabilities,
        };
        match self.settings.policy().choose_correctable(&query) {
            Some((choice, true)) if choice.path.is_rendezvous() => {
                self.corrected(offer.from, len, choice.path, capabilities.paths)
            }
            Some((choice, _)) if choice.path.is_rendezvous() => (choice.path, None),
            _ => (Path::Pipeline, None),
        }
    }

    /// Asks the sender for the rest of a message through chunks.
    pub(crate) fn ask_for_stream(&mut self, slot: Slot, incoming: &Incoming) {
        if let Some(receiving) = self.requests.receiving(slot) {
            receiving.stage = ReceiveStage::Assembling(Incoming {
                path: Path::Pipeline,
                ..*incoming
            });
        }
        let id = self.requests.id(slot);
        let words = [incoming.remote, id.0, incoming.got, incoming.wanted];
        self.control(incoming.from, Control::new(wire::CLEAR_TO_SEND, words));
    }

    /// The sender's buffer is free, and so is the receiver's.
    pub(crate) fn finish_receive(&mut self, slot: Slot, incoming: &Incoming) {
        self.control(
            incoming.from,
            Control::new(
                wire::FINISHED,
                [incoming.remote, incoming.path.index() as u64],
            ),
        );
        self.complete_receive(slot, incoming);
    }

    pub(crate) fn complete_receive(&mut self, slot: Slot, incoming: &Incoming) {
        self.note_received_by(incoming.from, incoming.path, incoming.sent);
        self.long_message_ended(incoming);
        if incoming.region.is_some() {
            self.finish_put(slot, incoming);
        } else {
            self.requests.complete(slot, incoming.outcome());
        }
    }

    /// The receiver wants the bytes through chunks.
    pub(crate) fn on_clear_to_send(&mut self, from: u32, source: &impl Source) {
        let [id, remote, start, end] = words::<4>(source);
        let Some(slot) = self.send_to(from, id) else {
            return;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        if start > end || end > sending.data.len() {
            return self.corrupt(from, "a request for bytes outside of the message");
        }
        // What the receiver does not read is not open to it any longer.
        sending.exposed = None;
        if let Some(link) = self.peers.link(from) {
            link.kmod.note(false);
        }
        match sending.stage {
            SendStage::Offered { .. } | SendStage::Back(_) | SendStage::Writing { .. } => {
                sending.stage = SendStage::Streaming {
                    remote,
                    at: start,
                    end,
                    confirm: false,
                };
            }
            SendStage::Put { .. } => {
                sending.stage = SendStage::Streaming {
                    remote,
                    at: start,
                    end,
                    confirm: true,
                };
            }
            _ => return,
        }
        self.long_send_answered(from);
        self.work.streams.push_back(slot);
        self.push_streams();
    }

    /// A send that this peer may speak about.
    pub(crate) fn send_to(&mut self, from: u32, id: u64) -> Option<Slot> {
        let slot = self.requests.find(RequestId(id))?;
        (self.requests.sending(slot)?.to == from).then_some(slot)
    }

    /// Bytes of a long message came in a chunk.
    pub(crate) fn on_data(&mut self, from: u32, source: &impl Source) {
        let [id, offset, page, generation, len] = words::<5>(source);
        let Some(link) = self.peers.link(from) else {
            return;
        };
        // A clone of the view, as for eager messages in the pool.
        let pool = link.pool.clone();
        let Some(window) = piece_of(&pool, page, len) else {
            return self.corrupt(from, "data outside of the pool");
        };
        let all = self.take_bytes(from, id, offset, &window);
        if let Some(link) = self.peers.link(from) {
            link.released.release(page as u32, generation as u32);
            link.wake();
        }
        if let Some(slot) = all {
            self.assembled(slot);
        }
    }

    /// Bytes of a long message came in the record itself.
    #[inline]
    pub(crate) fn on_piece(&mut self, from: u32, id: u64, source: &impl Source) {
        let [offset] = words::<1>(source);
        if source.len() < PIECE_WORDS {
            return self.corrupt(from, "a piece of a message without its offset");
        }
        let bytes = Behind {
            inner: source,
            skip: PIECE_WORDS,
        };
        if let Some(slot) = self.take_bytes(from, id, offset, &bytes) {
            self.assembled(slot);
        }
    }

    /// Copies bytes of a long message to where they belong. `Some` if they were the last. A receive that is gone, since
    /// its scope failed, wants none.
    #[inline]
    fn take_bytes(&mut self, from: u32, id: u64, offset: u64, bytes: &impl Source) -> Option<Slot> {
        let slot = self.requests.find(RequestId(id))?;
        let receiving = self.requests.receiving(slot)?;
        let (sender, got, wanted) = match &mut receiving.stage {
            ReceiveStage::Assembling(incoming) => {
                (incoming.from, &mut incoming.got, incoming.wanted)
            }
            ReceiveStage::Get { from, got, .. } => (*from, got, receiving.into.len()),
            _ => (u32::MAX, &mut 0, 0),
        };
        let len = bytes.len();
        let fits = sender == from && offset.checked_add(len).is_some_and(|end| end <= wanted);
        if !fits || len == 0 {
            self.corrupt(from, "data that was not asked for");
            return None;
        }
        receiving.into.copy_from(offset, len, bytes);
        *got += len;
        (*got >= wanted).then_some(slot)
    }

    /// All bytes of a receive have come through chunks.
    pub(crate) fn assembled(&mut self, slot: Slot) {
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        match receiving.stage {
            ReceiveStage::Assembling(incoming) => {
                self.complete_receive(slot, &incoming);
            }
            ReceiveStage::Get { from, got, .. } => {
                self.note_received_by(from, Path::Pipeline, got);
                self.requests
                    .complete(slot, super::send::sent(from, 0, got));
            }
            _ => {}
        }
    }

    /// The receiver has all it wants.
    pub(crate) fn on_finished(&mut self, from: u32, source: &impl Source) {
        let [id, path] = words::<2>(source);
        let Some(slot) = self.send_to(from, id) else {
            return;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        if let SendStage::Back(halves) = sending.stage
            && !halves.finished
        {
            return self.corrupt(from, "the end of a copy that still runs");
        }
        let (tag, len) = (sending.tag, sending.data.len());
        // For the counters; a path that does not exist is the peer's nonsense, and harms nobody.
        let path = usize::try_from(path)
            .ok()
            .and_then(|path| Path::ALL.get(path).copied())
            .unwrap_or(Path::Pipeline);
        if let Some(link) = self.peers.link(from) {
            link.kmod.note(path == Path::Kmod);
        }
        self.long_send_answered(from);
        self.note_sent(from, path, len);
        self.end_send(slot, super::send::sent(from, tag, len));
    }

    /// Fills chunks for the sends that were asked for, oldest first. True if bytes moved.
    pub(crate) fn push_streams(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..self.work.streams.len() {
            let Some(slot) = self.work.streams.pop_front() else {
                break;
            };
            let (went, over) = self.push_stream(slot);
            moved |= went;
            if !over {
                self.work.streams.push_back(slot);
            }
        }
        moved
    }

    /// Fills chunks for one send until there are none: (bytes moved, it is over).
    fn push_stream(&mut self, slot: Slot) -> (bool, bool) {
        let mut moved = false;
        let to = self.requests.sending(slot).map(|sending| sending.to);
        let wire = to.and_then(|to| self.peers.get(to)?.wire);
        if let Some(wire) = wire {
            return self.push_stream_remote(slot, wire);
        }
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
            let to = sending.to;
            let Some(link) = self.peers.link(to) else {
                return (moved, true);
            };
            if at == end {
                self.streamed(slot, confirm);
                return (moved, true);
            }
            // Few polls: there are more endpoints than CPUs.
            let crowded = self.crowded > 0 || self.spins < FEW_SPINS;
            let len = if link.streams_in_ring() && !crowded {
                match link.push_piece(remote, at, end - at, &sending.data) {
                    Some(len) => len,
                    None => return (moved, false),
                }
            } else {
                // Short pieces are for the ring; one in the pool costs more, and is made for more.
                let most = link.chunk_bytes.max(LEAST_CHUNK).min(self.pool.chunk_bytes);
                let len = if crowded {
                    most.min(end - at)
                } else {
                    piece_bytes(end, at, most)
                };
                let Some(piece) = self.pool.take(to, len, link.window) else {
                    return (moved, false);
                };
                let words = [
                    remote,
                    at,
                    u64::from(piece.page),
                    u64::from(piece.generation),
                    len,
                ];
                let filled = match self.pool.window(piece, len) {
                    Some(mut window) if link.has_room() => {
                        sending.data.copy_to(at, len, &mut window);
                        link.push_control(&Control::new(wire::DATA, words))
                    }
                    _ => false,
                };
                if !filled {
                    self.pool.put_back(piece);
                    return (moved, false);
                }
                self.crowded = self.crowded.saturating_sub(1);
                len
            };
            sending.stage = SendStage::Streaming {
                remote,
                at: at + len,
                end,
                confirm,
            };
            moved = true;
        }
    }

    /// All bytes of a send lie in chunks: its buffer is free. A one-sided write is done only when the
    /// owner of the region says so.
    pub(crate) fn streamed(&mut self, slot: Slot, confirm: bool) {
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        if confirm {
            sending.stage = SendStage::Confirming;
            return;
        }
        let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
        let over_verbs = self.peers.get(to).is_some_and(|peer| peer.wire.is_some());
        let path = if over_verbs {
            Path::RcEager
        } else {
            Path::Pipeline
        };
        self.note_sent(to, path, len);
        self.end_send(slot, super::send::sent(to, tag, len));
    }

    /// The sender takes an offer back: agreed if nobody has matched it.
    pub(crate) fn on_retract(&mut self, from: u32, source: &impl Source) {
        let [id] = words::<1>(source);
        let offered = self.stash.find(|arrived| {
            matches!(arrived.waiting, super::stash::Waiting::Offered(offer)
                if offer.from == from && offer.remote == id)
        });
        // A claimed message is matched, and not found.
        let Some(token) = offered.first().copied() else {
            return;
        };
        self.withdraw(token);
        self.control(from, Control::new(wire::RETRACTED, [id]));
    }

    /// The receiver agreed that the offer is taken back.
    pub(crate) fn on_retracted(&mut self, from: u32, source: &impl Source) {
        let [id] = words::<1>(source);
        if let Some(slot) = self.send_to(from, id)
            && let Some(sending) = self.requests.sending(slot)
            && sending.stage == (SendStage::Offered { retracting: true })
        {
            self.end_send(slot, Err(crate::Error::Cancelled));
        }
    }

    /// Single copy failed for a pair: never again, and the message goes on by the pipeline.
    pub(crate) fn demote(&mut self, peer: u32, engine: Path, why: &str) {
        if let Some(link) = self.peers.link(peer) {
            if engine == Path::Kmod {
                link.kmod.demote(why);
                link.capabilities.demote(Path::Kmod);
            } else {
                link.remote.demote(why);
                link.capabilities.demote(Path::Cma);
                link.capabilities.demote(Path::BothSides);
            }
        }
        tracing::warn!("{engine} to peer {peer}: {why}; using pipeline");
        self.tally.event(Event::Demotions);
        self.tally.reason(Some(engine), peer, why);
    }
}

impl Link {
    /// Whether the pieces of long messages are short enough to travel in the private ring, all in its near
    /// lap: then the same few lines go to and fro between the first-level caches of the two cores. Longer ones,
    /// and those to a peer without a private ring, go through chunks.
    #[inline]
    fn streams_in_ring(&self) -> bool {
        matches!(self.out, super::peers::Out::Private(_)) && self.chunk_bytes <= MOST_IN_RING
    }

    /// Sends the next bytes of a long message in a record; says how many. `None`: no room now.
    fn push_piece(&mut self, id: u64, at: u64, left: u64, data: &SendBuffer) -> Option<u64> {
        let super::peers::Out::Private(ring) = &mut self.out else {
            return None;
        };
        // With its header a record takes `chunk_bytes`, so that whole records fill the lap.
        let most = (self.chunk_bytes - PIECE_HEADER).min(left) + PIECE_WORDS;
        let most = u32::try_from(most).map_or(u32::MAX, |most| most.min(ring.max_near_payload()));
        let mut room = ring.reserve_near(most)?;
        let len = u64::from(room.len()) - PIECE_WORDS;
        put_words(&mut room, &[at]);
        let mut rest = Behind {
            inner: &mut room,
            skip: PIECE_WORDS,
        };
        data.copy_to(at, len, &mut rest);
        room.publish(wire::PIECE, 0, id);
        self.wake();
        Some(len)
    }

    /// Whether a control record has room now.
    pub(crate) fn has_room(&mut self) -> bool {
        use super::peers::Out;
        const BYTES: u32 = (wire::WORDS * 8) as u32;
        self.finish_switch()
            && match &mut self.out {
                Out::Private(ring) => ring.reserve(BYTES).is_some(),
                Out::Shared(ring) => ring.reserve(BYTES).is_some(),
            }
    }
}
