//! A message that finds no receive is kept, and its sender learns what that means for it.

use limic_records::Violation;
use limic_shm::bytes::{Source, append};

use crate::Error;
use crate::engine::control::{budget, counting, pace};
use crate::engine::cx::Cx;
use crate::engine::envelope::{Envelope, Told};
use crate::engine::matching::unexpected::{NoMemory, kept_bytes};
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::raw::Full;

/// The system gives no memory: what a peer has sent is lost, and with it the order of the pair.
pub(crate) const NO_MEMORY: Violation = "more unexpected messages than memory can hold";

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
    if cx.matching.goes_to_inbox(envelope.tag) {
        return put_into_inbox(cx, envelope, source);
    }
    let mut bytes = cx.matching.store().buffer();
    append(source, &mut bytes).map_err(|_| NO_MEMORY)?;
    let message = UnexpectedMessage {
        envelope,
        len: source.len(),
        body: UnexpectedBody::Bytes(bytes),
    };
    keep(cx, message).map(|_| ())
}

/// Apart, so that the others do not pay for it.
///
/// # Errors
/// There is no memory for it.
#[inline(never)]
fn put_into_inbox(cx: &mut Cx, envelope: Envelope, source: &impl Source) -> Result<(), Violation> {
    let put = cx
        .matching
        .inbox()
        .put(envelope.status(source.len()), source);
    put.map_err(|Full| NO_MEMORY)?;
    counting::count_received_eager(cx, envelope.from, source.len());
    Ok(())
}

/// Keeps a message, or what is there of it. Gives its token.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn keep(cx: &mut Cx, message: UnexpectedMessage) -> Result<u32, Violation> {
    if message.body.blocks_sender().is_some() {
        pace::sender_blocked(cx, message.envelope.from);
    }
    let (from, bytes) = (message.envelope.from, kept_bytes(&message.body));
    let stored = cx.matching.store_message(&cx.counters, message);
    let token = stored.map_err(|NoMemory| NO_MEMORY)?;
    budget::count_kept(cx, from, bytes);
    Ok(token)
}

/// A message is lost: its receive will fail with this error.
pub(crate) fn lose(cx: &mut Cx, token: u32, error: Error) {
    let store = cx.matching.store();
    let Some(message) = store.get(token) else {
        return debug_assert!(false, "a message that was found is kept");
    };
    let (from, kept) = (message.envelope.from, kept_bytes(&message.body));
    store.replace(token, UnexpectedBody::Lost(Box::new(error)));
    // It is one message as before.
    budget::count_more(cx, from, -kept);
}

/// Forgets a message: its sender is gone, or has cancelled.
pub(crate) fn withdraw(cx: &mut Cx, token: u32) {
    let Some(message) = cx.matching.withdraw(token) else {
        return debug_assert!(false, "a message that was found is kept");
    };
    if message.body.blocks_sender().is_some() {
        if let Some(pair) = cx.peers.pair(message.envelope.from) {
            pair.pace.own.withdrawn();
        }
    }
    budget::count_taken(cx, message.envelope.from, kept_bytes(&message.body));
}
