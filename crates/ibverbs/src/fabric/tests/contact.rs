//! First contact: greetings that are late, come twice, or belong to an attempt that is over.

use super::{Side, on, settle};
use crate::fake::{Nature, adapters, net};

/// The answer to an attempt that is over names queue pairs which the peer has connected to those
/// of that attempt.
#[test]
fn an_answer_to_an_earlier_attempt_connects_nothing() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = Side::open(1, on("fake0"));
    let mut b = Side::open(2, on("fake1"));
    net(|net| net.holds = true);
    let first = a.connect(&b);
    a.progress();
    net(|net| net.let_go(0));
    b.progress();
    a.fabric.disconnect(first);
    let second = a.connect(&b);
    // The answer to the first attempt arrives, and then the rest.
    a.progress();
    net(|net| net.let_go(0));
    a.progress();
    net(|net| {
        net.holds = false;
        while !net.held.is_empty() {
            net.let_go(0);
        }
    });
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.connected, a.failed), (vec![second], vec![]));
    assert_eq!(b.connected.len(), 1);
}

/// What a peer said of an attempt that is over may come when this side connects anew.
#[test]
fn a_late_greeting_of_an_attempt_that_is_over_is_nobodys() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = Side::open(1, on("fake0"));
    let mut b = Side::open(2, on("fake1"));
    net(|net| net.holds = true);
    let first = a.connect(&b);
    a.connect(&b);
    a.progress();
    // One of two greetings that are the same stays on its way.
    net(|net| net.holds = false);
    net(|net| net.let_go(1));
    settle(&mut [&mut a, &mut b]);
    let [back] = b.connected[..] else {
        panic!("{:?}", b.connected);
    };
    a.fabric.disconnect(first);
    b.fabric.disconnect(back);
    let again = b.connect(&a);
    net(|net| net.let_go(0));
    settle(&mut [&mut b, &mut a]);
    assert_eq!(
        (&b.connected[..], &b.failed[..]),
        (&[back, again][..], &[][..])
    );
    b.say(again, b"hello").expect("a new connection has room");
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.from(a.connected[1]), [b"hello"]);
}

/// Both have begun, and one gives its attempt up and begins anew, before they have met.
#[test]
fn a_connection_outlasts_an_attempt_of_the_peer() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = Side::open(1, on("fake0"));
    let mut b = Side::open(2, on("fake1"));
    net(|net| net.holds = true);
    let back = b.connect(&a);
    let first = a.connect(&b);
    a.progress();
    b.progress();
    // Only what goes to `b` arrives.
    net(|net| {
        let number = net.held.iter().position(|datagram| datagram.device() == 1);
        net.let_go(number.expect("a greeting of the first attempt"));
    });
    b.progress();
    a.fabric.disconnect(first);
    let second = a.connect(&b);
    a.progress();
    net(|net| {
        net.holds = false;
        while !net.held.is_empty() {
            net.let_go(0);
        }
    });
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.connected, a.failed), (vec![second], vec![]));
    assert_eq!((b.connected, b.failed), (vec![back], vec![]));
}
