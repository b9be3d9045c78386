//! Two endpoints meet and talk.

mod side;

use core::time::Duration;
use std::io::Write;
use std::net::TcpListener;

use limic_fabric::{ConnectionFailure, Fabric, SendRefused};
use rustix::process::{Resource, getrlimit, setrlimit};
use side::{Side, address, greeting, meet, meet_after_all, met, until};

#[test]
fn a_call_is_answered_and_both_know_each_other() {
    let (mut a, mut b) = (Side::open(1), Side::open(2));
    let there = a.call(&b);
    assert_eq!(a.send(there, 1, b"x"), Err(SendRefused::Later));
    meet(&mut a, &mut b);
    assert_eq!(a.connected, [(there, 2, b"I am 2".to_vec())]);
    let (back, id, hello) = b.connected[0].clone();
    assert_eq!((id, &hello[..]), (1, &b"I am 1"[..]));
    // It is the same connection for both.
    assert_eq!(b.call(&a), back);
    a.send(there, 7, b"to b").expect("ready");
    b.send(back, 8, b"to a").expect("ready");
    until("the messages", &mut [&mut a, &mut b], |sides| {
        sides.iter().all(|side| side.came.len() == 1)
    });
    assert_eq!(b.came, [(back, 1, 7, b"to b".to_vec())]);
    assert_eq!(a.came, [(there, 1, 8, b"to a".to_vec())]);
}

/// Both have called before either looks.
#[test]
fn of_two_calls_at_once_one_stays() {
    for (first, second) in [(1, 2), (2, 1)] {
        for looks in 0..40 {
            let (mut a, mut b) = (Side::open(first), Side::open(second));
            let there = a.call(&b);
            // How far the first one is when the second one calls.
            for _ in 0..looks {
                a.progress();
            }
            let back = b.call(&a);
            until("the meeting", &mut [&mut b, &mut a], |sides| {
                sides.iter().all(|side| !side.connected.is_empty())
            });
            a.send(there, 1, b"one").expect("ready");
            b.send(back, 2, b"two").expect("ready");
            until("the messages", &mut [&mut a, &mut b], |sides| {
                sides.iter().all(|side| side.came.len() == 1)
            });
            // What is left of the other call does no harm.
            for _ in 0..300 {
                a.progress();
                b.progress();
            }
            for side in [&a, &b] {
                assert_eq!(side.connected.len(), 1, "{:?}", side.connected);
                assert_eq!(side.failed, []);
            }
        }
    }
}

/// An endpoint computes for long: its kernel takes the call.
#[test]
fn a_call_waits_for_one_that_does_not_look() {
    let timeout = Duration::from_secs(1);
    let (mut a, mut b) = (Side::with(1, timeout), Side::open(2));
    let there = a.call(&b);
    let start = std::time::Instant::now();
    while start.elapsed() < 3 * timeout {
        a.progress();
        std::thread::yield_now();
    }
    assert_eq!(a.failed, []);
    meet(&mut a, &mut b);
    assert!(a.fabric.is_connected(there));
}

/// The caller computes for longer than its call may take: the kernel connects meanwhile.
#[test]
fn a_caller_that_does_not_look_has_no_late_call() {
    let timeout = Duration::from_millis(200);
    let (mut a, mut b) = (Side::with(1, timeout), Side::open(2));
    let there = a.call(&b);
    std::thread::sleep(2 * timeout);
    // It looks at the clock first, as before a sleep.
    a.fabric.arm().expect("armed");
    until("the meeting", &mut [&mut a, &mut b], |sides| {
        assert_eq!(sides[0].failed, []);
        sides.iter().all(|side| side.connected.len() == 1)
    });
    assert!(a.fabric.is_connected(there));
}

