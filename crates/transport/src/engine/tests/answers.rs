//! Answers that a peer does not take have a bound, whatever they answer.

use core::time::Duration;

use limic_policy::{Path, PathSet};
use limic_records::{self as frame, ControlRecord, RegionAccess};
use limic_shm::ring::Memory;
use limic_shm::sync::Ordering;

use super::{attach_both, meet, open, open_with, outcome, pending, post};
use crate::Error;
use crate::engine::Engine;
use crate::engine::outbox::{self, MOST_ANSWERS};
use crate::engine::protocol::{cancel, regions, send};
use crate::raw::Posted;

/// More than the rings hold and the bound allows.
const RECORDS: u32 = 200_000;

/// A peer that takes none of what comes has something done again and again: it is given up.
fn is_given_up(
    (mut owner, mut hostile): (Engine, Engine),
    mut again: impl FnMut(&mut Engine, &mut Engine, u32),
) {
    let (of_hostile, of_owner) = attach_both(&mut owner, &mut hostile);
    let mut sent = 0;
    let mut most = 0;
    while owner.cx.peers.is_alive(of_hostile) {
        assert!(sent < RECORDS, "each is answered");
        again(&mut owner, &mut hostile, of_owner);
        send::flush(&mut hostile.cx, of_owner);
        owner.progress();
        let peer = owner.cx.peers.get(of_hostile).expect("known");
        most = most.max(peer.backlog.len());
        sent += 1;
    }
    // The grant of a ring waits there too.
    assert!(most <= usize::from(MOST_ANSWERS) + 1, "{most}");
    let failed = owner.attach(of_hostile);
    let Err(Error::PeerFailed { why, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(why.to_string().contains("answers"), "{why}");
}

/// The peer accesses a region of the owner, or one that is not, and takes no answer.
fn access_is_given_up(kind: u8, exists: bool) {
    let (mut owner, hostile) = (open(1), open(1));
    let (_, key) = regions::expose(&mut owner.cx, vec![1; 100]).expect("a region");
    let access = RegionAccess {
        id: 1,
        key: if exists { key } else { key ^ 1 },
        offset: 0,
        len: 0,
    };
    is_given_up((owner, hostile), |_, hostile, of_owner| {
        outbox::control(&mut hostile.cx, of_owner, access.encode(kind));
    });
}

#[test]
fn refused_reads_have_a_bound() {
    access_is_given_up(frame::GET, false);
}

#[test]
fn empty_reads_have_a_bound() {
    access_is_given_up(frame::GET, true);
}

#[test]
fn refused_writes_have_a_bound() {
    access_is_given_up(frame::PUT, false);
}

#[test]
fn empty_writes_have_a_bound() {
    access_is_given_up(frame::PUT, true);
}

#[test]
fn measurements_that_a_peer_asks_for_have_a_bound() {
    let (owner, mut hostile) = (open(1), open(1));
    let word = hostile.cx.memory.take_word().expect("a word");
    let line = hostile.cx.memory.segment.probe_word(word);
    // As if it had given each of them up at once.
    let word64 = line.as_ref().expect("a line").word64(0);
    word64.store(u64::MAX, Ordering::Relaxed);
    let probe = ControlRecord::new(frame::LATENCY_PROBE, 0, [word.into()]);
    is_given_up((owner, hostile), |_, hostile, of_owner| {
        outbox::control(&mut hostile.cx, of_owner, probe);
    });
}

/// Endpoints whose long messages are offered, and need no arena.
fn offering() -> Engine {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Pipeline);
    open_with(|settings| settings.allowed(paths).linger(Duration::ZERO))
}

static MESSAGE: [u8; 100_000] = [1; 100_000];

/// Posts a send that waits for its receive, and says which.
fn offer(from: &mut Engine, to: u32) -> crate::raw::RequestId {
    // SAFETY: the message stays for ever.
    pending(unsafe { post(from, to, 1, &MESSAGE) })
}

#[test]
fn offers_that_a_peer_takes_back_have_a_bound() {
    is_given_up((offering(), offering()), |_, hostile, of_owner| {
        let id = offer(hostile, of_owner);
        cancel::cancel(&mut hostile.cx, id).expect("a send");
    });
}

/// A program may cancel as many sends as it likes before it waits for one.
#[test]
fn who_cancels_sends_takes_the_answers_by_that() {
    let (mut receiver, mut sender, of_sender, of_receiver) = meet(offering(), offering());
    let mut cancelled = Vec::new();
    for _ in 0..2 * u32::from(MOST_ANSWERS) {
        let id = offer(&mut sender, of_receiver);
        sender.cancel(id).expect("a send");
        cancelled.push(id);
        receiver.progress();
    }
    for id in cancelled {
        let outcome = outcome(&mut [&mut sender, &mut receiver], Posted::Pending(id));
        assert_eq!(outcome, Err(Error::Cancelled));
    }
    assert!(receiver.cx.peers.is_alive(of_sender));
}
