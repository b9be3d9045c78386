//! Messages that go ahead of a slow receiver.
//!
//! The sender copies a message into an arena of its own and tells where it lies: one line in the
//! ring, whatever its length, and the send is done. So the receiver's memory holds none of these
//! bytes; the sender's holds at most `LIMIC_UNEXPECTED_BYTES` of them. Beyond that, and for longer
//! messages, the sender waits as ever. `control::pace` says when a receiver is slow.

use limic_policy::Path;
use limic_policy::slow_receiver::LONG;
use limic_records as frame;
use limic_shm::bytes::gather;

use crate::counters::Event;
use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::protocol::arena_message;
use crate::engine::protocol::message::Message;

/// Sends a message ahead of a slow receiver. False: too much is ahead already, or there is no room.
///
/// # Safety
/// The slices are readable during the call, and `len` is their length together.
pub(crate) unsafe fn push_send_ahead(cx: &mut Cx, message: &Message<'_>) -> bool {
    let Message { to, len, .. } = *message;
    let budget = cx.settings.unexpected_budget_bytes();
    let Some(room) = cx.arenas.reserve_send_ahead(len as usize, budget) else {
        return false;
    };
    let filled = cx.arenas.window_of(room, len).map(|mut window| {
        // SAFETY: the caller's promise; the window has `len` bytes.
        unsafe { gather(message.data, &mut window) };
    });
    if filled.is_none() || !arena_message::send_arena(cx, to, room.arena) {
        cx.arenas.free(room);
        return false;
    }
    let Some(place) = cx.arenas.lend_send_ahead(room, to, len, LONG) else {
        return false;
    };
    let (tag, immediate) = (message.tag, message.immediate);
    let pair = cx.peers.pair(to);
    let pushed = pair.is_some_and(|pair| {
        pair.out
            .push_message(frame::ARENA, tag, immediate, place.encode())
    });
    if !pushed {
        cx.arenas.undo_send_ahead();
        return false;
    }
    counting::count_sent(cx, to, Path::SendAhead, len);
    cx.counters.event(Event::SendAhead);
    cx.counters.events(Event::SendAheadBytes, len);
    true
}
