//! Packets that no honest endpoint sends.

use std::time::Instant;

use limic_fabric::{ConnectionFailure, Fabric, Form, Network, Part};

use super::{Side, WATCHDOG, pair, patient, polls, secret, settings, until};
use crate::device::{Device, Looked, Posted, ROOM};
use crate::packet::{Greeting, HEADER, Header, Kind};

/// Somebody who knows where an endpoint is, and sends what they like.
struct Stranger {
    device: Device,
    to: u64,
}

impl Stranger {
    fn at(side: &Side) -> Self {
        let mut device = Device::open(&settings(patient())).expect("as the others");
        let part = side.fabric.part();
        let name = device.name_at(part.place()).expect("of this provider");
        let to = device.insert(&name).expect("an address");
        Self { device, to }
    }

    fn send(&mut self, bytes: &[u8], beside: &mut [&mut Side]) {
        let slot = self.device.take().expect("a packet");
        self.device.pool.bytes(slot)[..bytes.len()].copy_from_slice(bytes);
        let start = Instant::now();
        while !matches!(
            self.device.post_send(slot, bytes.len(), self.to),
            Posted::Yes
        ) {
            self.look();
            polls(beside, 1);
            assert!(start.elapsed() < WATCHDOG, "nothing goes");
        }
        self.look();
    }

    fn look(&mut self) {
        let looked = self.device.look(&mut { ROOM });
        assert!(matches!(looked, Looked::Nothing | Looked::Ended(_)));
    }
}

fn packet(kind: Kind, number: u32, token: u64, sequence: u64, more: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        number,
        token,
        sequence,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(more);
    bytes
}

