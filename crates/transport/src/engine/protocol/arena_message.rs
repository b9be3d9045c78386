//! Messages that lie in an arena of their sender, loans and messages that were sent ahead, as their
//! receiver sees them: held where they lie, or copied out.

use std::os::fd::AsFd;

use limic_policy::Path;
use limic_policy::slow_receiver::LONG;
use limic_pools::arena::{ArenaMessage, LoanHold};
use limic_records::{self as frame, ControlRecord, Violation};
use limic_shm::bytes::{ReceiveBuffer, append};
use limic_shm::control::Sent;

use crate::engine::control::{counting, pace};
use crate::engine::cx::Cx;
use crate::engine::envelope::{Envelope, Told};
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::engine::outbox;
use crate::engine::peer::greeting;
use crate::engine::protocol::unexpected;
use crate::engine::request::Operation;
use crate::{Error, Peer, Result};

/// What is wrong with the record of a message outside of its arena.
pub(crate) const OUTSIDE: Violation = "a message outside of its arena";

/// The path that its sender counted a message for.
#[inline]
fn path_of(message: &ArenaMessage) -> Path {
    if message.send_ahead.is_some() {
        Path::SendAhead
    } else {
        Path::Loan
    }
}

/// A message lies in an arena of the sender.
///
/// # Errors
/// There is no memory to keep it.
pub(crate) fn on_arena(
    cx: &mut Cx,
    envelope: Envelope,
    message: ArenaMessage,
) -> Result<(), Violation> {
    let Envelope { from, tag, .. } = envelope;
    let Some(slot) = cx
        .matching
        .take_posted(&mut cx.requests, from, tag, message.len)
    else {
        let message = UnexpectedMessage {
            envelope,
            len: message.len,
            body: UnexpectedBody::InArena(message),
        };
        return unexpected::keep(cx, message).map(|_| ());
    };
    let taken = core::mem::replace(cx.requests.get(slot), Operation::Over);
    let Operation::Receive(receiving) = taken else {
        debug_assert!(false, "what was matched is a receive");
        return Ok(());
    };
    match message.send_ahead {
        // It may have lain in the ring for long when its receive was posted.
        Some(before) if before >= LONG => {
            pace::sender_blocked(cx, from);
            pace::sender_unblocked(cx, from, before);
        }
        Some(_) => pace::count_posted(cx, from),
        None => {}
    }
    let copied = copy_out(cx, from, message, &receiving.into);
    let outcome = envelope.outcome(message.len, receiving.into.len());
    cx.requests.complete(slot, copied.and(outcome));
    Ok(())
}

/// A private copy of an unexpected message in an arena, if its bytes can be had.
pub(crate) fn bytes_of(cx: &mut Cx, token: u32) -> Option<Vec<u8>> {
    let unexpected = cx.matching.store().get(token)?;
    let UnexpectedBody::InArena(message) = unexpected.body else {
        return None;
    };
    let from = unexpected.envelope.from;
    private_copy(cx, from, &message)
}

fn private_copy(cx: &mut Cx, from: u32, message: &ArenaMessage) -> Option<Vec<u8>> {
    let arenas = &mut cx.peers.pair(from)?.arenas;
    let mut copy = Vec::new();
    copy.try_reserve_exact(usize::try_from(message.len).ok()?)
        .ok()?;
    match arenas.bytes(message.arena, message.offset, message.len) {
        Some(bytes) => append(&bytes, &mut copy).ok()?,
        None => {
            let whole =
                arenas.read_unmapped(message, message.len, |_, part| copy.extend_from_slice(part));
            whole.then_some(())?;
        }
    }
    Some(copy)
}

/// Copies a message into an ordinary receive, and gives its room back.
pub(crate) fn copy_out(
    cx: &mut Cx,
    from: u32,
    message: ArenaMessage,
    into: &ReceiveBuffer,
) -> Result<()> {
    let pair = cx.peers.pair(from);
    let copied = pair.is_some_and(|pair| {
        let ArenaMessage {
            arena, offset, len, ..
        } = message;
        match pair.arenas.bytes(arena, offset, len) {
            Some(bytes) => {
                into.copy_part(0, len, &bytes, len);
                true
            }
            None => {
                let wanted = len.min(into.len());
                let put = |at, part: &[u8]| into.copy_from(at, u64::MAX, part);
                pair.arenas.read_unmapped(&message, wanted, put)
            }
        }
    });
    if !copied {
        return Err(arena_error(cx, from, &message));
    }
    counting::count_received_by(cx, from, path_of(&message), message.len);
    release(cx, from, &message);
    if message.send_ahead.is_some() {
        pace::mark_active(cx, from);
    }
    Ok(())
}

