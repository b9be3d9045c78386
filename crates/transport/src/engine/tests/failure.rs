//! What a peer that goes leaves behind, between endpoints of one thread.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use limic_records as frame;
use limic_shm::control::ControlError;
use limic_shm::control::PeerProcess;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{
    Log, accessed_region, attach_both, claimer, failed, give_up, known, met, open, open_with, post,
    post_receive, send, start_revoke, tags, turn, turns, until, without_pidfd,
};
use crate::engine::Engine;
use crate::engine::contact::connections;
use crate::engine::contact::failure::fail_peer;
use crate::engine::protocol::{receive, regions};
use crate::error::PeerFailure;
use crate::raw::{Posted, RawSliceMut};
use crate::{Error, Peer, Selector, Tag};

#[test]
fn last_words_behind_a_claim_of_another_peer_are_delivered() {
    let (mut receiver, mut leaving, mut slow) = (open(0), open(0), open(0));
    let (of_leaving, at_leaving) = attach_both(&mut receiver, &mut leaving);
    let (of_slow, _) = attach_both(&mut receiver, &mut slow);
    let mut claims = claimer(&receiver, of_slow);
    let held = claims.reserve(0).expect("room");
    send(&mut leaving, at_leaving, 5);
    leaving.close();
    // The other one may be stopped: who waits for the one that has left does not wait for it.
    turns(10, &mut [&mut receiver]);
    assert!(!receiver.cx.peers.is_alive(of_leaving), "it has closed");
    assert_eq!(tags(&mut receiver, of_leaving), [5]);
    held.publish(frame::EAGER, 6);
    turn(&mut [&mut receiver]);
    assert_eq!(tags(&mut receiver, of_leaving), [0; 0], "once is enough");
    assert_eq!(tags(&mut receiver, of_slow), [6]);
}

/// A peer that fails may be back when the message is received, and has then other messages on
/// their way.
#[test]
fn a_claimed_offer_is_lost_with_its_sender() {
    let (mut receiver, mut sender, of_sender, at_sender) = met(0);
    let bytes = vec![7_u8; 16 << 20];
    // SAFETY: the bytes outlive both endpoints, which end with this test.
    let posted = unsafe { post(&mut sender, at_sender, 5, &bytes) };
    assert!(matches!(posted, Posted::Pending(_)), "{posted:?}");
    let selector = Selector::exact(Peer(of_sender), Tag(5));
    let claimed = (0..1000).find_map(|_| {
        turn(&mut [&mut receiver, &mut sender]);
        receive::claim(&mut receiver.cx, &selector).expect("alive")
    });
    let (_, claim) = claimed.expect("an offer");
    fail_peer(&mut receiver.cx, of_sender, PeerFailure::Died);
    let token = receiver.cx.matching.store().claimed(claim).expect("kept");
    let message = receiver.cx.matching.store().get(token).expect("kept");
    assert!(message.is_here(), "nobody is asked for the rest of it");
    let mut room = [0_u8; 16];
    let into = [RawSliceMut::from(&mut room[..])];
    // SAFETY: the call does all that is done.
    let posted = unsafe { receive::post_claimed(&mut receiver.cx, claim, &into) };
    let lost = failed(of_sender, PeerFailure::Died);
    assert_eq!(posted, Ok(Posted::Done(Err(lost))));
    drop((receiver, sender));
}

#[test]
fn a_probe_of_a_source_that_was_gone_before_the_two_met_ends() {
    let mut waiting = open(0);
    let gone = known(&mut waiting, &open(0));
    let selector = Selector::exact(Peer(gone), Tag(7));
    let outcome = (0..1000).find_map(|_| {
        turn(&mut [&mut waiting]);
        receive::claim(&mut waiting.cx, &selector).err()
    });
    let unreachable = failed(gone, PeerFailure::Unreachable);
    assert_eq!(outcome, Some(unreachable));
}

