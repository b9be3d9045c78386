//! Messages to this endpoint itself.

use limic_policy::Path;

use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::envelope::{Envelope, Told};
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::engine::protocol::unexpected;
use crate::engine::request::{Operation, SendStage, Sending, Slot, sent};
use crate::raw::Posted;
use crate::{Error, Peer, Result};

/// A message to this endpoint itself: one copy if its receive is posted, two if it is short.
pub(crate) fn send_loopback(cx: &mut Cx, sending: Sending) -> Result<Posted> {
    let (me, tag, len) = (sending.to, sending.tag, sending.data.len());
    let envelope = Envelope {
        from: me,
        tag,
        immediate: sending.immediate,
    };
    let done = Posted::Done(sent(me, tag, len));
    counting::assign_row(cx, me);
    // Nobody rings for it, and another thread may poll for it.
    cx.wakeup.poller.notify();
    counting::count_sent(cx, me, Path::SelfCopy, len);
    if let Some(slot) = cx.matching.take_posted(&mut cx.requests, me, tag, len) {
        deliver(cx, slot, envelope, &sending);
        return Ok(done);
    }
    let short = len <= cx.staging.buffer_bytes && !sending.matched;
    let (body, slot, posted) = if short {
        (UnexpectedBody::Bytes(sending.data.to_vec()), None, done)
    } else {
        let sending = Sending {
            stage: SendStage::Loopback,
            ..sending
        };
        let slot = cx.requests.insert(Operation::Send(sending));
        let id = cx.requests.id(slot);
        (
            UnexpectedBody::Loopback(id),
            Some(slot),
            Posted::Pending(id),
        )
    };
    let message = UnexpectedMessage {
        envelope,
        len,
        body,
    };
    match unexpected::keep(cx, message) {
        Ok(_) => Ok(posted),
        Err(why) => {
            if let Some(slot) = slot {
                cx.requests.release(slot);
            }
            Err(Error::NoMemory(why.into()))
        }
    }
}

/// The endpoint has ended: a message that was claimed and not received is lost.
pub(crate) fn end_kept(cx: &mut Cx, slot: Slot) {
    let Operation::Send(sending) = cx.requests.get(slot) else {
        return;
    };
    let (me, is_kept) = (sending.to, sending.stage == SendStage::Loopback);
    let (true, Ok(Some(why))) = (is_kept, cx.peers.failure(me)) else {
        return;
    };
    let id = cx.requests.id(slot);
    let store = cx.matching.store();
    let of_it =
        |kept: &UnexpectedMessage| matches!(kept.body, UnexpectedBody::Loopback(it) if it == id);
    let error = why.of(Peer(me));
    for token in store.find(true, of_it) {
        unexpected::lose(cx, token, error.clone());
    }
    cx.requests.complete(slot, Err(error));
}

/// Copies a message into its posted receive.
fn deliver(cx: &mut Cx, slot: Slot, envelope: Envelope, sending: &Sending) {
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return;
    };
    let (len, room) = (sending.data.len(), receiving.into.len());
    receiving.into.copy_from_send(&sending.data, room);
    counting::count_received_by(cx, envelope.from, Path::SelfCopy, len);
    cx.requests.complete(slot, envelope.outcome(len, room));
}
