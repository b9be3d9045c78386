//! Loans: messages that the application writes into an arena, and that are taken where they lie.

use limic_policy::{Path, select};
use limic_records as frame;
use limic_shm::bytes::ReceiveBuffer;
use limic_shm::segment::LOAN_FLAGS;

use crate::engine::control::{budget, counting, pace};
use crate::engine::cx::Cx;
use crate::engine::matching::posted::query;
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::engine::peer::table::{Channel, PeerState};
use crate::engine::protocol::{arena_message, attempt, receive, send};
use crate::engine::request::sent;
use crate::raw::{Hold, Posted, RawLoan, RawLoaned, RawSlice, RawSliceMut, SendOptions};
use crate::{Error, Peer, Result, Selector, Status};

/// Sends a loan if that is one record in a ring. False: nothing was done.
#[inline(always)]
pub(crate) fn try_send_loan(cx: &mut Cx, to: u32, tag: u64, id: u64, len: usize) -> bool {
    let held = cx.arenas.held(id);
    held.is_some_and(|mut slot| slot < LOAN_FLAGS && push_loan(cx, to, tag, &mut slot, len as u64))
}

/// Sends a loan: one cache line, whatever its length. Where that is not possible (oneself, a peer
/// that is not attached yet, no flag left) its bytes go as an ordinary message.
pub(crate) fn post_loan(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    loan: RawLoan,
    len: usize,
) -> Result<Posted> {
    let mut slot = cx.arenas.held(loan.id).ok_or(Error::UnknownRequest)?;
    if push_loan(cx, to, tag, &mut slot, len as u64) {
        return Ok(Posted::Done(sent(to, tag, len as u64)));
    }
    let id = cx.arenas.id(slot);
    post_bytes_of_loan(cx, to, tag, RawLoan { id, ..loan }, len)
}

#[cold]
fn post_bytes_of_loan(cx: &mut Cx, to: u32, tag: u64, loan: RawLoan, len: usize) -> Result<Posted> {
    let bytes = RawSlice {
        start: loan.start,
        len,
    };
    // SAFETY: the loan's bytes stay where they are until `give_back`, which happens after
    // completion.
    let posted = unsafe {
        if attempt::whole(cx, to, tag, None, &[bytes]) {
            Ok(Posted::Done(sent(to, tag, len as u64)))
        } else {
            send::post(cx, to, tag, SendOptions::default(), &[bytes])
        }
    };
    match &posted {
        Ok(Posted::Pending(id)) => cx.transfers.loans.push((*id, loan.id)),
        _ => cx.arenas.give_back(loan.id),
    }
    posted
}

/// Lends the loan of a slot, and tells the peer. The loan moves to a slot with a flag if it has
/// none. False: that peer takes no loans now, no flag is left, or no room in the ring.
#[inline(always)]
fn push_loan(cx: &mut Cx, to: u32, tag: u64, slot: &mut u32, len: u64) -> bool {
    let Some(peer) = cx.peers.find(to) else {
        return false;
    };
    let (true, PeerState::Up(Channel::Shm(pair))) = (peer.backlog.is_empty(), &mut peer.state)
    else {
        return false;
    };
    if !select::hands_over(&pair.conditions.capabilities) {
        return false;
    }
    let arena = cx.arenas.arena_of(*slot);
    if !pair.arenas.was_sent(arena) {
        return push_first_loan(cx, to, tag, slot, len);
    }
    if *slot >= LOAN_FLAGS {
        let Some(other) = cx.arenas.find_flag(*slot) else {
            return false;
        };
        *slot = other;
    }
    let message = cx.arenas.lend(*slot, to, len);
    let pushed = pair.out.push_words(frame::ARENA, tag, message.encode());
    if pushed {
        cx.counters.sent(&peer.counts, Path::Loan, len);
    } else {
        cx.arenas.unlend();
    }
    pushed
}

/// The same of the first loan in an arena to that peer.
#[cold]
fn push_first_loan(cx: &mut Cx, to: u32, tag: u64, slot: &mut u32, len: u64) -> bool {
    let arena = cx.arenas.arena_of(*slot);
    arena_message::send_arena(cx, to, arena) && push_loan(cx, to, tag, slot, len)
}

