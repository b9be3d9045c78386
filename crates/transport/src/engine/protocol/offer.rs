//! A long message is offered to its receiver, who says how the bytes go.

use limic_copy::{Exposed, address_of};
use limic_heap::HeapPlace;
use limic_records::{self as frame, Offer};
use limic_shm::bytes::SendBuffer;

use crate::engine::cx::Cx;
use crate::engine::peer::table::Channel;
use crate::engine::protocol::{arena_message, packets};
use crate::engine::request::{SendStage, Sending, Slot};
use crate::raw::RequestId;

/// What a receiver is told of a send that is offered, but for where its bytes lie.
pub(super) fn offer_of(sending: &Sending, send: RequestId) -> Offer {
    Offer {
        len: sending.data.len(),
        send: send.0,
        vectored: sending.data.slices().len() != 1,
        ..Offer::default()
    }
}

/// Offers a queued send. False: no room now.
pub(crate) fn push_offer(cx: &mut Cx, to: u32, slot: Slot) -> bool {
    if let Some(Channel::Fabric(link)) = cx.peers.channel(to) {
        let link = *link;
        return packets::push_offer(cx, link, slot);
    }
    let id = cx.requests.id(slot);
    let place = heap_place(cx, to, slot);
    let Some(pair) = cx.peers.pair(to) else {
        return false;
    };
    let Some(sending) = cx.requests.known_send(slot) else {
        return true;
    };
    let address = address_of(sending.data.slices());
    let same_process = pair.copies.is_same_process();
    if sending.exposed.is_none() && !same_process && place.is_none() {
        sending.exposed = pair.copies.expose(&mut cx.transfers.kmod, &sending.data);
    }
    let key = || sending.exposed.as_ref().map_or(0, Exposed::handle);
    let (address, key) = match place {
        Some(place) => (Some(place.offset), u64::from(place.arena)),
        None => (address, key()),
    };
    let offer = Offer {
        address: address.unwrap_or(0),
        key,
        peer_readable: place.is_some(),
        ..offer_of(sending, id)
    };
    if same_process {
        // SAFETY: the same bytes; the entry goes before the operation ends: below, or by
        // `end_send`.
        let second = unsafe { SendBuffer::new(sending.data.slices()) };
        // Before the offer: its receiver may look for the entry as soon as it sees that.
        limic_copy::same_process::enter(cx.identity.address.id, id.0, second);
    }
    let (kind, tag, immediate) = (frame::READY_TO_SEND, sending.tag, sending.immediate);
    if !pair.out.push_message(kind, tag, immediate, offer.encode()) {
        if same_process {
            limic_copy::same_process::leave(cx.identity.address.id, id.0);
        }
        return false;
    }
    sending.stage = SendStage::Offered { retracting: false };
    true
}

/// Where the bytes lie that the peer may read, if it has mapped them or will before it sees an
/// offer.
fn heap_place(cx: &mut Cx, to: u32, slot: Slot) -> Option<HeapPlace> {
    let sending = cx.requests.known_send(slot)?;
    if !cx.peers.pair(to)?.routes.may_stay(sending.data.len()) {
        return None;
    }
    let place = cx.transfers.heap.place(sending.data.slices())?;
    arena_message::send_arena(cx, to, place.arena).then_some(place)
}
