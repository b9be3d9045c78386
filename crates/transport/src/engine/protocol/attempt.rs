//! One attempt to send a message: by whichever way is open to it now.

use limic_policy::Path;
use limic_policy::select::SendPlan;

use crate::engine::cx::Cx;
use crate::engine::peer::pair::PairState;
use crate::engine::peer::table::{Channel, PeerState};
use crate::engine::protocol::message::{Attempt, Message, Turn};
use crate::engine::protocol::{eager, fragments, packets, send_ahead};
use crate::raw::RawSlice;

/// What became of a short message.
#[must_use]
pub(crate) enum Short {
    /// It is out.
    Sent,
    /// It is out, and its receiver sleeps: to be rung.
    SentToSleeper,
    /// It goes another way, if it can go: nothing was done.
    No,
}

/// Sends a message if that is all that there is to do about it: one of so many lines at most, to a
/// peer with a ring of its own, under the tag of the one before, as most are.
///
/// The line that it takes stays with the receiver until that has read it, and until then this
/// core's stores wait one behind the other, in a buffer that holds some dozens of them: a stream
/// goes as fast as few stores make it. So this is apart from [`attempt`], and nothing that needs
/// registers or memory of its own is called for one line. For 8 bytes it stores ten words: five of
/// the record and of the ring's state, three counts, two for the borrow of the engine.
///
/// # Safety
/// The slice is readable during the call.
#[inline(always)]
pub(crate) unsafe fn short<const LINES: usize>(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: RawSlice,
) -> Short {
    let len = data.len as u64;
    let Some(peer) = cx.peers.find(to) else {
        return Short::No;
    };
    let (true, PeerState::Up(Channel::Shm(pair))) = (peer.backlog.is_empty(), &mut peer.state)
    else {
        return Short::No;
    };
    let path = if len < pair.routes.inline_below {
        Path::Inline
    } else if LINES > 1 && pair.goes_in_record(len) && !pair.status.is_over_budget() {
        Path::Eager
    } else {
        return Short::No;
    };
    // SAFETY: the caller's promise.
    match unsafe { pair.out.push_short::<LINES>(tag, immediate, data) } {
        None => Short::No,
        Some(must_ring) => {
            cx.counters.sent(&peer.counts, path, len);
            if must_ring {
                Short::SentToSleeper
            } else {
                Short::Sent
            }
        }
    }
}

/// Sends a message as far as it goes now. What comes of it depends on its turn and on the plan for
/// it; without room it waits:
///
/// | turn | `Record` | `Buffer` | `Fragments` | `Ahead` | `Offer` |
/// |---|---|---|---|---|---|
/// | `Whole` | `Sent` | `Sent` | not now | not now | not now |
/// | `Refused` | `Waits` | in fragments | in fragments | `Sent` | `Offer` |
/// | `Queued` | `Sent` | `Sent`, or in fragments | in fragments | `Offer` | `Offer` |
/// | `Remaining` | in fragments | in fragments | in fragments | in fragments | in fragments |
///
/// Not now is `Waits` or `Offer`, and the message is tried again as `Refused`. In fragments it is
/// `Sent` or `Begun`. A `Buffer` for what goes in a record is as a `Record`; and a queued `Record`
/// that fits no slot of the shared ring goes in fragments while other peers hold all buffers. Over
/// a network, what was refused or is queued goes by the plan of [`packets`].
///
/// # Safety
/// The slices are readable during the call, and `len` is their length together.
#[inline(always)]
pub(crate) unsafe fn attempt(cx: &mut Cx, message: &Message<'_>, turn: Turn) -> Attempt {
    let Message { to, data, len, .. } = *message;
    let Some(peer) = cx.peers.find(to) else {
        return Attempt::Waits;
    };
    let waits = !peer.backlog.is_empty() && matches!(turn, Turn::Whole | Turn::Refused);
    let pair = match &mut peer.state {
        _ if waits => return Attempt::Waits,
        PeerState::Up(Channel::Shm(pair)) => pair,
        PeerState::Up(Channel::Fabric(link)) if turn != Turn::Whole => {
            let link = *link;
            return match turn {
                Turn::Remaining(_) => Attempt::InPlace,
                // SAFETY: the caller's promise.
                _ => unsafe { packets::attempt(cx, link, message) },
            };
        }
        _ => return Attempt::Waits,
    };
    if let Turn::Remaining(at) = turn {
        // SAFETY: the caller's promise.
        return unsafe { fragments::push_eager(cx, message, Some(at)) };
    }
    if turn == Turn::Whole && !pair.routes.may_go_whole(len) {
        return Attempt::Waits;
    }
    let pool = &mut cx.staging;
    let state = PairState {
        pair,
        pool,
        to,
        data,
        refused: turn == Turn::Refused,
    };
    let plan = pair.routes.select(len, &state);
    match plan {
        SendPlan::Offer => return Attempt::Offer,
        SendPlan::Ahead => {
            return match turn {
                // SAFETY: the caller's promise.
                Turn::Refused => match unsafe { send_ahead::push_send_ahead(cx, message) } {
                    true => Attempt::Sent,
                    false => Attempt::Waits,
                },
                // Ahead of it stood something, so it is too late to go ahead of the receiver.
                _ => Attempt::Offer,
            };
        }
        SendPlan::Record | SendPlan::Buffer if turn != Turn::Refused => {
            // SAFETY: the caller's promise.
            if let Some(path) = unsafe { eager::push_whole(pair, pool, plan, message) } {
                cx.counters.sent(&peer.counts, path, len);
                return Attempt::Sent;
            }
        }
        SendPlan::Record | SendPlan::Buffer | SendPlan::Fragments => {}
    }
    // A slot of the shared ring holds less than a record. What needs a buffer there must not wait
    // for those that other peers hold.
    let lacks_buffer = turn == Turn::Queued
        && !pair.out.fits(len, message.immediate)
        && pool.holds_nothing(to)
        && pair.out.has_room();
    let in_record = plan == SendPlan::Record || pair.goes_in_record(len);
    if turn == Turn::Whole || (in_record && !lacks_buffer) {
        return Attempt::Waits;
    }
    // There may be room for its fragments.
    // SAFETY: the caller's promise.
    unsafe { fragments::push_eager(cx, message, None) }
}

/// Sends a message if it goes whole at once. True if it did.
///
/// # Safety
/// The slices are readable during the call.
#[inline(always)]
pub(crate) unsafe fn whole(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: &[RawSlice],
) -> bool {
    let message = Message::new(to, tag, immediate, data);
    // SAFETY: the caller's promise.
    unsafe { attempt(cx, &message, Turn::Whole) == Attempt::Sent }
}

/// Rings the receiver of what was sent just now. False: nobody reads it, see
/// [`Outbound::ring_doorbell`](crate::engine::outbound::Outbound::ring_doorbell).
#[cold]
pub(crate) fn ring_doorbell(cx: &mut Cx, to: u32) -> bool {
    let pair = cx.peers.pair(to);
    pair.is_none_or(|pair| pair.out.ring_doorbell())
}