/// Gives back loans that went as ordinary messages and are done.
pub(crate) fn return_sent_loans(cx: &mut Cx) {
    let (requests, arenas) = (&cx.requests, &mut cx.arenas);
    cx.transfers.loans.retain(|(id, loan)| {
        let over = requests.find(*id).is_none_or(|slot| requests.is_done(slot));
        if over {
            arenas.give_back(*loan);
        }
        !over
    });
}

/// A message that was taken where it lies, or is on its way into a buffer of this endpoint.
pub(crate) enum TakenLoan {
    /// It lies in an arena of its sender, or among the unexpected messages.
    InPlace(RawLoaned),
    /// It is received into the buffer, which stays until that is over.
    Fetched(Posted, Vec<u8>),
}

/// What was fetched into a buffer.
pub(crate) fn fetched(status: Status, buffer: Vec<u8>) -> RawLoaned {
    RawLoaned {
        status,
        start: buffer.as_ptr(),
        // It stays a vector: to move a box would claim its bytes for the box alone.
        hold: Hold::new(Box::new(buffer)),
    }
}

/// Takes the oldest message that matches, wherever its bytes are. `None`: no message waits.
pub(crate) fn take_or_fetch(cx: &mut Cx, selector: &Selector) -> Result<Option<TakenLoan>> {
    let Some(token) = cx.matching.probe(&query(selector)) else {
        return receive::nothing_yet(cx, selector);
    };
    // Bytes that are with the sender are fetched. A message that there is no memory for stays for a
    // later receive.
    let (from, len) = match cx.matching.store().get(token) {
        Some(message) if !message.body.is_in_place() => {
            (message.envelope.from, message.len as usize)
        }
        _ => (u32::MAX, 0),
    };
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(len)
        .map_err(|_| Error::NoMemory(format!("{len} bytes for a message from {}", Peer(from))))?;
    cx.matching.unqueue(token);
    if let Some(loaned) = take_in_place(cx, token)? {
        return Ok(Some(TakenLoan::InPlace(loaned)));
    }
    buffer.resize(len, 0_u8);
    let slice = RawSliceMut {
        start: buffer.as_mut_ptr(),
        len,
    };
    // SAFETY: the caller keeps the buffer until the receive is over.
    let into = unsafe { ReceiveBuffer::new(&[slice]) };
    let posted = receive::receive_probed(cx, token, into);
    Ok(Some(TakenLoan::Fetched(posted, buffer)))
}

/// Takes an unexpected message where it lies. `None`: it must be received in the ordinary way.
pub(crate) fn take_in_place(cx: &mut Cx, token: u32) -> Result<Option<RawLoaned>> {
    let store = cx.matching.store();
    let in_place = |message: &UnexpectedMessage| message.body.is_in_place();
    if !store
        .get(token)
        .ok_or(Error::UnknownRequest)
        .map(in_place)?
    {
        return Ok(None);
    }
    let Some(message) = store.take(token) else {
        return Err(Error::UnknownRequest);
    };
    let (status, from) = (message.status(), message.envelope.from);
    match message.body {
        UnexpectedBody::InArena(place) => {
            budget::count_taken(cx, from, 0);
            if let Some(behind) = place.send_ahead {
                pace::sender_unblocked(cx, from, behind);
            }
            Ok(Some(match arena_message::hold(cx, from, &place) {
                Some((start, hold)) => RawLoaned {
                    status,
                    start,
                    hold: Hold::of_loan(hold),
                },
                None => fetched(status, arena_message::fetch(cx, from, &place)?),
            }))
        }
        UnexpectedBody::Bytes(bytes) => {
            budget::count_taken(cx, from, bytes.len() as i64);
            counting::count_received_eager(cx, from, status.len);
            Ok(Some(fetched(status, bytes)))
        }
        UnexpectedBody::Lost(error) => {
            budget::count_taken(cx, from, 0);
            Err(*error)
        }
        _ => Ok(None),
    }
}
