//! Reads of what a peer has offered.

use core::time::Duration;
use std::time::Instant;

use limic_fabric::{ConnectionFailure, ConnectionId, Fabric, RemoteRange};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Side, WATCHDOG, meet, pair, pair_within, polls, until};

const LEN: usize = 3 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

impl Side {
    fn offer(&mut self, token: u64, bytes: &[u8]) -> RemoteRange {
        // SAFETY: tests withdraw it, or end the endpoint, before the bytes go.
        #[expect(unsafe_code, reason = "what is tested")]
        let offered = unsafe { self.fabric.offer(token, bytes.as_ptr(), bytes.len()) };
        offered.expect("memory of a provider with reads")
    }

    fn read_into(&mut self, from: ConnectionId, remote: RemoteRange, into: &mut [u8], token: u64) {
        let (start, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: tests keep the room until the read has ended, or the endpoint.
        #[expect(unsafe_code, reason = "what is tested")]
        let begun = unsafe { self.fabric.read(from, remote, start, len, token) };
        begun.expect("a connection");
    }
}

#[test]
fn what_is_offered_is_read_in_parts_and_several_at_once() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    assert!(a.fabric.limits(there).has_reads);
    a.fabric.longest_read = 1 << 20;
    let bytes = pattern(LEN + 5);
    let remote = b.offer(7, &bytes);
    assert_ne!(remote.keys, 0);
    assert_eq!(b.offer(7, &bytes), remote, "once under one token");
    let mut rooms = vec![vec![0_u8; bytes.len()]; 6];
    for (token, room) in (0..).zip(&mut rooms) {
        a.read_into(there, remote, room, token);
    }
    until(&mut [&mut a, &mut b], |sides| sides[0].read.len() == 6);
    assert!(rooms.iter().all(|room| *room == bytes));
    assert!(a.read.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(a.fabric.counts().parts, 24);
    // Only as much as there is room for.
    let mut few = vec![0_u8; 100];
    a.read_into(there, remote, &mut few, 9);
    a.read_into(there, remote, &mut [], 10);
    until(&mut [&mut a, &mut b], |sides| sides[0].read.len() == 8);
    assert_eq!(few, bytes[..100]);
    b.fabric.withdraw(7);
    b.fabric.withdraw(7);
}

/// A key of nobody, and one that was withdrawn, do no harm: the read fails, or its connection, and
/// the room stays as it was.
#[test]
fn a_key_that_is_none_reads_nothing() {
    for withdrawn in [false, true] {
        let Some((mut a, there, mut b, _)) = pair() else {
            return;
        };
        let bytes = pattern(LEN);
        let mut remote = b.offer(1, &bytes);
        if withdrawn {
            b.fabric.withdraw(1);
        } else {
            remote.keys ^= 0x1234_5678;
        }
        let mut room = vec![7_u8; LEN];
        a.read_into(there, remote, &mut room, 1);
        until(&mut [&mut a, &mut b], |sides| {
            !sides[0].failed.is_empty() || !sides[0].read.is_empty()
        });
        assert!(a.read.iter().all(|(_, result)| result.is_err()));
        assert!(room.iter().all(|byte| *byte == 7));
        // Both go on: with each other, after they have met again if they have to.
        let start = Instant::now();
        while !a.failed.is_empty() {
            let there = a.call(&b);
            a.failed.clear();
            polls(&mut [&mut a, &mut b], 100);
            if a.fabric.is_connected(there) {
                break;
            }
            assert!(start.elapsed() < WATCHDOG, "nothing happens");
        }
    }
}

/// The event that tells of the end of a connection comes after that of its reads.
#[test]
fn a_peer_that_ends_in_mid_read_leaves_the_room_alone() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    let bytes = pattern(LEN);
    let remote = b.offer(1, &bytes);
    let mut room = vec![0_u8; LEN];
    for token in 0..9 {
        a.read_into(there, remote, &mut room, token);
    }
    polls(&mut [&mut a], 10);
    assert!(a.fabric.reads.posted() > 0);
    drop(b);
    assert!(matches!(a.failure(there), ConnectionFailure::Lost(_)));
    assert_eq!(a.fabric.reads.posted(), 0);
    assert!(!a.fabric.reads.are_waiting() && a.fabric.ending.is_empty());
    // The endpoint lives, and meets others.
    let Some(mut c) = Side::open(3, super::patient()) else {
        return;
    };
    let there = a.call(&c);
    until(&mut [&mut a, &mut c], |sides| {
        sides[0].fabric.is_connected(there) && sides[1].connected.len() == 1
    });
}