/// Gives the room of a message back to its sender.
pub(crate) fn release(cx: &mut Cx, from: u32, message: &ArenaMessage) {
    if let Some(pair) = cx.peers.pair(from) {
        pair.arenas.release(message.flag, message.generation);
    }
}

/// Takes a message where it lies, in an arena that is mapped here.
#[inline(always)]
pub(crate) fn hold(
    cx: &mut Cx,
    from: u32,
    message: &ArenaMessage,
) -> Option<(*const u8, LoanHold)> {
    let peer = cx.peers.get(from)?;
    let held = peer.pair_mut()?.arenas.hold(message)?;
    peer.counts.received(1, message.len);
    cx.counters.received(path_of(message), message.len);
    Some(held)
}

/// Copies a message out of an arena that is not mapped here, and gives its room back.
///
/// # Errors
/// No descriptor was free here for the arena, or no memory for the copy, or the sender's numbers
/// are wrong.
#[cold]
pub(crate) fn fetch(cx: &mut Cx, from: u32, message: &ArenaMessage) -> Result<Vec<u8>> {
    let Some(bytes) = private_copy(cx, from, message) else {
        return Err(arena_error(cx, from, message));
    };
    counting::count_received_by(cx, from, path_of(message), message.len);
    release(cx, from, message);
    Ok(bytes)
}

/// Hands an arena to a peer. False if the connection is full now, or no descriptor can be had.
#[inline(always)]
pub(crate) fn send_arena(cx: &mut Cx, to: u32, number: u32) -> bool {
    let pair = cx.peers.pair(to);
    pair.is_some_and(|pair| pair.arenas.was_sent(number)) || send_new_arena(cx, to, number)
}

/// Tells the peers that have mapped arenas that these are no more.
#[cold]
pub(crate) fn retire(cx: &mut Cx, arenas: &[u32]) {
    for arena in arenas.iter().copied() {
        for peer in 0..cx.peers.len() {
            let pair = cx.peers.pair(peer);
            if pair.is_some_and(|pair| pair.arenas.forget_sent(arena)) {
                let record = ControlRecord::new(frame::ARENA_RETIRED, 0, [arena.into()]);
                outbox::control(cx, peer, record);
            }
        }
    }
}

/// The same of the heap's arenas that the process has given back.
#[cold]
pub(crate) fn retire_gone(cx: &mut Cx) {
    let gone = cx.transfers.heap.retire();
    retire(cx, &gone);
}

#[cold]
fn send_new_arena(cx: &mut Cx, to: u32, number: u32) -> bool {
    // Where one comes, another one may have gone, and its memory is held until the peers know.
    retire_gone(cx);
    let Some(index) = cx.sockets.of_peer(to).first().copied() else {
        return false;
    };
    let Some(connection) = cx.sockets.get(index) else {
        return false;
    };
    let of_heap = cx.transfers.heap.descriptor(number);
    let Some((fd, bytes)) = of_heap.or_else(|| cx.arenas.descriptor(number)) else {
        return false;
    };
    let message = greeting::arena(number, bytes as u64);
    let sent = connection.socket.send(&message, &[fd.as_fd()]);
    let done = matches!(sent, Ok(Sent::Done));
    if let (true, Some(pair)) = (done, cx.peers.pair(to)) {
        pair.arenas.mark_sent(number);
    }
    done
}

#[cold]
fn arena_error(cx: &mut Cx, from: u32, message: &ArenaMessage) -> Error {
    if let Some(error) = shortage(cx, from, message) {
        // The sender has done nothing wrong, and gets its room back.
        release(cx, from, message);
        return error;
    }
    cx.peers.violated(from, OUTSIDE);
    crate::PeerFailure::Corrupt(OUTSIDE.into()).of(Peer(from))
}

/// Why a message cannot be had, if that is for something that this process lacks.
pub(crate) fn shortage(cx: &mut Cx, from: u32, message: &ArenaMessage) -> Option<Error> {
    let why = cx.peers.pair(from)?.arenas.why_missed(message)?;
    Some(lost(from, message, &why))
}

/// A message is lost for want of memory.
pub(crate) fn lost(from: u32, message: &ArenaMessage, why: &str) -> Error {
    let (len, from) = (message.len, Peer(from));
    Error::NoMemory(format!(
        "a message of {len} bytes from {from} is lost: {why}"
    ))
}
