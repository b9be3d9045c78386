//! A message that finds no receive is kept, and its sender learns what that means for it.

use crate::buffer::{Source, append};
use crate::engine::control::{budget, pace};
use crate::engine::cx::Cx;
use crate::engine::envelope::Envelope;
use crate::engine::frame::Violation;
use crate::engine::matching::unexpected::kept_bytes;
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};

/// Keeps a whole message.
///
/// # Errors
/// There is no memory for it.
#[cold]
pub(crate) fn keep_bytes(
    cx: &mut Cx,
    envelope: Envelope,
    source: &impl Source,
) -> Result<(), Violation> {
    let mut bytes = cx.matching.store().buffer();
    append(source, &mut bytes);
    budget::count_bytes(cx, bytes.len() as i64);
    let message = UnexpectedMessage {
        envelope,
        len: source.len(),
        body: UnexpectedBody::Bytes(bytes),
    };
    keep(cx, message).map(|_| ())
}

/// Keeps a message, or what is there of it. Gives its token.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn keep(cx: &mut Cx, message: UnexpectedMessage) -> Result<u32, Violation> {
    if message.body.blocks_sender().is_some() {
        pace::sender_blocked(cx, message.envelope.from);
    }
    cx.matching
        .store_message(&cx.counters, message)
        .map_err(|_| "more unexpected messages than memory can hold")
}

/// Forgets a message: its sender is gone, or has cancelled.
pub(crate) fn withdraw(cx: &mut Cx, token: u32) {
    let Some(message) = cx.matching.withdraw(token) else {
        return;
    };
    if message.body.blocks_sender().is_some() {
        if let Some(pair) = cx.peers.pair(message.envelope.from) {
            pair.pace.own.withdrawn();
        }
    }
    budget::count_bytes(cx, -kept_bytes(&message));
}
