//! The sender's side of messages that go in fragments.
//!
//! Each fragment is copied into a staging buffer, or into its record if other peers hold the whole
//! pool, and published as soon as it is filled: so the receiver copies one fragment while the
//! sender copies the next. Two kinds of messages go so:
//!
//! - An eager message that is longer than a record; or than a slot of the shared ring, while other
//!   peers hold the whole pool. A record says how long it is, and its fragments follow at once.
//!   Nothing of the pair's other messages comes between them. These stand first in the backlog
//!   until all are out, so a fragment needs no name.
//! - What a receiver asked for ([`ClearToSend`](frame::ClearToSend), or a read of a region): each
//!   fragment names the receive and its place, and several such messages may go at once.

use limic_policy::Path;
use limic_policy::select::LONGEST_EAGER;
use limic_policy::select::fragments::{self, Cut, CutFor};
use limic_pools::staging::StagingPool;
use limic_records as frame;
use limic_shm::bytes::gather_part;
use limic_shm::segment::STAGING_PAGE;
use limic_shm::system::now_ns;

use crate::engine::cx::Cx;
use crate::engine::outbound::InlineFragment;
use crate::engine::peer::pair::ShmPair;
use crate::engine::peer::table::{Channel, PeerState};
use crate::engine::protocol::message::{Attempt, Message};
use crate::engine::protocol::{packets, regions, send};
use crate::engine::request::{Fragments, SendStage, Slot, sent};
use crate::raw::{Access, RawSlice};

/// The most bytes of regions that one peer gets in a turn.
const HELP_AT_ONCE: u64 = 1 << 18;

const _: () = assert!(fragments::PAGE == STAGING_PAGE as u64);

/// A message that goes in fragments, or the rest of one.
struct Fragmented<'a> {
    tag: u64,
    data: &'a [RawSlice],
    /// The first byte of the data that does not go.
    end: u64,
    /// The first byte before which no more fragments begin in this turn.
    stop: u64,
    /// The receive that asked for it; `None` for an eager message.
    receive: Option<u64>,
    cut: Cut,
}

/// Pushes the fragments of a message from byte `at` on, as far as there is room; gives how far that
/// came.
///
/// # Safety
/// The slices are readable during the call, and have `end` bytes.
#[inline]
unsafe fn push_fragments(
    pair: &mut ShmPair,
    pool: &mut StagingPool,
    to: u32,
    message: &Fragmented<'_>,
    mut at: u64,
) -> u64 {
    while at < message.stop {
        // SAFETY: the caller's promise, and there are bytes left, twice.
        let pushed = unsafe {
            push_fragment_staged(pair, pool, to, message, at)
                .or_else(|| push_fragment_in_record(pair, pool, to, message, at))
        };
        match pushed {
            Some(pushed) => at += pushed,
            None => break,
        }
    }
    at
}

/// Pushes a fragment through a staging buffer; gives its length. `None`: there is no room.
///
/// # Safety
/// As [`push_fragments`], and `at < message.end`.
#[inline]
unsafe fn push_fragment_staged(
    pair: &mut ShmPair,
    pool: &mut StagingPool,
    to: u32,
    message: &Fragmented<'_>,
    at: u64,
) -> Option<u64> {
    if !pair.out.has_room() {
        return None;
    }
    let routes = &pair.routes;
    let lengths = (message.cut.bytes_at(at), message.end, routes.window);
    let (target, len) = pair.staging.target_for(pool, &mut pair.out, to, lengths)?;
    let far = pair.is_far();
    let window = pair.staging.window_of(pool, &target, len, far);
    debug_assert!(window.is_some(), "an own buffer, or one that was checked");
    if let Some(mut window) = window {
        // SAFETY: the caller's promise; `at + len` is at most `end`, and the window has `len`
        // bytes.
        unsafe { gather_part(message.data, at, len, &mut window) }
    }
    let [place, extent] = target.descriptor(len).words();
    let pushed = match message.receive {
        // It needs no tag, and is shorter with that of the record before.
        None => pair
            .out
            .push_words(frame::FRAGMENT_STAGED, message.tag, [place, extent]),
        Some(receive) => {
            let words = [receive, at, place, extent];
            pair.out.push_words(frame::FRAGMENT_STAGED, 0, words)
        }
    };
    if pushed {
        return Some(len);
    }
    pair.staging.put_back(pool, target);
    None
}

