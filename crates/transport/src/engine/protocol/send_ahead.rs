//! Messages that go ahead of a slow receiver.
//!
//! The sender copies a message into an arena of its own and tells where it lies: one line in the
//! ring, whatever its length, and the send is done. So the receiver's memory holds none of these
//! bytes; the sender's holds at most `LIMIC_UNEXPECTED_BYTES` of them. Beyond that, and for longer
//! messages, the sender waits as ever. `control::pace` says when a receiver is slow.

use limic_policy::Path;
use limic_shm::world::now_ns;

use crate::buffer::{Window, gather};
use crate::counters::Event;
use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::frame;
use crate::engine::protocol::arena_message;
use crate::engine::protocol::attempt::Message;

/// Time without messages ahead after which their memory is given back: longer than a pause between
/// two phases of a program, since it takes long to make it again.
const IDLE_NS: u64 = 1_000_000_000;

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
    let filled = cx.arenas.memory_of(room).and_then(|(memory, offset)| {
        let mut window = Window::new(memory, offset, len)?;
        // SAFETY: the caller's promise; the window has `len` bytes.
        unsafe { gather(message.data, &mut window) };
        Some(())
    });
    if filled.is_none() || !arena_message::send_arena(cx, to, room.arena) {
        cx.arenas.free_range(room);
        return false;
    }
    let Some(place) = cx.arenas.lend_send_ahead(room, to, len) else {
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
    cx.arenas.send_ahead_idle_since_ns = 0;
    counting::count_sent(cx, to, Path::SendAhead, len);
    cx.counters.event(Event::SendAhead);
    cx.counters.events(Event::SendAheadBytes, len);
    true
}

/// Now and then: if no message has gone ahead for a while, the memory for them goes back to the
/// system.
#[cold]
pub(crate) fn retire_send_ahead(cx: &mut Cx) {
    if !cx.arenas.has_send_ahead() {
        return;
    }
    let now = now_ns();
    if cx.arenas.send_ahead_idle_since_ns == 0 {
        cx.arenas.send_ahead_idle_since_ns = now;
    }
    if now - cx.arenas.send_ahead_idle_since_ns < IDLE_NS {
        return;
    }
    let retired = cx.arenas.retire_idle_send_ahead();
    arena_message::retire(cx, &retired);
}
