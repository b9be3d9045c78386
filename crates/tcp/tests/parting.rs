//! Two endpoints part: with a goodbye, without one, and before they have met.

mod side;

use core::time::Duration;

use limic_fabric::{ConnectionFailure, Fabric};
use side::{Side, met, until};

#[test]
fn a_goodbye_comes_behind_all_messages() {
    let (mut a, mut b, there) = met();
    // Messages of the other one lie unread meanwhile.
    let back = b.connected[0].0;
    b.send(back, 9, &[3; 5000]).expect("ready");
    let mut sent = 0_u64;
    while a.send(there, sent, &[1; 5000]).is_ok() {
        sent += 1;
    }
    let closing = std::thread::spawn(move || {
        a.fabric.close(Duration::from_secs(30));
        drop(a);
    });
    until("the end", &mut [&mut b], |sides| {
        !sides[0].failed.is_empty()
    });
    closing.join().expect("closed");
    assert_eq!(b.failed, [(back, ConnectionFailure::Closed)]);
    let tags: Vec<u64> = b.came.iter().map(|(_, _, tag, _)| *tag).collect();
    assert_eq!(tags, (0..sent).collect::<Vec<_>>());
}

/// Its call lies in the backlog of a peer that computes, and it closes: the peer learns that it has
/// closed when it looks.
#[test]
fn who_closes_before_its_call_is_taken_says_goodbye() {
    let (mut a, mut b) = (Side::open(1), Side::open(2));
    a.call(&b);
    // The kernel connects, and the greeting goes.
    let greeted = |side: &Side| side.fabric.counts().packets > 0;
    until("the greeting", &mut [&mut a], |sides| greeted(sides[0]));
    a.fabric.close(Duration::from_secs(30));
    drop(a);
    until("the end", &mut [&mut b], |sides| {
        !sides[0].failed.is_empty()
    });
    let (connection, id, _) = &b.connected[0];
    assert_eq!(*id, 1);
    assert_eq!(b.failed, [(*connection, ConnectionFailure::Closed)]);
}

#[test]
fn an_end_without_goodbye_is_a_loss_and_a_new_call_is_another_connection() {
    let (mut a, mut b, there) = met();
    a.send(there, 1, b"before").expect("ready");
    a.fabric.disconnect(there);
    until("the end", &mut [&mut b], |sides| {
        !sides[0].failed.is_empty()
    });
    assert!(matches!(b.failed[0].1, ConnectionFailure::Lost(_)));
    assert_eq!(b.came.len(), 1, "what was sent before it was lost");
    let again = a.call(&b);
    assert_ne!(again, there);
    until("a second meeting", &mut [&mut a, &mut b], |sides| {
        sides.iter().all(|side| side.connected.len() == 2)
    });
    a.send(again, 2, b"after").expect("ready");
    until("the message", &mut [&mut a, &mut b], |sides| {
        sides[1].came.len() == 2
    });
}

/// The peer has given up a connection of which this side does not know yet.
#[test]
fn a_new_call_ends_the_connection_that_was_there() {
    let (mut a, mut b, there) = met();
    let before = b.connected[0].0;
    a.fabric.disconnect(there);
    let again = a.call(&b);
    until("a second meeting", &mut [&mut a, &mut b], |sides| {
        sides.iter().all(|side| side.connected.len() == 2)
    });
    assert_eq!(b.failed.len(), 1);
    assert_eq!(b.failed[0].0, before);
    let after = b.connected[1].0;
    assert_ne!(before, after);
    b.send(after, 5, b"anew").expect("ready");
    until("the message", &mut [&mut a, &mut b], |sides| {
        sides[0].came.len() == 1
    });
    assert_eq!(a.came[0].0, again);
}
