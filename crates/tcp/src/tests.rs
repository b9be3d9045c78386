//! What comes about only from inside: copies of sockets, and what the kernel refuses.

mod away;

use core::time::Duration;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Event, Fabric, Form, SendRefused, Stretch,
};
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::called::{MOST_FROM_ONE_ADDRESS, MOST_KNOWN, VISIT};
use crate::connection::{Connection, Known, Stage};
use crate::fabric::{TcpFabric, TcpSettings};
use crate::record::{HEADER, LONGEST};

const WATCHDOG: Duration = Duration::from_secs(60);

fn open(id: u64) -> TcpFabric {
    let settings = TcpSettings {
        interface: Some("127.0.0.1".to_owned()),
        ..TcpSettings::default()
    };
    TcpFabric::open(&settings, id, id).expect("the loopback")
}

fn call(from: &mut TcpFabric, to: &TcpFabric) -> Result<ConnectionId, ConnectionFailure> {
    from.connect(&to.part(), to.id, to.secret)
}

/// The next event of the first one.
fn next(of: &mut TcpFabric, beside: &mut TcpFabric) -> Event {
    let start = Instant::now();
    let mut arrivals = Arrivals::new();
    loop {
        if let Some(event) = of.poll(&mut arrivals) {
            return event;
        }
        beside.poll(&mut arrivals);
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
}

/// Two that are connected, by these connections.
fn pair() -> (TcpFabric, ConnectionId, TcpFabric, ConnectionId) {
    let (mut a, mut b) = (open(1), open(2));
    let there = call(&mut a, &b).expect("it listens");
    let Event::Connected {
        connection: back, ..
    } = next(&mut b, &mut a)
    else {
        panic!("not a meeting");
    };
    let came = next(&mut a, &mut b);
    assert!(matches!(came, Event::Connected { connection, .. } if connection == there));
    (a, there, b, back)
}

fn send(from: &mut TcpFabric, to: ConnectionId) -> Result<(), SendRefused> {
    let (kind, tag, len) = (1, 0, 5);
    from.send(to, Form { kind, tag, len }, &mut |room| {
        room.copy_from_slice(b"bytes");
    })
}

/// As a forked child keeps it.
fn copy(of: &mut TcpFabric, connection: ConnectionId) -> OwnedFd {
    let connection = of.connection(connection.0).expect("it is there");
    let socket = connection.socket.as_ref().expect("it is connected");
    socket.try_clone().expect("a descriptor")
}

/// The listener is one event, and more may have called than are accepted at a time.
#[test]
fn not_all_news_were_seen_while_calls_wait() {
    let mut a = open(1);
    let at = crate::place::place_of(&a.part()).expect("an address");
    let callers: Vec<_> = (0..VISIT + 1)
        .map(|_| {
            let mut caller = std::net::TcpStream::connect(at).expect("it listens");
            caller.write_all(&[0xff; 4096]).expect("room");
            caller
        })
        .collect();
    a.look_at_the_clock();
    for seen in [VISIT, VISIT + 1] {
        a.notice();
        assert_eq!(a.poll(&mut Arrivals::new()), None);
        assert_eq!(a.counts().refused, seen as u64);
        assert_eq!(a.unseen == 0, seen == callers.len());
    }
}

#[test]
fn a_copy_of_a_socket_does_not_hide_the_end_of_its_connection() {
    let (mut a, there, mut b, back) = pair();
    let copy = copy(&mut a, there);
    a.disconnect(there);
    match next(&mut b, &mut a) {
        Event::Failed { connection, why } => {
            assert_eq!(connection, back);
            assert!(matches!(why, ConnectionFailure::Lost(_)), "{why}");
        }
        event => panic!("{event:?}"),
    }
    drop(copy);
}

/// The peer is alive and sends nothing: only writing tells.
#[test]
fn a_connection_that_cannot_be_written_ends() {
    let (mut a, there, mut b, _) = pair();
    shutdown(copy(&mut a, there), Shutdown::Write).expect("connected");
    send(&mut a, there).expect("taken");
    let mut arrivals = Arrivals::new();
    let start = Instant::now();
    let failed = loop {
        // The peer does not look: nothing of it ends the connection.
        match a.poll(&mut arrivals) {
            Some(event) => break event,
            None => assert!(start.elapsed() < WATCHDOG, "nothing happens"),
        }
    };
    assert!(matches!(failed, Event::Failed { connection, .. } if connection == there));
    assert!(matches!(next(&mut b, &mut a), Event::Failed { .. }));
}

/// The peer's call takes the place of one that has failed to write.
#[test]
fn a_call_that_is_taken_has_nothing_of_the_one_before() {
    let (mut a, mut b) = (open(1), open(2));
    let there = call(&mut a, &b).expect("it listens");
    let connection = a.connection(there.0).expect("it has begun");
    connection.stage = Stage::Awaited(Instant::now() + WATCHDOG);
    connection.broken = Some(rustix::io::Errno::PIPE);
    connection.input = vec![7; 5];
    call(&mut b, &a).expect("it listens");
    assert!(matches!(next(&mut a, &mut b), Event::Connected { .. }));
    assert!(matches!(next(&mut b, &mut a), Event::Connected { .. }));
    send(&mut a, there).expect("ready");
    assert_eq!(next(&mut b, &mut a), Event::Messages);
    let back = b.known[&1].connection;
    send(&mut b, ConnectionId(back)).expect("ready");
    assert_eq!(next(&mut a, &mut b), Event::Messages);
}

#[test]
fn a_call_that_cannot_be_watched_is_a_failure_of_this_side() {
    let (mut a, b) = (open(1), open(2));
    let no_set = std::fs::File::open("/dev/null").expect("a file");
    let set = core::mem::replace(&mut a.events_set, no_set.into());
    let why = call(&mut a, &b).expect_err("nobody would read it");
    assert!(matches!(why, ConnectionFailure::Local(_)), "{why}");
    assert!(a.longest_sleep().is_none(), "nothing is waited for");
    // It is no end for good.
    a.events_set = set;
    call(&mut a, &b).expect("it listens");
}

/// The listener could not be watched for a while.
#[test]
fn calls_are_accepted_when_the_listener_can_be_watched_again() {
    let (mut a, mut b) = (open(1), open(2));
    rustix::event::epoll::delete(&b.events_set, b.listener.as_ref().expect("it listens"))
        .expect("it was there");
    let no_set = std::fs::File::open("/dev/null").expect("a file");
    let set = core::mem::replace(&mut b.events_set, no_set.into());
    b.accept_again();
    b.events_set = set;
    call(&mut a, &b).expect("it listens");
    assert!(matches!(next(&mut b, &mut a), Event::Connected { .. }));
}

/// The receiver does not read: its sender keeps what is written together, and of a long message not
/// even that.
#[expect(unsafe_code, reason = "begin is given memory")]
#[test]
fn a_connection_keeps_little_of_what_its_socket_does_not_take() {
    const LEN: usize = 8000;
    for long in [false, true] {
        let (mut a, there, _b, _) = pair();
        let (kind, tag) = (1, 0);
        loop {
            let blocked = if long {
                let data = vec![1_u8; LONGEST];
                let part = Stretch {
                    start: data.as_ptr(),
                    len: data.len(),
                };
                let len = LONGEST as u32;
                // SAFETY: the data is there during the call.
                let begun = unsafe { a.begin(there, Form { kind, tag, len }, &[], &[part]) };
                begun.expect("the one before is gone") < LONGEST
            } else {
                let len = LEN as u32;
                a.cork(there);
                for _ in 0..100 {
                    let _ = a.send(there, Form { kind, tag, len }, &mut |room| room.fill(1));
                }
                a.uncork(there);
                a.blocked > 0
            };
            if blocked {
                break;
            }
        }
        let kept = a.connection(there.0).expect("it lasts").out.len();
        let most = if long { HEADER } else { 32 << 10 };
        assert!(kept <= most, "{kept}");
    }
}

#[test]
fn a_machine_that_is_gone_is_noticed_though_nothing_is_sent() {
    let (mut a, there, _b, _) = pair();
    let socket = copy(&mut a, there);
    assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
    assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true));
    let idle = sockopt::tcp_keepidle(&socket).expect("an option");
    let between = sockopt::tcp_keepintvl(&socket).expect("an option");
    let count = sockopt::tcp_keepcnt(&socket).expect("an option");
    assert_eq!(idle + between * count, TcpSettings::default().timeout);
}

