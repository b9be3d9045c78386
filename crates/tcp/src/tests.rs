//! What comes about only from inside: copies of sockets, and what the kernel refuses.

use core::time::Duration;
use std::os::fd::OwnedFd;
use std::time::Instant;

use limic_fabric::{ConnectionFailure, ConnectionId, Event, Fabric, Form, Inbox, SendRefused};

use rustix::net::{Shutdown, shutdown};

use crate::connection::Stage;
use crate::fabric::{TcpFabric, TcpSettings};

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
    let mut inbox = Inbox::new();
    loop {
        if let Some(event) = of.poll(&mut inbox) {
            return event;
        }
        beside.poll(&mut inbox);
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
    let mut inbox = Inbox::new();
    let start = Instant::now();
    let failed = loop {
        // The peer does not look: nothing of it ends the connection.
        match a.poll(&mut inbox) {
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
    connection.broken = Some("a failure".to_owned());
    (connection.input, connection.have) = (vec![7; 16], 5);
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
    assert!(a.patience().is_none(), "nothing is waited for");
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