#[test]
fn a_peer_that_dies_with_a_claim_holds_nobody_up() {
    let (mut receiver, mut dying, of_dying, at_dying) = met(0);
    send(&mut dying, at_dying, 5);
    let mut claims = claimer(&receiver, of_dying);
    let held = claims.reserve(0).expect("room");
    core::mem::forget(held);
    dying.close();
    turns(10, &mut [&mut receiver]);
    assert!(!receiver.cx.peers.is_alive(of_dying), "it has closed");
    assert_eq!(tags(&mut receiver, of_dying), [5]);
    let mut next = open(0);
    let (of_next, at_next) = attach_both(&mut receiver, &mut next);
    send(&mut next, at_next, 9);
    turn(&mut [&mut receiver]);
    assert_eq!(tags(&mut receiver, of_next), [9]);
}

/// Not even a descriptor of the reserve was free when the two met.
#[test]
fn a_process_that_was_not_watched_is_watched_when_there_is_room() {
    let (mut engine, _peer, of_peer, _) = met(0);
    without_pidfd(&mut engine, of_peer);
    let [index] = engine.cx.sockets.of_peer(of_peer)[..] else {
        panic!("they have met over one connection");
    };
    let connection = engine.cx.sockets.get_mut(index).expect("a connection");
    connection.unwatch();
    engine.cx.sockets.pause(index, &ControlError::NoDescriptor);
    until(&mut [&mut engine], |engines| {
        let connection = engines[0].cx.sockets.get(index);
        connection.is_some_and(|one| one.pidfd.is_some())
    });
}

#[test]
fn a_claim_of_a_silent_peer_is_told_of_once() {
    let impatient = Duration::from_millis(1);
    let mut receiver = open_with(|settings| settings.private_rings(0).patience(impatient));
    let mut silent = open(0);
    let (of_silent, _) = attach_both(&mut receiver, &mut silent);
    let mut claims = claimer(&receiver, of_silent);
    let held = claims.reserve(0).expect("room");
    let (log, line) = (
        Log::default(),
        format!("a record that peer {of_silent} has begun"),
    );
    tracing::subscriber::with_default(log.writer(), || {
        until(&mut [&mut receiver], |_| log.count(&line) > 0);
        turns(10, &mut [&mut receiver]);
    });
    assert_eq!(log.count(&line), 1);
    held.publish(frame::EAGER, 6);
    until(&mut [&mut receiver], |engines| {
        tags(engines[0], of_silent) == [6]
    });
}

/// Its process lives, and is not asked over any connection.
#[test]
fn a_claim_of_a_peer_that_no_connection_leads_to_is_given_up() {
    let (mut receiver, mut gone, mut sender) = (open(0), open(0), open(0));
    let (of_gone, _) = attach_both(&mut receiver, &mut gone);
    let (of_sender, at_sender) = attach_both(&mut receiver, &mut sender);
    let mut claims = claimer(&receiver, of_gone);
    core::mem::forget(claims.reserve(0).expect("room"));
    send(&mut sender, at_sender, 5);
    fail_peer(&mut receiver.cx, of_gone, PeerFailure::Died);
    turns(10, &mut [&mut receiver, &mut sender]);
    assert!(
        tags(&mut receiver, of_sender).is_empty(),
        "it may publish yet"
    );
    receiver.rings.make_claim_old();
    until(&mut [&mut receiver, &mut sender], |engines| {
        tags(engines[0], of_sender) == [5]
    });
}

#[test]
fn a_goodbye_over_either_of_two_connections_counts() {
    let (mut leaving, mut left) = (open(0), open(0));
    let (of_left, of_leaving) = (known(&mut leaving, &left), known(&mut left, &leaving));
    // Both make the first contact, and only one of them accepts the other's.
    assert_eq!(left.attach(of_leaving), Ok(false));
    assert_eq!(leaving.attach(of_left), Ok(false));
    turn(&mut [&mut left]);
    connections::read_all_of(&mut leaving.cx, of_left);
    assert_eq!(leaving.attach(of_left), Ok(true));
    leaving.close();
    drop(leaving);
    while left.cx.peers.is_alive(of_leaving) {
        turn(&mut [&mut left]);
    }
    assert_eq!(left.attach(of_leaving), closed(of_leaving));
    assert!(!left.cx.quarantine.lives(of_leaving), "it is no stranger");
}

