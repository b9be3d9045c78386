//! Blocking receives that go past the queues.

use limic_policy::select::LONGEST_EAGER;
use limic_records::{self as frame, ControlRecord};
use limic_shm::bytes::ReceiveBuffer;

use super::{meet, open_fragmenting, post, tags, turn, turns};
use crate::counters::Event;
use crate::engine::Engine;
use crate::engine::bypass::receive::Bypass;
use crate::engine::outbox;
use crate::engine::protocol::attempt;
use crate::error::{Outcome, PeerFailure};
use crate::raw::{Posted, RawSlice, RawSliceMut, RequestId};
use crate::{Peer, Selector, Tag};

#[test]
fn a_message_with_a_word_that_a_receive_waits_for_is_not_unexpected() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(2);
    assert!(receiver.rings.private_ring_of(of_sender).is_some());
    let unexpected = |receiver: &Engine| receiver.counters().event(Event::Unexpected);
    let before = unexpected(&receiver);
    let (data, mut room) = ([5_u8; 8], [0_u8; 8]);
    // SAFETY: the data outlives the call, after which it is done.
    let received = unsafe {
        let data = [RawSlice::from(&data[..])];
        assert!(attempt::whole(
            &mut sender.cx,
            at_sender,
            2,
            Some(77),
            &data
        ));
        receive_now(&mut receiver, of_sender, &mut room)
    };
    assert_eq!(received.expect("it was sent").immediate, Some(77));
    assert_eq!(room, data);
    assert_eq!(unexpected(&receiver), before);
}

/// A receiver and a sender with a private ring to it, and so many staging buffers of 16 KiB; and
/// the number of each at the other.
fn long_pair(staging_buffers: u32) -> (Engine, Engine, u32, u32) {
    let open = || open_fragmenting(staging_buffers);
    let (mut receiver, mut sender, of_sender, at_sender) = meet(open(), open());
    for _ in 0..10 {
        super::send(&mut sender, at_sender, 1);
        turn(&mut [&mut receiver, &mut sender]);
    }
    assert_eq!(tags(&mut receiver, of_sender).len(), 10);
    (receiver, sender, of_sender, at_sender)
}

/// Receives a message with the tag 2.
fn receive_now(receiver: &mut Engine, from: u32, room: &mut [u8]) -> Outcome {
    let room = [RawSliceMut::from(room)];
    // SAFETY: the room outlives the call.
    unsafe { receiver.recv_blocking(&Selector::from((Peer(from), Tag(2))), &room) }
}

/// A sender has too small a pool for its message of 64 KiB, of which a receive takes the first
/// fragments itself.
fn begun(data: &[u8], room: &mut [u8]) -> (Engine, Engine, RequestId) {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(2);
    // SAFETY: callers let both outlive the endpoints.
    let (sent, into) = unsafe {
        let sent = post(&mut sender, at_sender, 2, data);
        (sent, ReceiveBuffer::new(&[RawSliceMut::from(room)]))
    };
    assert!(matches!(sent, Posted::Pending(_)), "the pool is too small");
    let selector = Selector::from((Peer(of_sender), Tag(2)));
    let Bypass::Started(tag, len, at) = receiver.receive_bypass(of_sender, &selector, &into) else {
        panic!("a part of it has come");
    };
    let id = receiver.post_remaining(of_sender, tag, len, at, into);
    (receiver, sender, id)
}

#[test]
fn a_message_in_fragments_goes_straight_into_its_room() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(64);
    let data: Vec<u8> = (0..LONGEST_EAGER).map(|at| (at % 251) as u8).collect();
    let before = receiver.cx.requests.completed();
    for len in [3 << 10, 9000, 20 << 10, data.len()] {
        // SAFETY: it is done when the call returns, or the test fails.
        let sent = unsafe { post(&mut sender, at_sender, 2, &data[..len]) };
        assert!(matches!(sent, Posted::Done(Ok(_))), "{sent:?}");
        let mut room = vec![0; len + 100];
        let received = receive_now(&mut receiver, of_sender, &mut room);
        assert_eq!(received.expect("it was sent").len, len as u64);
        assert_eq!(room[..len], data[..len]);
        assert!(room[len..].iter().all(|&byte| byte == 0));
    }
    assert_eq!(receiver.cx.requests.completed(), before, "none was posted");
}

#[test]
fn what_comes_late_of_a_message_in_fragments_comes_in_the_ordinary_way() {
    let data = vec![9; LONGEST_EAGER as usize];
    let mut room = vec![0; data.len()];
    let (mut receiver, mut sender, id) = begun(&data, &mut room);
    turns(10_000, &mut [&mut receiver, &mut sender]);
    assert_eq!(
        receiver.wait(id).expect("it was sent").len,
        data.len() as u64
    );
    assert_eq!(room, data);
}

#[test]
fn a_sender_that_goes_in_the_middle_of_a_message_fails_its_receive() {
    let data = vec![9; LONGEST_EAGER as usize];
    let mut room = vec![0; data.len()];
    let (mut receiver, sender, id) = begun(&data, &mut room);
    drop(sender);
    let outcome = receiver.wait(id);
    assert!(
        matches!(outcome, Err(crate::Error::PeerFailed { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_message_in_fragments_that_is_longer_than_its_room_is_cut() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(64);
    let data = vec![9; 20 << 10];
    // SAFETY: it is done when the call returns, or the test fails.
    let sent = unsafe { post(&mut sender, at_sender, 2, &data) };
    assert!(matches!(sent, Posted::Done(Ok(_))), "{sent:?}");
    let mut room = vec![0; 10 << 10];
    let received = receive_now(&mut receiver, of_sender, &mut room);
    assert!(
        matches!(received, Err(crate::Error::Truncated { .. })),
        "{received:?}"
    );
    assert_eq!(room, data[..room.len()]);
}

#[test]
fn a_record_that_is_too_short_for_its_kind_fails_its_sender_here_too() {
    for kind in [frame::EAGER_STAGED, frame::ARENA] {
        let (mut receiver, mut sender, of_sender, at_sender) = long_pair(2);
        let short = ControlRecord::new(kind, 2, [0]);
        outbox::control(&mut sender.cx, at_sender, short);
        let selector = Selector::from((Peer(of_sender), Tag(2)));
        let outcome = if kind == frame::ARENA {
            receiver.take_loan(&selector).map(|_| ())
        } else {
            // SAFETY: no room, which is there for ever.
            unsafe { receiver.recv_blocking(&selector, &[]) }.map(|_| ())
        };
        let Err(crate::Error::PeerFailed { why, .. }) = outcome else {
            panic!("kind {kind}: {outcome:?}");
        };
        assert!(matches!(why, PeerFailure::Corrupt(_)), "{why}");
    }
}
