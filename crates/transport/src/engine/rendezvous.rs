//! Long messages: an offer is accepted, a path is picked, and the bytes move.
//!
//! The receiver picks the path, since only it knows both buffers. Whatever it picks, the message
//! was matched already, so several long messages of a pair may move at the same time and in any order.

use super::Core;
use super::requests::{Incoming, ReceiveStage, Requests, SendStage, Slot};
use super::stash::Offer;
use super::streams::PIECE_WORDS;
use super::told::{Told, Wrong};
use super::wire::{self, Control};
use crate::buffer::{Behind, Source, words};
use crate::counters::Event;
use crate::kmod::MOST_PIECES;
use crate::policy::adapt::Way;
use crate::policy::{BufferKind, Path, Query};
use crate::raw::RequestId;
use crate::single_copy::address_of_room;

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
        confirm: offer.confirm,
        path: Path::Pipeline,
        past_caches: false,
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
        let pieces = receiving.into.slices().len();
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
        let (way, spell) = self.choose(offer, incoming.wanted, whole, pieces);
        incoming.spell = spell;
        incoming.path = way.path;
        incoming.past_caches = way.past_caches;
        match way.path {
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

    /// The way for the bytes of a matched long message, and the spell in which it is measured, if it is. `whole`: its
    /// room has one address.
    fn choose(
        &mut self,
        offer: &Offer,
        len: u64,
        whole: bool,
        pieces: usize,
    ) -> (Way, Option<u32>) {
        let Some(link) = self.peers.link(offer.from) else {
            return (Way::by(Path::Pipeline), None);
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
        if offer.key == 0 && pieces > MOST_PIECES {
            // The module takes shorter lists; the next message may go through it again.
            capabilities.demote(Path::Kmod);
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
            // Messages in pieces have other paths, which those of the same length in one piece must not learn from.
            Some((choice, true)) if choice.path.is_rendezvous() && !offer.in_pieces => {
                self.corrected(offer.from, len, choice.path, capabilities.paths)
            }
            Some((choice, _)) if choice.path.is_rendezvous() => (Way::by(choice.path), None),
            _ => (Way::by(Path::Pipeline), None),
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
        self.long_message_ended(incoming);
        if incoming.region.is_some() {
            // It counts with the peer that writes.
            self.finish_put(slot, incoming);
        } else {
            self.note_received_by(incoming.from, incoming.path, incoming.sent);
            self.requests.complete(slot, incoming.outcome());
        }
    }

    /// The receiver wants the bytes through chunks.
    pub(crate) fn on_clear_to_send(&mut self, from: u32, source: &impl Source) {
        let [id, remote, start, end] = words::<4>(source);
        let Some(slot) = self.send_to(from, id) else {
            return;
        };
        let over_fabric = self.peers.get(from).is_some_and(|peer| peer.wire.is_some());
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        // Chunks are shared memory; packets are not.
        let confirm = sending.delivered && over_fabric;
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
                    confirm,
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

    /// Bytes of a long message came in a pool.
    pub(crate) fn on_data(&mut self, from: u32, source: &impl Source) {
        let [id, offset, place, extent] = words::<4>(source);
        let told = Told::from([place, extent]);
        let Some(link) = self.peers.link(from) else {
            return;
        };
        let taken = link.read_in_place(&mut self.pool, from, &told, |_, window| {
            take_bytes(&mut self.requests, from, id, offset, window)
        });
        match taken {
            Ok(Some(slot)) => self.assembled(slot),
            Ok(None) => {}
            Err(wrong) => self.corrupt(from, wrong),
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
        match take_bytes(&mut self.requests, from, id, offset, &bytes) {
            Ok(Some(slot)) => self.assembled(slot),
            Ok(None) => {}
            Err(wrong) => self.corrupt(from, wrong),
        }
    }

    /// All bytes of a receive have come through chunks.
    pub(crate) fn assembled(&mut self, slot: Slot) {
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        match receiving.stage {
            ReceiveStage::Assembling(incoming) if incoming.confirm => {
                self.finish_receive(slot, &incoming);
            }
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

/// Copies bytes of a long message to where they belong. `Some` if they were the last. A receive that is gone, since
/// its scope failed, wants none.
#[inline]
fn take_bytes(
    requests: &mut Requests,
    from: u32,
    id: u64,
    offset: u64,
    bytes: &impl Source,
) -> Result<Option<Slot>, Wrong> {
    let Some(slot) = requests.find(RequestId(id)) else {
        return Ok(None);
    };
    let Some(receiving) = requests.receiving(slot) else {
        return Ok(None);
    };
    let (sender, got, wanted, past_caches) = match &mut receiving.stage {
        ReceiveStage::Assembling(incoming) => (
            incoming.from,
            &mut incoming.got,
            incoming.wanted,
            incoming.past_caches,
        ),
        ReceiveStage::Get { from, got, .. } => (*from, got, receiving.into.len(), false),
        _ => (u32::MAX, &mut 0, 0, false),
    };
    let len = bytes.len();
    let fits = sender == from && offset.checked_add(len).is_some_and(|end| end <= wanted);
    if !fits || len == 0 {
        return Err("data that was not asked for");
    }
    if past_caches {
        receiving.into.copy_past_caches(offset, len, bytes);
    } else {
        receiving.into.copy_part(offset, len, bytes, wanted);
    }
    *got += len;
    Ok((*got >= wanted).then_some(slot))
}
