//! First contact: greetings that are late, come twice, or belong to an attempt that is over.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Side, on, pair, settle, two_and_one};
use crate::fabric::{ConnectionFailure, ConnectionId, FabricSettings, RemoteRange};
use crate::fake::ibv_mtu::{IBV_MTU_1024, IBV_MTU_2048};
use crate::fake::{Nature, adapters, net};
use crate::objects::Access;

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
    net(|net| net.let_all_go());
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
    net(|net| net.let_all_go());
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.connected, a.failed), (vec![second], vec![]));
    assert_eq!((b.connected, b.failed), (vec![back], vec![]));
}

/// A packet may come before the greeting of the next attempt, and the greeting that would have said
/// that the peer is ready may be lost.
#[test]
fn a_packet_of_an_attempt_that_is_over_is_nobodys() {
    for shared_receives in [0, 4096] {
        let nature = Nature {
            shared_receives,
            ..Nature::PLAIN
        };
        adapters(&[nature; 2]);
        let mut a = Side::open(1, on("fake0"));
        let mut b = Side::open(2, on("fake1"));
        let first = a.connect(&b);
        a.progress();
        b.progress();
        a.progress_unheard();
        assert_eq!(a.connected, [first]);
        a.say(first, b"of the first").expect("room");
        a.progress();
        a.fabric.disconnect(first);
        let second = a.connect(&b);
        a.progress();
        // The packet and the greeting come in one look.
        settle(&mut [&mut b, &mut a]);
        assert_eq!((&a.connected[1..], &a.failed[..]), (&[second][..], &[][..]));
        a.say(second, b"of the second").expect("room");
        settle(&mut [&mut a, &mut b]);
        let [back] = b.connected[..] else {
            panic!("{:?}", b.connected);
        };
        assert_eq!(b.from(back), [b"of the second"]);
        b.say(back, b"answer").expect("room");
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.from(second), [b"answer"]);
    }
}

/// Adapters of two speeds often have two maximum transfer units.
#[test]
fn both_ends_send_packets_that_both_take() {
    let small = Nature {
        mtu: IBV_MTU_1024,
        ..Nature::PLAIN
    };
    let larger = Nature {
        mtu: IBV_MTU_2048,
        ..Nature::PLAIN
    };
    adapters(&[larger, small]);
    let ((mut a, there), (mut b, back)) = pair(on);
    a.say(there, &[1; 4000]).expect("room");
    b.say(back, &[2; 4000]).expect("room");
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.from(there).len(), b.from(back).len()), (1, 1));
    assert!(
        net(|net| net.told())
            .iter()
            .all(|told| told.mtu == IBV_MTU_1024)
    );
}

/// With two adapters here and one there, the second stream goes from the second adapter to the
/// only one.
#[test]
fn a_key_is_that_of_the_adapter_which_a_stream_leads_to() {
    adapters(&[Nature::PLAIN; 3]);
    let ((mut a, there), (mut b, back)) = pair(two_and_one);
    read_all(&mut a, there, &mut b);
    read_all(&mut b, back, &mut a);
}

/// One reads long memory of the other, by all streams.
fn read_all(reader: &mut Side, from: ConnectionId, owner: &mut Side) {
    const LEN: usize = 40_000;
    let mut theirs: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    let mut ours = vec![0; LEN];
    let (start, into) = (theirs.as_mut_ptr(), ours.as_mut_ptr());
    // SAFETY: both outlive their registrations, and nobody looks at them before the end.
    let (offered, into) = unsafe {
        let offered = owner.fabric.register(start, LEN, Access::REMOTE_READ);
        let into = reader.fabric.register(into, LEN, Access::LOCAL);
        (offered.expect("registered"), into.expect("registered"))
    };
    let remote = RemoteRange {
        start: offered.start(),
        keys: offered.remote_keys(),
    };
    // SAFETY: as above.
    let begun = unsafe { reader.fabric.read(from, remote, &into, 0, LEN, 3) };
    begun.expect("it begins");
    settle(&mut [reader, owner]);
    assert_eq!(reader.transferred, [Ok(())]);
    drop((offered, into));
    assert!(ours == theirs);
}

/// A program that computes polls seldom, and its time runs on.
#[test]
fn an_attempt_ends_by_time_and_not_by_polls() {
    adapters(&[Nature::PLAIN]);
    let mut a = greets_nobody(impatient("fake0"));
    gives_up(&mut a, "LIMIC_VERBS_GREETING_MS");
}