#[test]
fn a_goodbye_counts_though_a_child_of_the_peer_holds_the_connection() {
    let (mut left, mut leaving, of_leaving, at_leaving) = met(0);
    send(&mut leaving, at_leaving, 5);
    let connections = leaving.cx.sockets.iter();
    // As a child that was forked, and has not begun another program.
    let held: Vec<OwnedFd> = connections
        .map(|connection| connection.socket.as_fd().try_clone_to_owned())
        .collect::<Result<_, _>>()
        .expect("descriptors");
    leaving.close();
    while left.cx.peers.is_alive(of_leaving) {
        turn(&mut [&mut left]);
    }
    assert_eq!(left.attach(of_leaving), closed(of_leaving));
    assert_eq!(tags(&mut left, of_leaving), [5]);
    drop(held);
}

#[test]
fn who_greets_an_endpoint_that_closes_learns_that_it_has() {
    let (mut greeting, mut leaving) = (open(0), open(0));
    let of_leaving = known(&mut greeting, &leaving);
    assert_eq!(greeting.attach(of_leaving), Ok(false));
    // The endpoint is closed, but is still there, and nobody looks at its sockets any more.
    leaving.close();
    while greeting.cx.peers.is_alive(of_leaving) {
        turn(&mut [&mut greeting]);
    }
    assert_eq!(greeting.attach(of_leaving), closed(of_leaving));
    let mut late = open(0);
    let of_leaving = known(&mut late, &leaving);
    assert_eq!(late.attach(of_leaving), Ok(false));
    assert!(!late.cx.peers.is_alive(of_leaving), "nobody listens");
}

/// What is said of a peer that has closed.
fn closed(peer: u32) -> crate::Result<bool> {
    Err(failed(peer, PeerFailure::Closed))
}

#[test]
fn a_private_ring_is_given_on_empty() {
    let (mut receiver, mut first, mut next) = (open(1), open(1), open(1));
    let (of_first, at_first) = attach_both(&mut receiver, &mut first);
    let (of_next, at_next) = attach_both(&mut receiver, &mut next);
    let mut claims = claimer(&receiver, of_next);
    for tag in 0..4 {
        send(&mut first, at_first, tag);
    }
    turn(&mut [&mut receiver]);
    // Its switch stands behind a claim; what it sends next lies in the ring that it was granted.
    let held = claims.reserve(0).expect("room");
    turn(&mut [&mut first]);
    send(&mut first, at_first, 4);
    give_up(&mut receiver, of_first);
    receiver.handle_notes();
    held.publish(frame::EAGER, 100);
    let ring_of_next = |receiver: &mut Engine| receiver.cx.peers.get(of_next)?.ring;
    for tag in 101..110 {
        send(&mut next, at_next, tag);
        turn(&mut [&mut receiver, &mut next]);
    }
    assert_eq!(
        ring_of_next(&mut receiver),
        None,
        "the first one may write there"
    );
    receiver.cx.quarantine.enter(of_first, 0, ended_process());
    turn(&mut [&mut receiver]);
    for tag in 110..120 {
        send(&mut next, at_next, tag);
        turn(&mut [&mut receiver, &mut next]);
    }
    turn(&mut [&mut receiver]);
    assert!(ring_of_next(&mut receiver).is_some());
    assert_eq!(
        tags(&mut receiver, of_next),
        (100..120).collect::<Vec<u64>>()
    );
}

/// A process that has ended.
fn ended_process() -> PeerProcess {
    let mut child = Command::new("true").spawn().expect("a process");
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    child.wait().expect("wait");
    PeerProcess::Pidfd(process.expect("a pidfd"))
}

/// Fragments of the pool, and the word through which a latency is probed.
#[test]
fn what_a_peer_was_given_is_kept_while_its_process_lives() {
    let (mut owner, _peer, of_peer, _) = met(0);
    assert!(owner.cx.staging.take_some(of_peer, 1, u64::MAX).is_some());
    let word = owner.cx.memory.take_word().expect("a word");
    let pair = owner.cx.peers.pair(of_peer).expect("a pair");
    pair.latency.begin(word);
    give_up(&mut owner, of_peer);
    turn(&mut [&mut owner]);
    assert_eq!(owner.cx.staging.held_by(of_peer), 1);
    assert!(!owner.cx.memory.is_free_word(word));
    owner.cx.quarantine.enter(of_peer, 0, ended_process());
    turn(&mut [&mut owner]);
    assert_eq!(owner.cx.staging.held_by(of_peer), 0);
    assert!(owner.cx.memory.is_free_word(word));
}