/// So many calls are out that their news do not come all at once.
#[test]
fn a_caller_of_many_that_does_not_look_has_no_late_call() {
    const MANY: usize = 300;
    // Both ends of all connections are here.
    let mut most = getrlimit(Resource::Nofile);
    most.current = most.maximum;
    setrlimit(Resource::Nofile, most).expect("that much is allowed");
    let timeout = Duration::from_millis(500);
    let mut a = Side::with(1, timeout);
    let mut others: Vec<Side> = (2..).take(MANY).map(Side::open).collect();
    for other in &others {
        a.call(other);
    }
    std::thread::sleep(2 * timeout);
    // It looks at the clock whenever it would sleep.
    for _ in 0..MANY {
        a.fabric.arm().expect("armed");
        a.progress();
    }
    assert_eq!(a.failed, []);
    let mut sides: Vec<&mut Side> = others.iter_mut().collect();
    sides.push(&mut a);
    until("all meetings", &mut sides, |sides| {
        assert_eq!(sides[MANY].failed, []);
        sides[MANY].connected.len() == MANY
    });
}

/// The caller computes between its connection and its greeting, and the peer does not wait.
#[test]
fn a_caller_that_was_turned_away_for_its_silence_calls_again() {
    let (mut a, mut b) = (Side::open(1), Side::with(2, Duration::from_millis(200)));
    let there = a.call(&b);
    until("the end of patience", &mut [&mut b], |sides| {
        sides[0].fabric.counts().refused == 1
    });
    meet_after_all(&mut a, &mut b, there);
}

/// More than are accepted at a time, and all of them slow with their greetings.
#[test]
fn of_two_hundred_callers_none_is_lost() {
    let mut root = Side::with(1, Duration::from_secs(1));
    let mut callers: Vec<Side> = (2..202).map(Side::open).collect();
    for caller in &mut callers {
        caller.call(&root);
    }
    until("the end of patience", &mut [&mut root], |sides| {
        sides[0].fabric.counts().refused > 0
    });
    let mut sides: Vec<&mut Side> = callers.iter_mut().collect();
    sides.push(&mut root);
    until("all meetings", &mut sides, |sides| {
        assert!(sides.iter().all(|side| side.failed.is_empty()));
        let met = |side: &&mut Side| side.connected.len() == 1;
        sides[200].connected.len() == 200 && sides[..200].iter().all(met)
    });
}

/// Calling again has an end.
#[test]
fn a_call_that_is_never_answered_is_given_up() {
    let mut a = Side::with(1, Duration::from_millis(200));
    let gone = Side::open(2);
    let (part, secret) = (gone.fabric.part(), gone.secret);
    drop(gone);
    let deaf = TcpListener::bind(address(&part)).expect("a port that is free again");
    deaf.set_nonblocking(true).expect("a mode");
    let there = a.fabric.connect(&part, 2, secret);
    let mut calls = 0;
    until("the failure", &mut [&mut a], |sides| {
        calls += usize::from(deaf.accept().is_ok());
        !sides[0].failed.is_empty()
    });
    assert_eq!(Ok(a.failed[0].0), there);
    let why = &a.failed[0].1;
    assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
    assert!(calls > 1 && a.fabric.longest_sleep().is_none());
}

/// Its address is an old one: a port that is another endpoint's now.
#[test]
fn a_call_that_is_refused_is_not_made_again() {
    let (mut a, mut b) = (Side::open(1), Side::open(2));
    let there = a.fabric.connect(&b.fabric.part(), 2, b.secret ^ 1);
    until("the failure", &mut [&mut a, &mut b], |sides| {
        !sides[0].failed.is_empty()
    });
    assert_eq!(Ok(a.failed[0].0), there);
    let why = &a.failed[0].1;
    assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
    assert_eq!(b.fabric.counts().refused, 1);
}

#[test]
fn nobody_there_is_an_error() {
    let mut a = Side::open(1);
    let gone = Side::open(2);
    let (part, id, secret) = (gone.fabric.part(), gone.id, gone.secret);
    drop(gone);
    match a.fabric.connect(&part, id, secret) {
        Err(why) => assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}"),
        Ok(_) => {
            until("the failure", &mut [&mut a], |sides| {
                !sides[0].failed.is_empty()
            });
            let why = &a.failed[0].1;
            assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
        }
    }
}