/// Who was heard and given up does not count as dead when it answers.
#[test]
fn an_answer_to_an_attempt_that_ended_by_time_is_refused() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = Side::open(1, on("fake0"));
    let mut b = Side::open(2, impatient("fake1"));
    let there = a.connect(&b);
    a.progress();
    for _ in 0..10 {
        b.progress();
        wait_for_tick();
    }
    let [(_, ConnectionFailure::Unreachable(_))] = b.failed[..] else {
        panic!("{:?}", b.failed);
    };
    settle(&mut [&mut a, &mut b]);
    let [(connection, ConnectionFailure::Lost(why))] = &a.failed[..] else {
        panic!("{:?}", a.failed);
    };
    assert_eq!(*connection, there);
    assert!(why.contains("attempt"), "{why}");
}

/// The peer has another number of streams, or cannot make queue pairs.
#[test]
fn a_refusal_says_why() {
    for (streams, calls, said) in [(2, None, "LIMIC_VERBS_STREAMS"), (1, Some(0), "create_qp")] {
        adapters(&[Nature::PLAIN; 2]);
        let mut a = Side::open(1, on("fake0"));
        let settings = FabricSettings {
            streams,
            ..on("fake1")
        };
        let mut b = Side::open(2, settings);
        let there = a.connect(&b);
        net(|net| net.calls = calls);
        settle(&mut [&mut a, &mut b]);
        net(|net| net.calls = None);
        let [(connection, ConnectionFailure::Local(why))] = &a.failed[..] else {
            panic!("{:?}", a.failed);
        };
        assert_eq!(*connection, there);
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn a_way_that_is_not_there_is_named() {
    adapters(&[Nature::PLAIN]);
    let mut a = Side::open(1, impatient("fake0"));
    let mut nowhere = a.fabric.address();
    nowhere.first.port.gid.0[15] = 9;
    a.fabric.connect(&nowhere, 2, 2).expect("it begins");
    gives_up(&mut a, "ibv_create_ah");
}

/// A rank begins to send to many, and computes for longer than an attempt may take.
#[test]
fn answers_that_came_in_time_are_heard_first() {
    for arms in [false, true] {
        adapters(&[Nature::PLAIN; 2]);
        let mut hub = Side::open(1, impatient("fake0"));
        let mut peers: Vec<Side> = (0..40).map(|id| Side::open(2 + id, on("fake1"))).collect();
        for peer in &peers {
            hub.connect(peer);
        }
        peers.iter_mut().for_each(Side::progress);
        for _ in 0..3 {
            wait_for_tick();
        }
        if arms {
            hub.fabric.arm().expect("armed");
        }
        hub.progress();
        assert_eq!((hub.connected.len(), hub.failed), (40, vec![]));
    }
}

/// A packet lies there of a peer whose last greeting was lost.
#[test]
fn a_packet_that_came_in_time_is_an_answer() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = Side::open(1, on("fake0"));
    let mut b = Side::open(2, impatient("fake1"));
    let there = a.connect(&b);
    a.progress();
    b.progress();
    a.progress_unheard();
    a.say(there, b"hello").expect("room");
    a.progress();
    for _ in 0..3 {
        wait_for_tick();
    }
    settle(&mut [&mut b, &mut a]);
    let ([back], []) = (&b.connected[..], &b.failed[..]) else {
        panic!("{:?} {:?}", b.connected, b.failed);
    };
    assert_eq!(b.from(*back), [b"hello"]);
}

/// Nobody has to wake up in vain while a peer computes for minutes.
#[test]
fn a_sleep_lasts_until_the_next_greeting() {
    adapters(&[Nature::PLAIN]);
    let mut a = greets_nobody(on("fake0"));
    for _ in 0..500 {
        wait_for_tick();
        a.fabric.arm().expect("armed");
        let sleep = a.fabric.longest_sleep().expect("it greets");
        assert!(sleep <= Duration::from_millis(500), "the longest pause");
        if sleep > Duration::from_millis(100) {
            return;
        }
    }
    panic!("pauses do not get longer");
}

/// An endpoint that has begun to greet a queue pair which is not there.
pub(super) fn greets_nobody(settings: FabricSettings) -> Side {
    let mut side = Side::open(1, settings);
    let mut nobody = side.fabric.address();
    nobody.first.greeter = 99;
    side.fabric.connect(&nobody, 2, 2).expect("it begins");
    side
}

/// Its attempt has an end within some ticks, for this reason.
pub(super) fn gives_up(side: &mut Side, reason: &str) {
    for _ in 0..10 {
        wait_for_tick();
        side.progress();
    }
    let [(_, ConnectionFailure::Unreachable(why))] = &side.failed[..] else {
        panic!("{:?}", side.failed);
    };
    assert!(why.contains(reason), "{why}");
}

/// It gives attempts up that take longer than a tick.
pub(super) fn impatient(device: &str) -> FabricSettings {
    FabricSettings {
        greeting: Duration::from_millis(1),
        ..on(device)
    }
}

pub(super) fn wait_for_tick() {
    let clock = || clock_gettime(ClockId::MonotonicCoarse);
    let tick = clock();
    while clock() == tick {
        std::hint::spin_loop();
    }
}