#[test]
fn a_connection_that_is_over_leaves_nothing_but_a_name() {
    let mut a = open(1);
    for attempt in 1..=3 {
        let mut b = open(2);
        call(&mut b, &a).expect("it listens");
        if attempt > 1 {
            assert!(matches!(next(&mut a, &mut b), Event::Failed { .. }));
        }
        assert!(matches!(next(&mut a, &mut b), Event::Connected { .. }));
        assert_eq!((a.connections.len(), a.known.len()), (1, 1));
        if attempt < 3 {
            // The next call of this name is a later one.
            let known = a.known.get_mut(&2).expect("it has called");
            known.heard = 0;
        }
    }
}

/// Connections that were made from an address; gives the last one.
fn made_from(fabric: &mut TcpFabric, ip: Ipv4Addr) -> u32 {
    let mut last = 0;
    for id in 0..MOST_FROM_ONE_ADDRESS as u64 {
        let mut connection = Connection::new(1000 + id, Stage::Ready, None);
        connection.from = Some(IpAddr::V4(ip));
        last = fabric.enter(connection);
    }
    last
}

/// Whether a call from 127.0.0.1 is taken, by an endpoint of this id.
fn is_taken(called: &mut TcpFabric, id: u64) -> bool {
    let mut caller = open(id);
    call(&mut caller, called).expect("it listens");
    let (refused, start) = (called.counts.refused, Instant::now());
    let mut arrivals = Arrivals::new();
    loop {
        caller.poll(&mut arrivals);
        if let Some(Event::Connected { peer, .. }) = called.poll(&mut arrivals) {
            assert_eq!(peer, id);
            return true;
        }
        if called.counts.refused > refused {
            return false;
        }
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
}

#[test]
fn one_address_has_only_so_many_connections_at_a_time() {
    let mut called = open(1);
    made_from(&mut called, Ipv4Addr::new(127, 0, 0, 9));
    assert!(is_taken(&mut called, 2), "another address has many");
    let mut called = open(1);
    let last = made_from(&mut called, Ipv4Addr::LOCALHOST);
    let told = why_not_taken(&mut called, 2);
    assert!(told.contains("4096 connections from"), "{told}");
    called.end(last);
    assert!(is_taken(&mut called, 3), "one of them is over");
}

/// As many names as may be known but one, with the connections that `connection` gives.
fn know(called: &mut TcpFabric, mut connection: impl FnMut(&mut TcpFabric) -> u32) {
    for id in 0..MOST_KNOWN as u64 - 1 {
        let connection = connection(called);
        let known = Known {
            secret: 0,
            connection,
            attempt: 0,
            heard: 0,
        };
        called.known.insert(1000 + id, known);
    }
}

#[test]
fn endpoints_invent_no_endless_row_of_names() {
    let mut called = open(1);
    let lives = called.enter(Connection::new(9, Stage::Ready, None));
    know(&mut called, |_| lives);
    assert!(is_taken(&mut called, 2), "the last name");
    called.known.get_mut(&2).expect("it is taken").connection = lives;
    let told = why_not_taken(&mut called, 3);
    assert!(told.contains("262144 endpoints"), "{told}");
}

/// The names of endpoints that are gone are for others.
#[test]
fn nobody_is_kept_out_by_those_who_are_gone() {
    let mut called = open(1);
    know(&mut called, |called| {
        let number = called.enter(Connection::new(9, Stage::Ready, None));
        if number % 1000 > 0 {
            called.end(number);
        }
        number
    });
    assert!(is_taken(&mut called, 2), "the last name");
    assert!(is_taken(&mut called, 3), "others are gone");
    let first: Vec<u64> = (1000..2002)
        .filter(|id| called.known.contains_key(id))
        .collect();
    assert_eq!(first, [1000, 2000], "those that live");
    assert!(
        called.known.contains_key(&(MOST_KNOWN as u64)),
        "a late one"
    );
}

/// Why an endpoint of this id gives up that calls from 127.0.0.1, where there is no room for it.
fn why_not_taken(called: &mut TcpFabric, id: u64) -> String {
    let mut caller = open(id);
    caller.timeout = Duration::from_millis(100);
    call(&mut caller, called).expect("it listens");
    match next(&mut caller, called) {
        Event::Failed { why, .. } => why.to_string(),
        event => panic!("{event:?}"),
    }
}
