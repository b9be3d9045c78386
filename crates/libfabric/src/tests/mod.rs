//! Endpoints over libfabric's TCP, which is there wherever libfabric is.

mod hostile;
mod reads;
mod silent;

use core::time::Duration;
use std::time::Instant;

use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Event, Fabric, Form, SendRefused, TransferError,
};

use crate::fabric::OfiFabric;
use crate::packet::LONGEST;
use crate::settings::{OfiError, OfiSettings};

const WATCHDOG: Duration = Duration::from_secs(60);

/// An endpoint, and what came there.
struct Side {
    fabric: OfiFabric,
    arrivals: Arrivals,
    connected: Vec<(ConnectionId, u64, Vec<u8>)>,
    failed: Vec<(ConnectionId, ConnectionFailure)>,
    /// Tag and payload.
    came: Vec<(u64, Vec<u8>)>,
    /// Token and end of a read.
    read: Vec<(u64, Result<(), TransferError>)>,
}

impl Side {
    /// `None`: this machine has no libfabric.
    fn open(id: u64, timeout: Duration) -> Option<Self> {
        match OfiFabric::open(&settings(timeout), id, secret(id)) {
            Ok(mut fabric) => {
                fabric.set_hello(format!("I am {id}").into_bytes());
                Some(Self {
                    fabric,
                    arrivals: Arrivals::new(),
                    connected: Vec::new(),
                    failed: Vec::new(),
                    came: Vec::new(),
                    read: Vec::new(),
                })
            }
            Err(why) => {
                println!("SKIPPED: {why}");
                None
            }
        }
    }

    fn call(&mut self, to: &Self) -> ConnectionId {
        self.call_with(to, to.fabric.secret)
    }

    fn call_with(&mut self, to: &Self, secret: u64) -> ConnectionId {
        let part = to.fabric.part();
        let called = self.fabric.connect(&part, to.fabric.id, secret);
        called.expect("an address of this provider")
    }

    fn poll(&mut self) {
        match self.fabric.poll(&mut self.arrivals) {
            Some(Event::Connected {
                connection,
                peer,
                hello,
            }) => self.connected.push((connection, peer, hello)),
            Some(Event::Failed { connection, why }) => self.failed.push((connection, why)),
            Some(Event::Messages) => {
                let messages = self.arrivals.messages();
                self.came
                    .extend(messages.map(|(form, bytes)| (form.tag, bytes.to_vec())));
            }
            Some(Event::Transferred { token, result }) => self.read.push((token, result)),
            _ => {}
        }
    }

    /// Polls until its connection has failed: why.
    fn failure(&mut self, connection: ConnectionId) -> ConnectionFailure {
        until(&mut [self], |sides| !sides[0].failed.is_empty());
        let (failed, why) = &self.failed[0];
        assert_eq!(*failed, connection);
        why.clone()
    }

    fn send(&mut self, to: ConnectionId, tag: u64, len: usize) -> Result<(), SendRefused> {
        let (kind, len) = (1, len as u32);
        let fill = &mut |room: &mut [u8]| room.fill(tag as u8);
        self.fabric.send(to, Form { kind, tag, len }, fill)
    }
}

fn settings(timeout: Duration) -> OfiSettings {
    OfiSettings {
        provider: Some("tcp".to_owned()),
        reads: Some(true),
        timeout,
        ..OfiSettings::default()
    }
}

