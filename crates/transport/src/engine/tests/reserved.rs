//! Messages of a runtime to itself.

use core::time::Duration;

use super::{
    failed, give_up, meet, met, open_with, outcome, post, post_receive, send, turns, wait_for,
    with_private_ring,
};
use crate::Peer;
use crate::engine::Engine;
use crate::engine::protocol::receive;
use crate::error::PeerFailure;
use crate::raw::{Accesses, ClaimId, Inbox, Posted, RawSliceMut, Reserved};

/// What the runtime's tags have in common.
const TAG: u64 = 3 << 62;

/// Long enough to be offered.
static LONG: [u8; 200_000] = [9; 200_000];

/// Two endpoints that have met, of which the first one has a runtime.
fn with_runtime() -> (Engine, Engine, u32, u32) {
    let open = || open_with(|settings| settings.private_rings(2).linger(Duration::ZERO));
    let (mut engine, other, of_other, at_other) = meet(open(), open());
    engine.reserve_tags(TAG, TAG);
    engine.use_inbox(true);
    (engine, other, of_other, at_other)
}

/// Tags of the messages in the inbox.
fn in_inbox(engine: &mut Engine) -> Vec<u64> {
    let mut inbox = Inbox::default();
    engine.take_inbox(&mut inbox);
    let tags = inbox.iter().map(|(status, bytes)| {
        assert!(status.len == 8 && bytes == [7; 8]);
        status.tag.0
    });
    tags.collect()
}

/// The tag of a message that is claimed.
#[track_caller]
fn claimed(engine: &mut Engine) -> (u64, ClaimId) {
    match engine.take_reserved() {
        Some(Reserved::Claimed(status, claim)) => (status.tag.0, claim),
        other => panic!("{other:?}"),
    }
}

#[test]
fn they_match_nothing_and_come_in_the_order_of_sending() {
    let (mut engine, mut other, of_other, at_other) = with_runtime();
    let mut room = [0; 8];
    // SAFETY: the room stays until the receive is over.
    let any = unsafe { post_receive(&mut engine, (Peer(of_other), 4), &mut room) };
    send(&mut other, at_other, TAG | 1);
    // SAFETY: the data stays for ever.
    let _ = unsafe { post(&mut other, at_other, TAG | 2, &LONG) };
    // It is not ahead of the one that is not here yet.
    send(&mut other, at_other, TAG | 3);
    send(&mut other, at_other, 4);
    turns(10, &mut [&mut other, &mut engine]);
    assert_eq!(in_inbox(&mut engine), [TAG | 1]);
    assert_eq!(claimed(&mut engine).0, TAG | 2);
    assert_eq!(claimed(&mut engine).0, TAG | 3);
    assert!(!engine.has_reserved());
    assert!(outcome(&mut [&mut engine, &mut other], any).is_ok());
    send(&mut other, at_other, TAG | 5);
    turns(10, &mut [&mut other, &mut engine]);
    assert_eq!(in_inbox(&mut engine), [TAG | 5]);
}

/// Counts of accesses have no place in the order of the messages, which still come by the inbox.
#[test]
fn counts_of_accesses_keep_no_message_out_of_the_inbox() {
    let (mut engine, mut other, _, at_other) = with_runtime();
    for (key, tag) in [(5, TAG | 1), (6, TAG | 2)] {
        engine.cx.matching.reserve_access(key, true);
        send(&mut other, at_other, tag);
        turns(10, &mut [&mut other, &mut engine]);
    }
    assert_eq!(in_inbox(&mut engine), [TAG | 1, TAG | 2]);
    let once = Accesses {
        reads: 0,
        writes: 1,
    };
    engine.cx.matching.forget_accesses(5);
    assert_eq!(engine.take_reserved(), Some(Reserved::Accessed(6, once)));
    assert!(!engine.has_reserved());
}

#[test]
fn without_an_inbox_all_are_claimed() {
    let (mut engine, mut other, _, at_other) = with_runtime();
    engine.use_inbox(false);
    send(&mut other, at_other, TAG);
    turns(10, &mut [&mut other, &mut engine]);
    let (tag, claim) = claimed(&mut engine);
    assert!(tag == TAG && !engine.has_reserved());
    let mut room = [0; 8];
    let into = [RawSliceMut::from(&mut room[..])];
    // SAFETY: the message is there, so the receive is over when the call returns.
    let posted = unsafe { receive::post_claimed(&mut engine.cx, claim, &into) };
    assert!(matches!(posted, Ok(Posted::Done(Ok(_)))), "{posted:?}");
    assert_eq!(room, [7; 8]);
}

#[test]
fn the_failure_of_a_peer_is_told_behind_all_that_it_sent() {
    let (mut engine, mut other, of_other, at_other) = with_runtime();
    send(&mut other, at_other, TAG);
    turns(10, &mut [&mut other, &mut engine]);
    give_up(&mut engine, of_other);
    assert_eq!(in_inbox(&mut engine), [TAG]);
    let why = failed(of_other, PeerFailure::Corrupt("for this test".to_owned()));
    let ended = Reserved::Ended(Peer(of_other), why, 0);
    assert_eq!(engine.take_reserved(), Some(ended));
    assert!(!engine.has_reserved());
}

#[test]
fn receipts_go_to_those_that_send_through_a_ring_of_their_own() {
    let (mut a, mut b, of_b, of_a) = met(1);
    assert!(!a.takes_receipts(of_b) && b.receipt_of(of_a) == 0);
    a.give_receipt(of_b, 1);
    assert_eq!(b.receipt_of(of_a), 0, "it takes none");
    with_private_ring(&mut b, of_a, &mut a);
    for receipt in [5, 6, u64::MAX, 1] {
        a.give_receipt(of_b, receipt);
        assert_eq!(b.receipt_of(of_a), receipt);
    }
    assert!(
        !b.takes_receipts(of_a) && a.receipt_of(of_b) == 0,
        "it has sent nothing"
    );
    assert!(!a.takes_receipts(99) && a.receipt_of(99) == 0, "nobody");
}

#[test]
fn the_failure_of_a_peer_is_told_with_its_last_receipt() {
    let (mut engine, mut other, of_other, at_other) = with_runtime();
    with_private_ring(&mut engine, of_other, &mut other);
    other.give_receipt(at_other, 7);
    give_up(&mut engine, of_other);
    let why = failed(of_other, PeerFailure::Corrupt("for this test".to_owned()));
    let ended = Reserved::Ended(Peer(of_other), why, 7);
    assert_eq!(engine.take_reserved(), Some(ended));
    assert_eq!(engine.receipt_of(of_other), 0);
}

#[test]
fn the_last_receipt_outlives_the_endpoint_that_gave_it() {
    let (mut engine, mut other, of_other, at_other) = with_runtime();
    with_private_ring(&mut engine, of_other, &mut other);
    other.give_receipt(at_other, 7);
    other.close();
    let mut told = None;
    wait_for(|| {
        engine.poll_sockets();
        told = engine.take_reserved();
        told.is_some()
    });
    let ended = Reserved::Ended(Peer(of_other), failed(of_other, PeerFailure::Closed), 7);
    assert_eq!(told, Some(ended));
}