/// Pushes a fragment in its record, if other peers hold the whole pool and need not ever return it:
/// that must not hold up a message to this peer. Gives its length.
///
/// # Safety
/// As [`push_fragment_staged`].
#[cold]
unsafe fn push_fragment_in_record(
    pair: &mut ShmPair,
    pool: &StagingPool,
    to: u32,
    message: &Fragmented<'_>,
    at: u64,
) -> Option<u64> {
    if !pool.holds_nothing(to) {
        return None;
    }
    let fragment = InlineFragment {
        data: message.data,
        at,
        end: message.end,
        receive: message.receive,
    };
    // SAFETY: the caller's promise.
    unsafe { pair.out.push_fragment(&fragment) }
}

/// Sends an eager message in fragments as far as there is room: from its beginning, or on from the
/// byte before which all are out. Nothing waits before it.
///
/// # Safety
/// As for [`attempt`](crate::engine::protocol::attempt::attempt).
#[inline]
pub(crate) unsafe fn push_eager(cx: &mut Cx, message: &Message<'_>, begun: Option<u64>) -> Attempt {
    let Message { to, tag, len, .. } = *message;
    let Some(peer) = cx.peers.get(to) else {
        return Attempt::Waits;
    };
    let Some(pair) = peer.pair_mut() else {
        return Attempt::Waits;
    };
    if begun.is_none() {
        let begin = [frame::fragmented(len, pair.waited)];
        let (kind, immediate) = (frame::EAGER_FRAGMENTED, message.immediate);
        pair.waited = !pair.out.push_message(kind, tag, immediate, begin);
        if pair.waited {
            return Attempt::Waits;
        }
        if len > LONGEST_EAGER {
            pair.unasked.goes(len);
        }
    }
    if len > LONGEST_EAGER {
        if let Some(autotuner) = &mut pair.autotuner {
            // It shares the two processors with what comes from the peer, also unanswered.
            autotuner.answered(now_ns);
        }
    }
    let fragmented = Fragmented {
        tag,
        data: message.data,
        end: len,
        stop: len,
        receive: None,
        cut: pair.routes.cut(len, CutFor::Eager),
    };
    // SAFETY: the caller's promise.
    let at = unsafe {
        let at = begun.unwrap_or(0);
        push_fragments(pair, &mut cx.staging, to, &fragmented, at)
    };
    if at < len {
        pair.waited = true;
        return Attempt::Begun(at);
    }
    pair.out.refresh_credit();
    cx.counters.sent(&peer.counts, Path::EagerFragments, len);
    Attempt::Sent
}

/// A receiver asks for fragments of a send. They go at once, if no other send to it waits for room.
pub(crate) fn begin_asked(cx: &mut Cx, to: u32, slot: Slot) {
    let is_first = cx.peers.get(to).is_some_and(|peer| peer.asked.is_empty());
    if !(is_first && push_asked_of(cx, slot, u64::MAX).1) {
        wait_for_room(cx, to, slot);
    }
}

/// Progress pushes the fragments of a send, behind those of others to the same peer.
pub(crate) fn wait_for_room(cx: &mut Cx, to: u32, slot: Slot) {
    let Some(peer) = cx.peers.get(to) else {
        return;
    };
    if peer.asked.is_empty() {
        cx.transfers.asked_by.push_back(to);
    }
    peer.asked.push_back(slot);
}

