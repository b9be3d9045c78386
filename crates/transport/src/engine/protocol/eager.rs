//! Eager messages that go whole: in a record, or in one staging buffer.

use limic_policy::Path;
use limic_policy::select::SendPlan;
use limic_pools::staging::{StagingPool, Target};
use limic_records as frame;
use limic_shm::bytes::gather;

use crate::engine::peer::pair::ShmPair;
use crate::engine::protocol::message::Message;

/// Pushes a message whole: by which path, or `None` if there is no room now. With the plan `Buffer`
/// and no recycled buffer free, what goes in a record goes so, and counts as the plan `Record`.
///
/// Cache lines that move to the receiver for `n` bytes through a private ring:
/// `ceil((16 + n) / 64)`, so one up to 48 bytes; and one back for 32 of them, or for a quarter of
/// a small ring. In a recycled buffer: `ceil(n / 64)`, and one for two or three messages.
///
/// # Safety
/// The slices are readable during the call, and `len` is their length together.
#[inline(always)]
pub(crate) unsafe fn push_whole(
    pair: &mut ShmPair,
    pool: &mut StagingPool,
    plan: SendPlan,
    message: &Message<'_>,
) -> Option<Path> {
    let Message {
        to,
        tag,
        immediate,
        data,
        len,
        ..
    } = *message;
    if plan == SendPlan::Buffer {
        // Before the bytes are copied.
        if !pair.out.has_room() {
            return None;
        }
        if !pair.goes_in_record(len) {
            // SAFETY: the caller's promise.
            return unsafe { push_whole_staged(pair, pool, *message) };
        }
        let target = pair.staging.recycled_target(pool, &mut pair.out, to, len);
        if let Some(target) = target {
            // SAFETY: the caller's promise.
            return unsafe { push_in_buffer(pair, pool, target, message) };
        }
    } else if !pair.out.announce_switch_if_pending() {
        return None;
    }
    if pair.out.fits(len, immediate) {
        // SAFETY: the caller's promise.
        let pushed = unsafe { pair.out.push_eager(tag, immediate, data, len) };
        return SendPlan::Record.path(&pair.routes, len).filter(|_| pushed);
    }
    // SAFETY: the caller's promise.
    unsafe { push_whole_staged(pair, pool, *message) }
}

/// A message that is longer than the slots of the shared ring, or than a record, lies in a staging
/// buffer. It comes by value, so that all others need not be stored.
///
/// # Safety
/// As [`push_whole`].
#[inline(never)]
unsafe fn push_whole_staged(
    pair: &mut ShmPair,
    pool: &mut StagingPool,
    message: Message<'_>,
) -> Option<Path> {
    let Message { to, len, .. } = message;
    let lengths = (len, len, pair.routes.window);
    let (target, room) = pair.staging.target_for(pool, &mut pair.out, to, lengths)?;
    if room < len {
        pair.staging.put_back(pool, target);
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { push_in_buffer(pair, pool, target, &message) }
}

/// Copies a message into a buffer, and names that to the peer.
///
/// # Safety
/// As [`push_whole`], and the buffer has room for `len` bytes.
#[inline(always)]
unsafe fn push_in_buffer(
    pair: &mut ShmPair,
    pool: &mut StagingPool,
    target: Target,
    message: &Message<'_>,
) -> Option<Path> {
    let Message {
        tag,
        immediate,
        data,
        len,
        ..
    } = *message;
    let far = pair.is_far();
    let window = pair.staging.window_of(pool, &target, len, far);
    debug_assert!(window.is_some(), "an own buffer, or one that was checked");
    let words = target.descriptor(len).words();
    pair.out.ask_for_next(words.len());
    let filled = window.map(|mut window| {
        // SAFETY: the caller's promise; the window has `len` bytes.
        unsafe { gather(data, &mut window) }
    });
    let pushed = filled.is_some()
        && pair
            .out
            .push_message(frame::EAGER_STAGED, tag, immediate, words);
    if pushed {
        return Some(Path::Eager);
    }
    pair.staging.put_back(pool, target);
    None
}