fn secret(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn patient() -> Duration {
    OfiSettings::default().timeout
}

fn two(timeout: Duration) -> Option<(Side, Side)> {
    Some((Side::open(1, timeout)?, Side::open(2, timeout)?))
}

/// Two that are connected, by these connections.
fn pair() -> Option<(Side, ConnectionId, Side, ConnectionId)> {
    pair_within(patient())
}

fn pair_within(timeout: Duration) -> Option<(Side, ConnectionId, Side, ConnectionId)> {
    let (mut a, mut b) = two(timeout)?;
    let there = a.call(&b);
    meet(&mut a, &mut b);
    let back = b.connected[0].0;
    Some((a, there, b, back))
}

/// Until each has a peer.
fn meet(a: &mut Side, b: &mut Side) {
    until(&mut [a, b], |sides| {
        sides.iter().all(|side| !side.connected.is_empty())
    });
}

fn until(sides: &mut [&mut Side], is_so: impl Fn(&[&mut Side]) -> bool) {
    let start = Instant::now();
    while !is_so(sides) {
        for side in &mut *sides {
            side.poll();
        }
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
}

fn polls(sides: &mut [&mut Side], count: u32) {
    for _ in 0..count {
        for side in &mut *sides {
            side.poll();
        }
    }
}

#[test]
fn who_shows_the_secret_is_let_in_and_both_learn_of_each_other() {
    let Some((a, there, mut b, back)) = pair() else {
        return;
    };
    assert_eq!(a.connected, [(there, 2, b"I am 2".to_vec())]);
    assert_eq!(b.connected, [(back, 1, b"I am 1".to_vec())]);
    assert!(a.fabric.is_connected(there) && b.fabric.is_connected(back));
    assert_eq!(b.call(&a), back, "the connection that there is");
}

#[test]
fn who_has_not_the_secret_is_turned_away() {
    let Some((mut a, mut b)) = two(patient()) else {
        return;
    };
    let there = a.call_with(&b, 4711);
    until(&mut [&mut a, &mut b], |sides| {
        sides[1].fabric.counts().refused > 0
    });
    polls(&mut [&mut a, &mut b], 100);
    assert!(b.connected.is_empty() && !a.fabric.is_connected(there));
}

#[test]
fn two_that_call_at_once_have_one_connection() {
    let Some((mut a, mut b)) = two(patient()) else {
        return;
    };
    let (there, back) = (a.call(&b), b.call(&a));
    meet(&mut a, &mut b);
    a.send(there, 1, 5).expect("ready");
    b.send(back, 2, 5).expect("ready");
    until(&mut [&mut a, &mut b], |sides| {
        sides.iter().all(|side| !side.came.is_empty())
    });
    polls(&mut [&mut a, &mut b], 100);
    assert_eq!((a.connected.len(), b.connected.len()), (1, 1));
    assert!(a.failed.is_empty() && b.failed.is_empty());
}

/// Messages of all lengths, both ways at once, some of them corked.
#[test]
fn messages_come_whole_and_in_order() {
    const COUNT: u64 = 3000;
    let Some((mut a, there, mut b, back)) = pair() else {
        return;
    };
    let len = |tag: u64| [tag as usize % 900, LONGEST, 0, 7000][tag as usize % 4];
    let (mut to_a, mut to_b) = (0, 0);
    let start = Instant::now();
    while a.came.len() < COUNT as usize || b.came.len() < COUNT as usize {
        for (side, to, next) in [(&mut a, there, &mut to_b), (&mut b, back, &mut to_a)] {
            side.fabric.cork(to);
            while *next < COUNT && side.send(to, *next, len(*next)).is_ok() {
                *next += 1;
            }
            side.fabric.uncork(to);
            side.poll();
        }
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
    }
    for side in [&a, &b] {
        for (expected, (tag, bytes)) in (0..).zip(&side.came) {
            assert_eq!(*tag, expected);
            assert_eq!(bytes.len(), len(expected));
            assert!(bytes.iter().all(|byte| *byte == expected as u8));
        }
        let counts = side.fabric.counts();
        assert!(counts.packets < counts.messages, "{counts:?}");
    }
}

#[test]
fn a_message_that_no_packet_holds_is_refused() {
    let Some((mut a, there, _b, _)) = pair() else {
        return;
    };
    let refused = a.send(there, 0, LONGEST + 1);
    assert!(matches!(refused, Err(SendRefused::TooLong { .. })));
    let nobody = a.send(ConnectionId(77), 0, 1);
    assert_eq!(nobody, Err(SendRefused::Failed));
}

/// Whoever waits for messages to go does not wait for a peer that was given time.
#[test]
fn messages_that_wait_are_counted_until_they_are_gone() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    a.fabric.cork(there);
    a.send(there, 1, 10).expect("ready");
    assert_eq!(a.fabric.holding(), 1);
    a.fabric.gave_time();
    assert_eq!(a.fabric.holding(), 0);
    a.fabric.uncork(there);
    until(&mut [&mut a, &mut b], |sides| !sides[1].came.is_empty());
    until(&mut [&mut a, &mut b], |sides| {
        sides[0].fabric.holding() == 0
    });
    a.send(there, 2, 10).expect("ready");
    until(&mut [&mut a, &mut b], |sides| {
        sides[0].fabric.holding() == 0
    });
}

#[test]
fn what_was_sent_arrives_before_the_goodbye() {
    let Some((mut a, there, mut b, back)) = pair() else {
        return;
    };
    for tag in 0..3 {
        a.send(there, tag, LONGEST).expect("its share");
    }
    let closing = std::thread::spawn(move || a.fabric.close(WATCHDOG));
    until(&mut [&mut b], |sides| !sides[0].failed.is_empty());
    closing.join().expect("closed");
    assert_eq!(b.came.len(), 3);
    assert_eq!(b.failed, [(back, ConnectionFailure::Closed)]);
    assert_eq!(b.send(back, 0, 1), Err(SendRefused::Failed));
}

#[test]
fn a_connection_that_is_ended_fails_at_the_other_side() {
    let Some((mut a, there, mut b, back)) = pair() else {
        return;
    };
    a.fabric.disconnect(there);
    until(&mut [&mut a, &mut b], |sides| !sides[1].failed.is_empty());
    assert!(matches!(&b.failed[..], [(at, ConnectionFailure::Lost(_))] if *at == back));
    assert!(a.failed.is_empty(), "nothing tells of it here");
    // It is no end for good.
    let there = a.call(&b);
    until(&mut [&mut a, &mut b], |sides| {
        sides.iter().all(|side| side.connected.len() == 2)
    });
    a.send(there, 1, 1).expect("ready");
    until(&mut [&mut a, &mut b], |sides| !sides[1].came.is_empty());
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let open = |provider: &str| {
        let settings = OfiSettings {
            provider: Some(provider.to_owned()),
            ..OfiSettings::default()
        };
        let why = OfiFabric::open(&settings, 1, 1).expect_err("no such provider");
        assert!(matches!(why, OfiError::Nothing(_)), "{why}");
        why.to_string()
    };
    assert!(open("none").contains("libfabric"));
    assert!(open("limic").contains("libfabric"), "it never finds itself");
}

/// A provider whose queue has no descriptor is looked at now and then: nothing asks it for sleep.
#[test]
fn who_has_no_descriptor_sleeps_for_short() {
    let settings = OfiSettings {
        provider: Some("shm".to_owned()),
        ..OfiSettings::default()
    };
    let mut fabric = match OfiFabric::open(&settings, 1, 1) {
        Ok(fabric) => fabric,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    if !fabric.wake_fds().is_empty() {
        return println!("SKIPPED: this shm of libfabric has a descriptor");
    }
    fabric.arm().expect("nothing is in the way");
    assert_eq!(fabric.longest_sleep(), Some(Duration::from_millis(1)));
}

/// libfabric reads `FI_PROVIDER` once for a process, so another one is started with it.
#[test]
fn a_filter_that_puts_an_mpi_on_limic_hides_no_provider_from_limic() {
    let Some(side) = Side::open(1, patient()) else {
        return;
    };
    let provider = side.fabric.device.info.provider();
    if provider.contains(';') {
        return println!("SKIPPED: {provider} has a layer, which does not open what is hidden");
    }
    let this = std::env::current_exe().expect("a path");
    let name = "tests::who_shows_the_secret_is_let_in_and_both_learn_of_each_other";
    let mut other = std::process::Command::new(this);
    other.args(["--exact", name, "--nocapture"]);
    let output = other
        .env("FI_PROVIDER", "limic")
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert!(!text.contains("SKIPPED"), "{text}");
}