/// A connection with a peer that does not look is ended: its reads are over at once, if at the cost
/// of the endpoint. Other networks serve then, and who waits for them sleeps.
#[test]
fn reads_that_are_given_up_touch_nothing() {
    let Some((mut a, there, mut b, back)) = pair() else {
        return;
    };
    let bytes = pattern(LEN);
    let remote = b.offer(1, &bytes);
    // One that has come, and was not looked at.
    b.send(back, 1, 1).expect("ready");
    let start = Instant::now();
    while a.fabric.ended.is_empty() {
        a.fabric.look();
        assert!(start.elapsed() < WATCHDOG, "nothing comes");
    }
    let descriptors = a.fabric.wake_fds().into_iter();
    let descriptors: Vec<_> = descriptors.map(|one| one.try_clone_to_owned()).collect();
    let mut room = vec![0_u8; LEN];
    a.read_into(there, remote, &mut room, 1);
    (0..10).for_each(|_| a.fabric.look());
    assert!(a.fabric.reads.posted() > 0);
    a.fabric.disconnect(there);
    assert_eq!(a.fabric.reads.posted(), 0);
    room.fill(9);
    polls(&mut [&mut a, &mut b], 1000);
    assert!(room.iter().all(|byte| *byte == 9));
    assert!(a.read.is_empty());
    assert!(!a.fabric.reaches(&b.fabric.part()), "nobody any more");
    a.fabric.arm().expect("nothing is in the way");
    assert_eq!(a.fabric.longest_sleep(), None);
    // Whoever sleeps on a copy of its descriptor is not woken by what nobody looks at.
    for descriptor in descriptors {
        let descriptor = descriptor.expect("a copy");
        let mut waits = [PollFd::new(&descriptor, PollFlags::IN)];
        assert_eq!(poll(&mut waits, Some(&Timespec::default())), Ok(0));
    }
}

/// An endpoint that goes in mid-read leaves the room alone, which is the caller's again.
#[test]
fn an_endpoint_that_goes_has_no_reads() {
    let Some((mut a, there, mut b, _)) = pair() else {
        return;
    };
    let bytes = pattern(LEN);
    let remote = b.offer(1, &bytes);
    let mut room = vec![0_u8; LEN];
    a.read_into(there, remote, &mut room, 1);
    polls(&mut [&mut a], 10);
    assert!(a.fabric.reads.posted() > 0);
    drop(a);
    room.fill(9);
    polls(&mut [&mut b], 1000);
    assert!(room.iter().all(|byte| *byte == 9));
}

/// Who does not look is waited for, and its reads do not keep others from theirs.
#[test]
fn reads_of_a_peer_that_computes_wait_and_others_go_on() {
    let Some((mut a, there, mut b, _)) = pair_within(Duration::from_secs(1)) else {
        return;
    };
    let Some(mut c) = Side::open(3, super::patient()) else {
        return;
    };
    let bytes = pattern(LEN);
    let (of_b, of_c) = (b.offer(1, &bytes), c.offer(1, &bytes));
    let mut rooms = vec![vec![0_u8; LEN]; 20];
    for (token, room) in (0..).zip(&mut rooms) {
        a.read_into(there, of_b, room, token);
    }
    let other = a.call(&c);
    a.connected.clear();
    meet(&mut a, &mut c);
    let mut room = vec![0_u8; LEN];
    a.read_into(other, of_c, &mut room, 100);
    until(&mut [&mut a, &mut c], |sides| !sides[0].read.is_empty());
    assert_eq!((a.read[0].0, room == bytes), (100, true));
    // Longer than the time after which an unreachable peer counts as lost.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        polls(&mut [&mut a, &mut c], 10);
    }
    assert!(a.failed.is_empty(), "{:?}", a.failed);
    until(&mut [&mut a, &mut b, &mut c], |sides| {
        sides[0].read.len() == 21
    });
    assert!(rooms.iter().all(|room| *room == bytes));
    assert!(start.elapsed() < WATCHDOG);
}
