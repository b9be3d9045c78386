use super::super::in_pieces;
use super::super::test_peers::{meet, open, open_with, send, tags, turn};
use super::*;
use crate::Peer;
use crate::Tag;
use crate::counters::Event;
use crate::policy::{Path, PathSet};
use crate::raw::{RawSlice, SendOptions};

#[test]
fn a_message_with_a_word_that_a_receive_waits_for_is_not_unexpected() {
    let (mut receiver, mut sender) = (open(1), open(1));
    let (of_sender, at_sender) = meet(&mut receiver, &mut sender);
    for _ in 0..10 {
        send(&mut sender, at_sender, 1);
        turn(&mut [&mut receiver, &mut sender]);
    }
    assert_eq!(tags(&mut receiver, of_sender).len(), 10);
    assert!(receiver.inputs.private_ring_of(of_sender).is_some());
    let before = receiver.core.tally.page().counters.event(Event::Unexpected);
    let (data, mut room) = ([5_u8; 8], [0_u8; 8]);
    // SAFETY: both outlive the calls, after which they are done.
    let received = unsafe {
        let data = [RawSlice::from(&data[..])];
        let sent = sender.core.send_at_once(at_sender, 2, Some(77), &data);
        assert_eq!(sent, Ok(true));
        let room = [RawSliceMut::from(&mut room[..])];
        receiver.recv_blocking(&Selector::from((Peer(of_sender), Tag(2))), &room)
    };
    assert_eq!(received.expect("it was sent").immediate, Some(77));
    assert_eq!(room, data);
    let unexpected = receiver.core.tally.page().counters.event(Event::Unexpected);
    assert_eq!(unexpected, before);
}

/// A receiver and a sender with a private ring to it, and a pool of so many chunks of 16 KiB; and the number of each at the other.
fn long_pair(chunks: u32) -> (Engine, Engine, u32, u32) {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    let [mut receiver, mut sender] = [(); 2].map(|()| {
        open_with(|settings| {
            settings
                .allowed(paths.with(Path::Pipeline))
                .eager_max(in_pieces::LONGEST)
                .chunk_bytes(16 << 10)
                .chunks(chunks)
                .linger(core::time::Duration::ZERO)
        })
    });
    let (of_sender, at_sender) = meet(&mut receiver, &mut sender);
    for _ in 0..10 {
        send(&mut sender, at_sender, 1);
        turn(&mut [&mut receiver, &mut sender]);
    }
    assert_eq!(tags(&mut receiver, of_sender).len(), 10);
    (receiver, sender, of_sender, at_sender)
}

fn post(sender: &mut Engine, to: u32, data: &[u8]) -> Posted {
    // SAFETY: callers let the data outlive the send.
    let posted = unsafe {
        let slices = [RawSlice::from(data)];
        sender
            .core
            .post_send(to, 2, SendOptions::default(), &slices)
    };
    posted.expect("alive")
}

#[test]
fn a_message_in_pieces_goes_straight_into_its_room() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(64);
    let data: Vec<u8> = (0..in_pieces::LONGEST).map(|at| (at % 251) as u8).collect();
    let before = receiver.core.requests.completed;
    for len in [3 << 10, 9000, 20 << 10, data.len()] {
        assert!(matches!(
            post(&mut sender, at_sender, &data[..len]),
            Posted::Done(Ok(_))
        ));
        let mut room = vec![0; len + 100];
        // SAFETY: the room outlives the call.
        let received = unsafe {
            let room = [RawSliceMut::from(&mut room[..])];
            receiver.recv_blocking(&Selector::from((Peer(of_sender), Tag(2))), &room)
        };
        assert_eq!(received.expect("it was sent").len, len as u64);
        assert_eq!(room[..len], data[..len]);
        assert!(room[len..].iter().all(|&byte| byte == 0));
    }
    assert_eq!(receiver.core.requests.completed, before, "none was posted");
}

#[test]
fn what_comes_late_of_a_message_in_pieces_comes_in_the_ordinary_way() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(2);
    let data = vec![9; in_pieces::LONGEST as usize];
    let sent = post(&mut sender, at_sender, &data);
    assert!(matches!(sent, Posted::Pending(_)), "the pool is too small");
    let mut room = vec![0; data.len()];
    // SAFETY: the room outlives the endpoint's use of it.
    let into = unsafe { ReceiveBuffer::new(&[RawSliceMut::from(&mut room[..])]) };
    let selector = Selector::from((Peer(of_sender), Tag(2)));
    let Direct::Pending(id) = receiver.receive_directly(of_sender, &selector, into) else {
        panic!("a part of it has come");
    };
    for _ in 0..10_000 {
        turn(&mut [&mut receiver, &mut sender]);
    }
    assert_eq!(
        receiver.wait(id).expect("it was sent").len,
        data.len() as u64
    );
    assert_eq!(room, data);
}

#[test]
fn a_sender_that_goes_in_the_middle_of_a_message_fails_its_receive() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(2);
    let data = vec![9; in_pieces::LONGEST as usize];
    let sent = post(&mut sender, at_sender, &data);
    assert!(matches!(sent, Posted::Pending(_)), "the pool is too small");
    let mut room = vec![0; data.len()];
    // SAFETY: the room outlives the endpoint's use of it.
    let into = unsafe { ReceiveBuffer::new(&[RawSliceMut::from(&mut room[..])]) };
    let selector = Selector::from((Peer(of_sender), Tag(2)));
    let Direct::Pending(id) = receiver.receive_directly(of_sender, &selector, into) else {
        panic!("a part of it has come");
    };
    drop(sender);
    let outcome = receiver.wait(id);
    assert!(
        matches!(outcome, Err(crate::Error::PeerFailed { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_message_in_pieces_that_is_longer_than_its_room_is_cut() {
    let (mut receiver, mut sender, of_sender, at_sender) = long_pair(64);
    let data = vec![9; 20 << 10];
    assert!(matches!(
        post(&mut sender, at_sender, &data),
        Posted::Done(Ok(_))
    ));
    let mut room = vec![0; 10 << 10];
    // SAFETY: the room outlives the call.
    let received = unsafe {
        let room = [RawSliceMut::from(&mut room[..])];
        receiver.recv_blocking(&Selector::from((Peer(of_sender), Tag(2))), &room)
    };
    assert!(
        matches!(received, Err(crate::Error::Truncated { .. })),
        "{received:?}"
    );
    assert_eq!(room, data[..room.len()]);
}
