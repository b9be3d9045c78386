//! The way that most messages take: short, to a peer with a ring of its own, under the tag of the
//! one before.

use limic_policy::Path;
use limic_shm::ring::line::INLINE_PAYLOAD;

use crate::engine::cx::Cx;
use crate::engine::peer::table::{Channel, PeerState};
use crate::raw::RawSlice;

/// What became of a short message.
#[must_use]
pub(crate) enum FastSend {
    /// It is out.
    Sent,
    /// It is out, and its receiver sleeps: to be rung.
    SentToSleeper,
    /// It goes another way, if it can go: nothing was done.
    No,
}

/// Sends a message if that is all that there is to do about it.
///
/// The line that it takes stays with the receiver until that has read it, and until then this
/// core's stores wait one behind the other, in a buffer that holds some dozens of them: a stream
/// goes as fast as few stores make it. So this is apart from the other ways, and nothing that needs
/// registers or memory of its own is called here. For 8 bytes it stores ten words: five of the
/// record and of the ring's state, three counts, two for the borrow of the engine.
///
/// # Safety
/// The slice is readable during the call.
#[inline(always)]
pub(crate) unsafe fn send_fast(cx: &mut Cx, to: u32, tag: u64, data: RawSlice) -> FastSend {
    let len = data.len as u64;
    let Some(peer) = cx.peers.get(to) else {
        return FastSend::No;
    };
    let waits = !peer.backlog.is_empty();
    let PeerState::Up(Channel::Shm(pair)) = &mut peer.state else {
        return FastSend::No;
    };
    if waits || len >= pair.routes.inline_below {
        return FastSend::No;
    }
    // SAFETY: the caller's promise.
    match unsafe { pair.out.push_short(tag, data) } {
        None => FastSend::No,
        Some(must_ring) => {
            cx.counters.sent(&peer.counts, Path::Inline, len);
            if must_ring {
                FastSend::SentToSleeper
            } else {
                FastSend::Sent
            }
        }
    }
}

/// Rings the receiver of what was sent just now. False: it is nobody's, see
/// [`Outbound::ring_doorbell`](crate::engine::outbound::Outbound::ring_doorbell).
#[cold]
pub(crate) fn ring_doorbell(cx: &mut Cx, to: u32) -> bool {
    let pair = cx.peers.pair(to);
    pair.is_none_or(|pair| pair.out.ring_doorbell())
}

/// Whether a message of this length may be short: what [`Path::Inline`] is at most.
#[inline(always)]
pub(crate) fn is_inline_length(len: usize) -> bool {
    len <= INLINE_PAYLOAD as usize
}