#[test]
fn packets_without_the_token_are_nobodys() {
    let Some((mut a, there, mut b, back)) = pair() else {
        return;
    };
    let mut stranger = Stranger::at(&b);
    let token = b.fabric.at(back.0).expect("it lasts").token;
    let hostile = [
        vec![7],
        vec![0; HEADER],
        vec![0xff; 3000],
        packet(Kind::Data, back.0, token ^ 1, 0, &[]),
        packet(Kind::Data, back.0 + 1, token, 0, &[]),
        packet(Kind::Left, back.0, token ^ 1, 0, &[]),
        packet(Kind::Goodbye, back.0, 0, 0, &[]),
        packet(Kind::Welcome, back.0, 0, 0, &[]),
        packet(Kind::Hello, 0, secret(2), 0, &[1; 20]),
        packet(Kind::Hello, 0, 0, 0, &[0; 34]),
    ];
    for bytes in &hostile {
        stranger.send(bytes, &mut [&mut a, &mut b]);
    }
    let start = Instant::now();
    while b.fabric.counts().refused < hostile.len() as u64 {
        stranger.look();
        polls(&mut [&mut a, &mut b], 1);
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
    assert!(b.failed.is_empty() && b.came.is_empty() && b.connected.len() == 1);
    a.send(there, 3, 3).expect("ready");
    until(&mut [&mut a, &mut b], |sides| !sides[1].came.is_empty());
}

/// What an endpoint of this name and secret says when it calls the second one.
fn hello(id: u64, secret_of_caller: u64, from: &Stranger) -> Vec<u8> {
    hello_from(id, secret_of_caller, from.device.part.place())
}

fn hello_from(id: u64, secret_of_caller: u64, place: &[u8]) -> Vec<u8> {
    let greeting = Greeting {
        words: [2, id, 5, secret_of_caller],
        place: place.to_vec(),
        hello: Vec::new(),
    };
    packet(Kind::Hello, 3, secret(2), 0, &greeting.to_bytes())
}

#[test]
fn nobody_takes_the_place_of_a_peer_whose_secret_it_has_not() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    let mut stranger = Stranger::at(&b);
    let forged = hello(1, 4711, &stranger);
    stranger.send(&forged, &mut [&mut a, &mut b]);
    let start = Instant::now();
    while b.fabric.counts().refused == 0 {
        stranger.look();
        polls(&mut [&mut a, &mut b], 1);
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
    assert_eq!(b.fabric.addresses.len(), 1, "nor is its address kept");
    a.send(there, 3, 3).expect("ready");
    until(&mut [&mut a, &mut b], |sides| !sides[1].came.is_empty());
    assert!(b.failed.is_empty());
}

/// libfabric takes as many bytes of a name as its family has, which may be more than there are.
#[test]
fn a_place_of_another_family_is_never_entered() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    let mut stranger = Stranger::at(&b);
    let mut place = stranger.device.part.place().to_vec();
    let (other, ours) = (libc::AF_INET6 as u8, libc::AF_INET as u8);
    assert!([other, ours].contains(&place[1]), "a family: {place:?}");
    place[1] ^= other ^ ours;
    let forged = hello_from(9, 1, &place);
    stranger.send(&forged, &mut [&mut a, &mut b]);
    let start = Instant::now();
    while b.fabric.counts().refused == 0 {
        assert_eq!(b.fabric.addresses.len(), 1, "only the one of its peer");
        stranger.look();
        polls(&mut [&mut a, &mut b], 1);
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
    let part = Part::new(Network::Ofi, &place).expect("as long as others");
    assert!(!b.fabric.reaches(&part));
    let called = b.fabric.connect(&part, 9, 1);
    assert!(matches!(called, Err(ConnectionFailure::Local(_))));
    assert_eq!(b.fabric.addresses.len(), 1);
    a.send(there, 3, 3).expect("ready");
    until(&mut [&mut a, &mut b], |sides| !sides[1].came.is_empty());
}

/// Who has the secret and breaks the rules loses its connection, and nothing else happens.
#[test]
fn a_peer_that_breaks_the_rules_is_given_up() {
    let twice = |number, token| {
        let data = packet(Kind::Data, number, token, 0, &[]);
        vec![data.clone(), data]
    };
    let broken: [&dyn Fn(u32, u64) -> Vec<Vec<u8>>; 4] = [
        &twice,
        &|number, token| vec![packet(Kind::Data, number, token, 64, &[])],
        &|number, token| vec![packet(Kind::Data, number, token, 0, &[1; 17])],
        &|number, token| vec![packet(Kind::Welcome, number, token, 0, &[1; 17])],
    ];
    for rules in broken {
        let Some(mut side) = Side::open(2, WATCHDOG) else {
            return;
        };
        let mut stranger = Stranger::at(&side);
        let hello = hello(9, 1, &stranger);
        stranger.send(&hello, &mut [&mut side]);
        let start = Instant::now();
        while side.failed.is_empty() {
            if let Some((connection, 9, _)) = side.connected.pop() {
                let token = side.fabric.at(connection.0).expect("it lasts").token;
                for bytes in rules(connection.0, token) {
                    stranger.send(&bytes, &mut [&mut side]);
                }
            }
            stranger.look();
            polls(&mut [&mut side], 1);
            assert!(start.elapsed() < WATCHDOG, "nothing happens");
        }
        let why = &side.failed[0].1;
        assert!(matches!(why, ConnectionFailure::Corrupt(_)), "{why}");
    }
}

/// Packets that overtake each other come in order all the same.
#[test]
fn packets_that_come_early_wait_for_those_before() {
    let Some((mut a, there, mut b, back)) = pair() else {
        return;
    };
    let mut stranger = Stranger::at(&b);
    let token = b.fabric.at(back.0).expect("it lasts").token;
    let message = |tag: u64| {
        let (kind, len) = (1, 0);
        Form { kind, tag, len }.to_header()
    };
    for sequence in [2, 3, 1] {
        let bytes = packet(Kind::Data, back.0, token, sequence, &message(sequence));
        stranger.send(&bytes, &mut [&mut b]);
    }
    let start = Instant::now();
    while b.fabric.at(back.0).expect("it lasts").early.len() < 3 {
        stranger.look();
        polls(&mut [&mut b], 1);
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
    assert!(b.came.is_empty());
    // The one before them has no message.
    a.fabric.say(there.0, Kind::Data);
    while b.came.is_empty() {
        polls(&mut [&mut a, &mut b], 1);
        let waits = b.came.is_empty() && !b.fabric.deliverable.is_empty();
        assert!(!waits, "a poll that gives nothing leaves nothing");
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
    until(&mut [&mut a, &mut b], |sides| sides[1].came.len() == 3);
    let tags: Vec<u64> = b.came.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [1, 2, 3]);
}
