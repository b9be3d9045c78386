//! A network that is away, for a while or for long.

use std::net::SocketAddr;

use super::*;
use crate::place::{part_of, place_of};
use crate::sockets;

/// Calls an address to which no network leads: the kernel connects nobody with all others.
fn call_where_nothing_leads(from: &mut TcpFabric, to: &TcpFabric) -> ConnectionId {
    let nowhere: SocketAddr = "255.255.255.255:4711".parse().expect("an address");
    let part = part_of(nowhere).expect("an address of IP");
    let there = from.connect(&part, to.id, to.secret);
    there.expect("a network that is away may come back")
}

/// Polls for so long, and nothing happens.
fn nothing_happens(of: &mut TcpFabric, within: Duration) {
    let start = Instant::now();
    let mut arrivals = Arrivals::new();
    while start.elapsed() < within {
        assert_eq!(of.poll(&mut arrivals), None);
    }
}

#[test]
fn a_first_contact_waits_while_the_network_is_away() {
    let (mut a, mut b) = (open(1), open(2));
    let there = call_where_nothing_leads(&mut a, &b);
    assert_eq!(send(&mut a, there), Err(SendRefused::Later));
    nothing_happens(&mut a, Duration::from_millis(100));
    assert!(a.longest_sleep().is_some(), "a sleeper calls again");
    // The network is back.
    a.connection(there.0).expect("it has begun").at = place_of(&b.part());
    assert!(matches!(next(&mut b, &mut a), Event::Connected { .. }));
    let met = next(&mut a, &mut b);
    assert!(matches!(met, Event::Connected { connection, .. } if connection == there));
    send(&mut a, there).expect("ready");
    assert_eq!(next(&mut b, &mut a), Event::Messages);
}

#[test]
fn a_first_contact_fails_when_the_network_is_away_for_too_long() {
    let (mut a, mut b) = (open(1), open(2));
    a.timeout = Duration::from_millis(200);
    let start = Instant::now();
    let there = call_where_nothing_leads(&mut a, &b);
    match next(&mut a, &mut b) {
        Event::Failed { connection, why } => {
            assert_eq!(connection, there);
            assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
        }
        event => panic!("{event:?}"),
    }
    assert!(start.elapsed() >= a.timeout, "that was early");
    assert!(a.longest_sleep().is_none(), "nothing is waited for");
}

/// The network is back before a caller looks that computes for long: it is asked once more.
#[test]
fn a_caller_that_computes_while_the_network_is_away_calls_once_more() {
    let (mut a, mut b) = (open(1), open(2));
    a.timeout = Duration::from_millis(100);
    let there = call_where_nothing_leads(&mut a, &b);
    std::thread::sleep(3 * a.timeout);
    a.connection(there.0).expect("it has begun").at = place_of(&b.part());
    // A sleeper's limits are judged when all news of the time before were seen.
    a.arm().expect("armed");
    assert_eq!(a.poll(&mut Arrivals::new()), None);
    a.arm().expect("armed");
    let stage = &a.connection(there.0).expect("it has begun").stage;
    assert!(matches!(stage, Stage::Calling(_)), "{stage:?}");
    assert!(matches!(next(&mut b, &mut a), Event::Connected { .. }));
    assert!(matches!(next(&mut a, &mut b), Event::Connected { .. }));
}

/// The kernel gives a connection up while this side writes: that is no death of the peer, which may
/// live behind a network that is away.
#[test]
fn what_the_kernel_gives_up_at_a_send_is_no_death() {
    let (mut a, there, _b, _) = pair();
    let start = Instant::now();
    // The peer reads nothing.
    let (kind, tag, len) = (1, 0, 30_000);
    while a.blocked == 0 {
        let _ = a.send(there, Form { kind, tag, len }, &mut |room| room.fill(1));
        assert!(start.elapsed() < WATCHDOG, "its socket takes everything");
    }
    // The kernel asks it in vain for room.
    let socket = copy(&mut a, there);
    sockopt::set_tcp_user_timeout(&socket, 100).expect("an option");
    let mut arrivals = Arrivals::new();
    let event = loop {
        match a.poll(&mut arrivals) {
            Some(event) => break event,
            None => assert!(start.elapsed() < WATCHDOG, "nothing happens"),
        }
    };
    match event {
        Event::Failed { connection, why } => {
            assert_eq!(connection, there);
            assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
        }
        event => panic!("{event:?}"),
    }
}

/// A peer that takes nothing is asked for room, and so is a machine that is gone meanwhile.
#[test]
fn the_kernel_asks_often_enough_to_notice_a_machine_that_is_gone() {
    let (mut a, there, mut b, back) = pair();
    for (timeout, longest) in [(1, 1000), (30, 7500), (3600, 120_000)] {
        for socket in [copy(&mut a, there), copy(&mut b, back)] {
            let Some(before) = sockets::longest_pause(&socket) else {
                println!("skipped: this kernel has no limit of its pauses");
                return;
            };
            assert_eq!(before, 7500, "of a timeout of 30 s");
            sockets::prepare(&socket, Duration::from_secs(timeout)).expect("options");
            assert_eq!(sockets::longest_pause(&socket), Some(longest));
            sockets::prepare(&socket, a.timeout).expect("options");
        }
    }
}