/// Pushes fragments of what receivers asked for, to each the oldest first. True if bytes moved.
pub(crate) fn push_asked(cx: &mut Cx) -> bool {
    let mut moved = false;
    let rests = cx.regions.help.rests();
    for _ in 0..cx.transfers.asked_by.len() {
        let Some(to) = cx.transfers.asked_by.pop_front() else {
            break;
        };
        let serves = cx.peers.serves(to);
        let piece = (serves && !rests).then(|| cx.regions.help.begin());
        let mut left = HELP_AT_ONCE;
        // Where the oldest has no room, none has.
        while let Some(slot) = front_asked(cx, to) {
            let helps = serves && is_help(cx, slot);
            if helps && rests {
                cx.transfers.resting.push(to);
                break;
            }
            let (went, over) = push_asked_of(cx, slot, if helps { left } else { u64::MAX });
            if went > 0 {
                moved = true;
                if helps {
                    cx.regions.help.note();
                    left = left.saturating_sub(went);
                } else {
                    cx.regions.help.holds_up_others();
                }
            }
            if !over {
                cx.transfers.asked_by.push_back(to);
                break;
            }
            if let Some(peer) = cx.peers.get(to) {
                peer.asked.pop_front();
            }
        }
        if let Some(piece) = piece {
            cx.regions.help.end(&piece);
        }
    }
    moved
}

/// Whether a peer reads a region with these fragments.
fn is_help(cx: &mut Cx, slot: Slot) -> bool {
    let stage = cx.requests.sending(slot).map(|sending| sending.stage);
    matches!(
        stage,
        Some(SendStage::Fragments(Fragments {
            region: Some(_),
            ..
        }))
    )
}

fn front_asked(cx: &mut Cx, to: u32) -> Option<Slot> {
    cx.peers.get(to)?.asked.front().copied()
}

/// Pushes fragments of one send until there is no room, or `most` bytes have gone: (bytes that have
/// gone, it is over).
fn push_asked_of(cx: &mut Cx, slot: Slot, most: u64) -> (u64, bool) {
    let Some(sending) = cx.requests.known_send(slot) else {
        return (0, true);
    };
    let SendStage::Fragments(fragments) = sending.stage else {
        return (0, true);
    };
    let to = sending.to;
    let pair = match cx.peers.get(to).map(|peer| &mut peer.state) {
        Some(PeerState::Up(Channel::Shm(pair))) => pair,
        Some(PeerState::Up(Channel::Fabric(connection))) => {
            let connection = *connection;
            let (moved, over) = packets::push_fragments(cx, slot, connection);
            cx.fabric.publish(&cx.counters);
            return (u64::from(moved), over);
        }
        _ => return (0, true),
    };
    let oversubscribed = cx.transfers.is_oversubscribed() || cx.wakeup.is_oversubscribed();
    let what = match fragments.receive {
        _ if oversubscribed => CutFor::Oversubscribed,
        Some(_) => CutFor::Asked,
        None => CutFor::Eager,
    };
    let message = Fragmented {
        tag: 0,
        data: sending.data.slices(),
        end: fragments.end,
        stop: fragments.end.min(fragments.at.saturating_add(most)),
        receive: fragments.receive,
        cut: pair.routes.cut(fragments.end, what),
    };
    // SAFETY: readable by the invariant of `SendBuffer`; the end was checked when they were asked
    // for.
    let at = unsafe { push_fragments(pair, &mut cx.staging, to, &message, fragments.at) };
    let went = at - fragments.at;
    cx.transfers.sent(went);
    sending.stage = SendStage::Fragments(Fragments { at, ..fragments });
    let over = at == fragments.end;
    if over {
        all_sent(cx, slot, fragments);
    }
    (went, over)
}

/// All bytes of a send lie in staging buffers or packets: its buffer is free. A one-sided write is
/// done only when the owner of the region says so, and a message that has to be delivered when its
/// receiver does.
pub(crate) fn all_sent(cx: &mut Cx, slot: Slot, fragments: Fragments) {
    let Some(sending) = cx.requests.known_send(slot) else {
        return;
    };
    if fragments.confirm {
        sending.stage = SendStage::Confirming;
        return;
    }
    let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
    // What a peer reads of a region counts with the peer.
    if let Some(index) = fragments.region {
        regions::note_access(cx, index, Access::READ);
        send::end_send(cx, slot, sent(to, tag, len));
        return regions::end_access(cx, fragments.region, to);
    }
    let path = packets::network_or(cx, to, Path::Pipeline);
    send::finish_send(cx, slot, path);
}