/// One reads nothing for long: the other keeps little, is not told of a loss, and everything comes
/// in order afterwards.
#[test]
fn a_slow_reader_holds_its_sender_back() {
    let timeout = Duration::from_secs(1);
    let (mut a, mut b) = (Side::with(1, timeout), Side::with(2, timeout));
    let there = a.call(&b);
    meet(&mut a, &mut b);
    let mut sent = 0_u64;
    let start = std::time::Instant::now();
    let (mut refused, mut held) = (0, false);
    // The machine is alive: a loss would be wrong, however long nothing is read.
    while start.elapsed() < 4 * timeout {
        match a.send(there, sent, &sent.to_le_bytes().repeat(4000)) {
            Ok(()) => {
                sent += 1;
                held |= a.fabric.holding() > 0;
            }
            Err(SendRefused::Later) => {
                refused += 1;
                a.progress();
                std::thread::yield_now();
            }
            Err(why) => panic!("{why}"),
        }
    }
    assert!(refused > 0 && a.failed.is_empty(), "{:?}", a.failed);
    // The end of the last one that was taken waits here; but as long as more is to come, other
    // calls need not wait for that.
    assert!(held && a.fabric.holding() == 0);
    until("everything", &mut [&mut a, &mut b], |sides| {
        sides[1].came.len() as u64 == sent
    });
    assert_eq!(a.fabric.holding(), 0);
    for (number, (_, _, tag, payload)) in (0..).zip(&b.came) {
        assert_eq!((*tag, payload.len()), (number, 32_000));
        assert!(payload.chunks(8).all(|word| word == number.to_le_bytes()));
    }
}

/// Both write more than the network holds before either reads: reading goes on while writing waits.
#[test]
fn floods_both_ways_do_not_lock() {
    const COUNT: u64 = 2000;
    let (mut a, mut b, there) = met();
    let ends = [there, b.connected[0].0];
    let mut sent = [0_u64; 2];
    let payload = vec![7; 20_000];
    while [&a, &b].iter().any(|side| (side.came.len() as u64) < COUNT) {
        for (at, side) in [&mut a, &mut b].into_iter().enumerate() {
            while sent[at] < COUNT && side.send(ends[at], sent[at], &payload).is_ok() {
                sent[at] += 1;
            }
            side.progress();
        }
    }
    for side in [&a, &b] {
        let mut tags = side.came.iter().map(|(_, _, tag, _)| *tag);
        assert!(tags.by_ref().eq(0..COUNT));
    }
}

/// One peer writes all the time, faster than this side reads.
#[test]
fn a_fast_sender_does_not_keep_others_from_being_heard() {
    let mut a = Side::open(1);
    let mut fast = a.stranger();
    fast.write_all(&greeting(&a, a.secret, 9, 1))
        .expect("written");
    until("the fast one", &mut [&mut a], |sides| {
        sides[0].connected.len() == 1
    });
    let writer = std::thread::spawn(move || {
        // Records without a payload, of kind 1: they cost the reader more than the writer.
        let mut records = vec![0; 1 << 20];
        for record in records.chunks_mut(16) {
            record[4] = 1;
        }
        while fast.write_all(&records).is_ok() {}
    });
    // It has more than one read takes, always.
    until("the flood", &mut [&mut a], |sides| {
        sides[0].came.len() > 100_000
    });
    let mut b = Side::open(2);
    let there = b.call(&a);
    until("a meeting beside it", &mut [&mut a, &mut b], |sides| {
        sides[1].fabric.is_connected(there)
    });
    b.send(there, 3, b"heard").expect("ready");
    until("a message beside it", &mut [&mut a, &mut b], |sides| {
        sides[0]
            .came
            .iter()
            .any(|(.., payload)| payload == b"heard")
    });
    drop(a);
    writer.join().expect("the end of the connection");
}

#[test]
fn corked_messages_travel_together() {
    let (mut a, mut b, there) = met();
    let before = a.fabric.counts().packets;
    a.fabric.cork(there);
    for tag in 0..100 {
        a.send(there, tag, b"short").expect("ready");
    }
    assert_eq!(a.fabric.holding(), 1);
    a.fabric.uncork(there);
    assert_eq!(a.fabric.holding(), 0);
    assert_eq!(a.fabric.counts().packets, before + 1);
    until("the messages", &mut [&mut b], |sides| {
        sides[0].came.len() == 100
    });
}
