//! A long message is offered to its receiver, who says how the bytes go.

use crate::buffer::SendBuffer;
use crate::engine::cx::Cx;
use crate::engine::frame::{self, Offer};
use crate::engine::request::{SendStage, Slot};
use crate::kmod::Exposed;
use crate::single_copy::address_of;

/// Offers a queued send to a peer that shares memory with this endpoint. False: no room now.
pub(crate) fn push_offer(cx: &mut Cx, to: u32, slot: Slot) -> bool {
    let id = cx.requests.id(slot);
    let Some(pair) = cx.peers.pair(to) else {
        return false;
    };
    let Some(sending) = cx.requests.sending(slot) else {
        return true;
    };
    let address = address_of(sending.data.slices());
    let same_process = pair.copies.is_same_process();
    if sending.exposed.is_none() && !same_process {
        sending.exposed = pair.copies.expose(&mut cx.transfers.kmod, &sending.data);
    }
    let offer = Offer {
        len: sending.data.len(),
        send: id.0,
        address: address.unwrap_or(0),
        key: sending.exposed.as_ref().map_or(0, Exposed::handle),
        vectored: address.is_none(),
        confirm: false,
    };
    let (kind, tag, immediate) = (frame::READY_TO_SEND, sending.tag, sending.immediate);
    if !pair.out.push_message(kind, tag, immediate, offer.encode()) {
        return false;
    }
    sending.stage = SendStage::Offered { retracting: false };
    if same_process {
        // SAFETY: the same bytes; the entry goes before the operation ends (`end_send`).
        let second = unsafe { SendBuffer::new(sending.data.slices()) };
        crate::same_process::enter(cx.identity.address.id, id.0, second);
    }
    true
}
