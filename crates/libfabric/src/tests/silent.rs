//! Peers that do not look, are gone, or were given up.

use core::time::Duration;
use std::time::Instant;

use limic_fabric::{ConnectionFailure, Fabric};

use super::{Side, WATCHDOG, meet, pair, pair_within, polls, secret, two, until};
use crate::device::ROOM;
use crate::packet::LONGEST;

/// A peer that does not look has its share of packets, and others are not kept waiting by it.
#[test]
fn a_stalled_peer_holds_nobody_else_up() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    let Some(mut other) = Side::open(3, WATCHDOG) else {
        return;
    };
    let start = Instant::now();
    let mut sent = 0;
    // Until nothing has gone for many polls.
    let mut refused = 0;
    while refused < 2000 {
        if a.send(there, sent, LONGEST).is_ok() {
            (sent, refused) = (sent + 1, 0);
        } else {
            refused += 1;
        }
        a.poll();
        assert!(start.elapsed() < WATCHDOG, "it takes everything");
    }
    let at_other = a.call(&other);
    until(&mut [&mut a, &mut other], |sides| {
        sides[1].connected.len() == 1 && sides[0].connected.len() == 2
    });
    for tag in 0..50 {
        while a.send(at_other, tag, 100).is_err() {
            polls(&mut [&mut a, &mut other], 1);
        }
    }
    until(&mut [&mut a, &mut other], |sides| sides[1].came.len() == 50);
    // Nor is anything lost that it was sent.
    until(&mut [&mut a, &mut b], |sides| {
        sides[1].came.len() == sent as usize
    });
    assert!(a.failed.is_empty());
}

/// All that the provider takes at once is on its way to peers that do not look.
#[test]
fn stalled_peers_use_nothing_up_that_others_need() {
    let timeout = Duration::from_millis(400);
    let Some(mut a) = Side::open(1, timeout) else {
        return;
    };
    a.fabric.most_sends = 4;
    let mut peers: Vec<Side> = (2..6).filter_map(|id| Side::open(id, WATCHDOG)).collect();
    let connections: Vec<_> = peers.iter().map(|peer| a.call(peer)).collect();
    let mut all: Vec<&mut Side> = peers.iter_mut().collect();
    all.push(&mut a);
    until(&mut all, |sides| sides[4].connected.len() == 4);
    // Nothing goes to the first one any more, and it has no more than its share of all.
    let start = Instant::now();
    let full = |a: &Side, most| a.fabric.sending.len() == most && !a.fabric.blocked.is_empty();
    let mut polls_so = 0;
    while polls_so < 2000 {
        let _ = a.send(connections[0], 1, LONGEST);
        a.poll();
        polls_so = if full(&a, 2) { polls_so + 1 } else { 0 };
        assert!(start.elapsed() < WATCHDOG, "it takes everything");
    }
    let (to, other) = (connections[3], &mut peers[3]);
    for tag in 0..20 {
        while a.send(to, tag, 100).is_err() {
            polls(&mut [&mut a, other], 1);
        }
    }
    until(&mut [&mut a, other], |sides| sides[1].came.len() == 20);
    // With all of them stalled, each is waited for.
    let start = Instant::now();
    while start.elapsed() < 5 * timeout {
        for to in &connections {
            let _ = a.send(*to, 1, LONGEST);
        }
        a.poll();
    }
    assert_eq!(a.failed, []);
}

/// Each side may lose the other while the other hears nothing wrong: nobody waits for ever.
#[test]
fn who_is_given_up_learns_of_it() {
    let timeout = Duration::from_millis(400);
    let Some((mut a, mut b)) = two(timeout) else {
        return;
    };
    for says_something in [true, false] {
        let there = a.call(&b);
        meet(&mut a, &mut b);
        b.fabric.lose(b.connected[0].0.0, "nothing goes".to_owned());
        if says_something {
            a.send(there, 1, 1).expect("ready");
        }
        until(&mut [&mut a, &mut b], |sides| !sides[0].failed.is_empty());
        let (failed, why) = &a.failed[0];
        assert!(matches!(why, ConnectionFailure::Lost(_)) && *failed == there);
        for side in [&mut a, &mut b] {
            side.connected.clear();
            side.failed.clear();
        }
    }
    assert!(b.came.is_empty());
}

/// Nothing is sent: that it is looked after finds out.
#[test]
fn a_peer_that_is_gone_without_a_word_is_noticed() {
    let timeout = Duration::from_millis(400);
    let Some((mut a, there, b, _)) = pair_within(timeout) else {
        return;
    };
    drop(b);
    let why = a.failure(there);
    assert!(matches!(why, ConnectionFailure::Lost(_)), "{why}");
}

/// Its provider took the call, and it ended before it looked.
#[test]
fn a_peer_that_ends_before_it_answers_is_noticed() {
    let timeout = Duration::from_millis(400);
    let Some((mut a, mut b)) = two(timeout) else {
        return;
    };
    let there = a.call(&b);
    let is_out = |side: &Side| {
        let called = side.fabric.at(there.0).expect("it lasts");
        called.queue.is_empty() && called.posted == 0
    };
    let start = Instant::now();
    while !is_out(&a) {
        a.poll();
        let _ = b.fabric.device.look(&mut { ROOM });
        assert!(start.elapsed() < WATCHDOG, "nothing goes");
    }
    drop(b);
    let why = a.failure(there);
    assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
}

#[test]
fn nobody_answers_where_nobody_is() {
    let timeout = Duration::from_millis(400);
    let Some((mut a, b)) = two(timeout) else {
        return;
    };
    let part = b.fabric.part();
    drop(b);
    let there = a.fabric.connect(&part, 2, secret(2)).expect("begun");
    let why = a.failure(there);
    assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
}

/// A peer that computes for longer than the limit is not given up.
#[test]
fn a_peer_that_does_not_look_is_waited_for() {
    let timeout = Duration::from_millis(200);
    let Some((mut a, there, mut b, _)) = pair_within(timeout) else {
        return;
    };
    let start = Instant::now();
    while start.elapsed() < 5 * timeout {
        a.poll();
        let _ = a.send(there, 1, LONGEST);
    }
    assert_eq!(a.failed, []);
    until(&mut [&mut a, &mut b], |sides| {
        !sides[1].came.is_empty() && sides[0].fabric.holding() == 0
    });
}

/// Packets on their way to a peer that does not look do not hide its end.
#[test]
fn a_stalled_peer_that_ends_is_noticed() {
    let timeout = Duration::from_millis(400);
    let Some((mut a, there, b, _)) = pair_within(timeout) else {
        return;
    };
    let start = Instant::now();
    while start.elapsed() < 3 * timeout {
        let _ = a.send(there, 1, LONGEST);
        a.poll();
    }
    assert!(a.fabric.at(there.0).expect("waited for").posted > 0);
    drop(b);
    let why = a.failure(there);
    assert!(matches!(why, ConnectionFailure::Lost(_)), "{why}");
}