/// The kernel gives no pidfd for the receiver, which has closed its endpoint and still reads.
#[test]
fn a_loan_is_not_lent_again_while_a_receiver_without_a_pidfd_may_read_it() {
    let (mut owner, mut receiver) = (open(0), open(0));
    let (at_owner, of_receiver) = attach_both(&mut receiver, &mut owner);
    without_pidfd(&mut owner, of_receiver);
    let loan = owner.borrow_loan(100_000).expect("a loan");
    let start = loan.start;
    let sent = owner.post_loan(of_receiver, 3, loan, 100_000);
    assert!(matches!(sent, Ok(Posted::Done(Ok(_)))), "{sent:?}");
    let selector = Selector::from((Peer(at_owner), Tag(3)));
    let taken = receiver.take_loan(&selector).expect("alive");
    assert!(taken.is_some(), "it was sent");
    receiver.close();
    while owner.cx.peers.is_alive(of_receiver) {
        turn(&mut [&mut owner]);
    }
    turns(10, &mut [&mut owner]);
    let others: Vec<_> = (0..16).map(|_| owner.borrow_loan(100_000)).collect();
    for other in others {
        assert_ne!(other.expect("a loan").start, start, "it is read");
    }
}

#[test]
fn a_late_welcome_does_not_attach_a_peer_that_failed() {
    let (mut engine, mut late) = (open(1), open(1));
    let of_late = known(&mut engine, &late);
    assert_eq!(engine.attach(of_late), Ok(false), "it has not answered");
    fail_peer(&mut engine.cx, of_late, PeerFailure::Died);
    turns(10, &mut [&mut late, &mut engine]);
    assert!(engine.cx.peers.pair(of_late).is_none());
    let failed = failed(of_late, PeerFailure::Died);
    assert_eq!(engine.attach(of_late), Err(failed));
}

#[test]
fn a_region_is_not_given_back_while_a_peer_that_was_given_up_may_copy() {
    let (mut owner, peer, of_peer, _) = met(1);
    let (region, end_access) = accessed_region(&mut owner, &peer);
    give_up(&mut owner, of_peer);
    start_revoke(&mut owner, region).expect("a region");
    assert_eq!(
        regions::revoked(&mut owner.cx, region),
        Ok(None),
        "its process lives"
    );
    end_access();
    assert_eq!(
        regions::revoked(&mut owner.cx, region),
        Ok(Some(vec![1; 100]))
    );
}

#[test]
fn a_region_is_given_back_when_the_process_of_a_peer_has_ended() {
    let (mut owner, peer, of_peer, _) = met(1);
    let (region, _) = accessed_region(&mut owner, &peer);
    give_up(&mut owner, of_peer);
    // Some other process in place of the peer's, which is this one.
    let mut command = Command::new("cat");
    let mut child = command.stdin(Stdio::piped()).spawn().expect("a process");
    let pid = Pid::from_child(&child);
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
    owner
        .cx
        .quarantine
        .enter(of_peer, 0, PeerProcess::Pidfd(process));
    start_revoke(&mut owner, region).expect("a region");
    assert_eq!(
        regions::revoked(&mut owner.cx, region),
        Ok(None),
        "the process lives"
    );
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(
        regions::revoked(&mut owner.cx, region),
        Ok(Some(vec![1; 100]))
    );
}

#[test]
fn bytes_to_itself_that_wait_are_counted_until_they_are_received() {
    let mut engine = open(1);
    let me = engine.myself().0;
    send(&mut engine, me, 1);
    send(&mut engine, me, 2);
    assert_eq!(engine.cx.counters.unexpected_bytes(), 16);
    // SAFETY: no room, and done at once.
    let posted = unsafe { post_receive(&mut engine, (Peer(me), 1), &mut []) };
    assert!(matches!(posted, Posted::Done(Err(Error::Truncated { .. }))));
    assert_eq!(engine.cx.counters.unexpected_bytes(), 8);
}
