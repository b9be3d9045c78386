//! Work that no record brings: backlogs, long messages, loans and regions that come back.

use core::time::Duration;

use limic_policy::ReceiverPace;

use crate::Peer;
use crate::counters::{Counters, Traffic};
use crate::engine::control::autotune;
use crate::engine::cx::Cx;
use crate::engine::peer::pair::Pace;
use crate::engine::protocol::{fragments, loans, send, single_copy};
use crate::engine::request::SendStage;

/// The longest sleep while something waits for which nobody rings: room in the shared ring, whose
/// receiver cannot know whom to ring; the end of an access to a region, or of a block of a split
/// copy, of which the owner of the memory is not told; or anything, once a peer has shut the
/// doorbell down.
pub(crate) const BLOCKED: Duration = Duration::from_millis(1);

/// Whether something waits for others' credit.
#[inline(always)]
pub(crate) fn has_work(cx: &Cx) -> bool {
    cx.peers.has_waiting() | !cx.transfers.is_empty()
}

/// Whether progress has more to do than to look at the rings.
#[inline(always)]
pub(crate) fn has_slow_work(cx: &Cx) -> bool {
    has_work(cx)
        | !cx.peers.notes.is_empty()
        | !cx.transfers.loans.is_empty()
        | cx.fabric.looks.is_active()
        | cx.memory.has_waiting_ring()
}

/// Pushes backlogs and long messages as far as there is room. True if anything moved.
pub(crate) fn push(cx: &mut Cx) -> bool {
    let mut moved = false;
    let mut at = 0;
    while let Some(peer) = cx.peers.backlogged(at) {
        moved |= send::flush(cx, peer);
        at += usize::from(!cx.peers.unlist(at));
    }
    moved |= fragments::push_asked(cx);
    if single_copy::push_copies(cx) {
        cx.regions.help.holds_up_others();
        moved = true;
    }
    loans::return_sent_loans(cx);
    moved
}

/// Whether peers have not taken all that was sent. What the endpoint sent to itself nobody takes
/// while this is asked.
pub(crate) fn has_unsent(cx: &mut Cx) -> bool {
    let sends = cx.requests.slots().into_iter().any(|slot| {
        let sending = cx.requests.sending(slot);
        sending.is_some_and(|sending| sending.stage != SendStage::Loopback)
    });
    // Also the record by which a sender learns that its message was received.
    sends
        || cx
            .peers
            .iter()
            .any(|(_, peer)| peer.channel().is_some() && !peer.backlog.is_empty())
}

/// How long the endpoint may sleep at most, if something waits for which nobody rings.
pub(crate) fn longest_sleep(cx: &Cx) -> Option<Duration> {
    let blocked = has_work(cx)
        || cx.regions.has_revoked()
        || cx.quarantine.writer().is_some()
        || cx.sockets.is_silenced();
    let blocked = blocked.then_some(BLOCKED);
    let waits = [blocked, cx.sockets.paused_for(), cx.fabric.longest_sleep()];
    waits.into_iter().flatten().min()
}

/// What was moved so far.
pub(crate) fn counters(cx: &Cx) -> Counters {
    cx.fabric.publish(&cx.counters);
    let peers = |pick: fn((Traffic, Traffic)) -> Traffic| {
        cx.peers
            .iter()
            .map(|(number, peer)| (Peer(number), pick(peer.counts.traffic())))
            .collect()
    };
    let pairs = |fits: fn(&Pace) -> bool| {
        let pairs = cx.peers.iter();
        let fits = pairs.filter(|(_, peer)| peer.pair().is_some_and(|pair| fits(&pair.pace)));
        fits.map(|(number, _)| Peer(number)).collect()
    };
    Counters {
        sent: peers(|(sent, _)| sent),
        received: peers(|(_, received)| received),
        lagging: pairs(|pace| pace.peer == ReceiverPace::Slow),
        behind: pairs(|pace| pace.own.pace() == ReceiverPace::Slow),
        tuned: autotune::tuned(cx),
        ..cx.counters.page().counters
    }
}
