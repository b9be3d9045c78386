//! Whoever calls is a stranger until it has shown the secret, and a peer's bytes are input.

mod side;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use limic_fabric::{ConnectionFailure, Fabric};
use side::{Side, greeting, met, until};

/// Waits until the other end has closed the connection.
fn is_closed(stream: &mut TcpStream, side: &mut Side) -> bool {
    stream.set_nonblocking(true).expect("a mode");
    let mut closed = false;
    until("the end of a connection", &mut [side], |_| {
        let mut bytes = [0; 256];
        match stream.read(&mut bytes) {
            Ok(0) => closed = true,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => closed = true,
            _ => {}
        }
        closed
    });
    closed
}

/// Two honest endpoints beside the attacks are not disturbed.
fn still_works(a: &mut Side) {
    let (before, came) = (a.connected.len(), a.came.len());
    let mut b = Side::open(1000 + before as u64);
    let there = b.call(a);
    until("an honest meeting", &mut [&mut b, a], |sides| {
        sides[1].connected.len() == before + 1 && sides[0].connected.len() == 1
    });
    b.send(there, 3, b"honest").expect("ready");
    until("an honest message", &mut [&mut b, a], |sides| {
        sides[1].came.len() == came + 1
    });
}

#[test]
fn garbage_in_place_of_a_greeting_is_closed_and_counted() {
    let mut a = Side::open(1);
    let good = greeting(&a, a.secret, 9, 1);
    let mut other_version = good.clone();
    other_version[5] = 9;
    let mut long_hello = good.clone();
    long_hello[44..46].copy_from_slice(&u16::MAX.to_le_bytes());
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 4096],
        &other_version,
        &long_hello,
    ];
    for (number, bytes) in (1..).zip(garbage) {
        let mut stranger = a.stranger();
        stranger.write_all(bytes).expect("written");
        assert!(is_closed(&mut stranger, &mut a));
        assert_eq!(a.fabric.counts().refused, number);
    }
    assert!(a.connected.is_empty());
    still_works(&mut a);
}

#[test]
fn nobody_is_let_in_without_the_secret() {
    let mut a = Side::open(1);
    let mut for_another = greeting(&a, a.secret, 9, 1);
    for_another[8] ^= 1;
    for bytes in [
        greeting(&a, a.secret ^ 1, 9, 1),
        greeting(&a, 0, 9, 1),
        for_another,
        // It calls itself by this endpoint's own name.
        greeting(&a, a.secret, 1, 1),
    ] {
        let mut stranger = a.stranger();
        stranger.write_all(&bytes).expect("written");
        assert!(is_closed(&mut stranger, &mut a));
    }
    assert_eq!((a.fabric.counts().refused, a.connected.len()), (4, 0));
    still_works(&mut a);
}

/// A process that has the secret of one endpoint cannot take the connections of others with it.
#[test]
fn nobody_takes_the_place_of_a_peer_whose_secret_it_has_not() {
    let (mut a, mut b, there) = met();
    let mut third = b.stranger();
    third
        .write_all(&greeting(&b, b.secret, 1, 7))
        .expect("written");
    assert!(is_closed(&mut third, &mut b));
    a.send(there, 4, b"as before").expect("ready");
    until("the message", &mut [&mut a, &mut b], |sides| {
        sides[1].came.len() == 1
    });
    assert_eq!((b.failed.len(), b.connected.len()), (0, 1));
}

/// A record with these first bytes, from a peer that was let in.
fn sent_by_a_peer(bytes: &[u8]) -> ConnectionFailure {
    let mut a = Side::open(1);
    let mut b = Side::open(2);
    let honest = b.call(&a);
    let mut peer = a.stranger();
    peer.write_all(&greeting(&a, a.secret, 9, 1))
        .expect("written");
    until("the meetings", &mut [&mut a, &mut b], |sides| {
        sides[0].connected.len() == 2
    });
    let (bad, ..) = *a
        .connected
        .iter()
        .find(|(_, id, _)| *id == 9)
        .expect("let in");
    // One that makes sense goes before.
    let mut good = [0; 16 + 4];
    good[0] = 4;
    good[4] = 1;
    peer.write_all(&good).expect("written");
    peer.write_all(bytes).expect("written");
    until("the failure", &mut [&mut a, &mut b], |sides| {
        !sides[0].failed.is_empty()
    });
    assert_eq!(a.came.len(), 1);
    b.send(honest, 5, b"as before").expect("ready");
    until("the message", &mut [&mut a, &mut b], |sides| {
        sides[0].came.len() == 2
    });
    assert_eq!(a.failed.len(), 1);
    assert_eq!(a.failed[0].0, bad);
    a.failed[0].1.clone()
}

#[test]
fn records_that_make_no_sense_end_that_connection_alone() {
    let mut too_long = [0; 16];
    too_long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut unknown = [0; 16];
    unknown[4] = 0xff;
    let mut reserved = [0; 16];
    reserved[6] = 1;
    for bytes in [too_long, unknown, reserved] {
        let why = sent_by_a_peer(&bytes);
        assert!(matches!(why, ConnectionFailure::Corrupt(_)), "{why}");
    }
}

/// A record without its end takes nobody's time, and goes with its connection.
#[test]
fn a_truncated_record_holds_nobody_up() {
    let mut a = Side::open(1);
    let mut peer = a.stranger();
    peer.write_all(&greeting(&a, a.secret, 9, 1))
        .expect("written");
    until("the meeting", &mut [&mut a], |sides| {
        sides[0].connected.len() == 1
    });
    let mut head = [0; 16];
    head[..4].copy_from_slice(&60_000_u32.to_le_bytes());
    head[4] = 1;
    peer.write_all(&head).expect("written");
    peer.write_all(&[1; 30_000]).expect("written");
    still_works(&mut a);
    assert_eq!((a.came.len(), a.failed.len()), (1, 0));
    drop(peer);
    until("the end", &mut [&mut a], |sides| {
        let lost = |(_, why): &(_, ConnectionFailure)| matches!(why, ConnectionFailure::Lost(_));
        sides[0].failed.iter().filter(|failed| lost(failed)).count() == 2
    });
    assert_eq!(a.came.len(), 1, "no part of it was delivered");
}

/// More strangers than are kept waiting: they go one after the other, and who says a greeting is
/// let in.
#[test]
fn a_flood_of_silent_connections_is_bounded() {
    let mut a = Side::with(1, Duration::from_secs(1));
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        silent.push(a.stranger());
        a.progress();
    }
    until("the first one turned away", &mut [&mut a], |sides| {
        sides[0].fabric.counts().refused > 0
    });
    assert!(a.fabric.longest_sleep().is_some(), "others wait");
    still_works(&mut a);
    until("the last one turned away", &mut [&mut a], |sides| {
        sides[0].fabric.counts().refused == 300
    });
    for stranger in &mut silent {
        assert!(is_closed(stranger, &mut a));
    }
    assert!(a.fabric.longest_sleep().is_none());
}

/// The beginning of a greeting, byte by byte, is as good as all at once.
#[test]
fn a_greeting_may_come_in_pieces() {
    let mut a = Side::open(1);
    let mut peer = a.stranger();
    peer.set_nodelay(true).expect("a mode");
    for byte in greeting(&a, a.secret, 9, 1) {
        assert!(a.connected.is_empty());
        peer.write_all(&[byte]).expect("written");
        a.progress();
    }
    until("the meeting", &mut [&mut a], |sides| {
        sides[0].connected.len() == 1
    });
}
