//! Cancellation: of what has not matched yet.

use limic_records::{self as frame, ControlRecord};

use crate::engine::cx::Cx;
use crate::engine::matching::unexpected_store::UnexpectedBody;
use crate::engine::outbox;
use crate::engine::protocol::unexpected;
use crate::engine::request::{Operation, SendStage, Slot};
use crate::raw::RequestId;
use crate::{Error, Result};

/// Asks that a request be cancelled. It completes with `Cancelled` now or soon, or as usual if it
/// has matched already.
pub(crate) fn cancel(cx: &mut Cx, id: RequestId) -> Result<()> {
    let slot = cx.requests.find(id).ok_or(Error::UnknownRequest)?;
    if let Operation::Send(sending) = cx.requests.get(slot) {
        let (to, stage) = (sending.to, sending.stage);
        cancel_send(cx, slot, id, to, stage);
    } else if cx.matching.unpost(&mut cx.requests, slot) {
        cx.requests.complete(slot, Err(Error::Cancelled));
    }
    Ok(())
}

fn cancel_send(cx: &mut Cx, slot: Slot, id: RequestId, to: u32, stage: SendStage) {
    match stage {
        // Its place in the backlog finds nothing when its turn comes.
        SendStage::Queued => {
            // One over verbs may be registered already, and wait for room to be offered.
            cx.fabric.send_is_over(id);
            cx.requests.complete(slot, Err(Error::Cancelled));
        }
        SendStage::Offered { retracting: false } => {
            if let Some(sending) = cx.requests.known_send(slot) {
                sending.stage = SendStage::Offered { retracting: true };
            }
            outbox::control(cx, to, ControlRecord::new(frame::RETRACT, 0, [id.0]));
        }
        SendStage::Loopback => {
            // A claimed message is matched, and stays.
            let body = cx.matching.store().find(
                false,
                |arrived| matches!(arrived.body, UnexpectedBody::Loopback(other) if other == id),
            );
            if let Some(token) = body.first().copied() {
                unexpected::withdraw(cx, token);
                cx.requests.complete(slot, Err(Error::Cancelled));
            }
        }
        // One that has begun to go in parts goes on: its receiver has a part of it.
        _ => {}
    }
}
