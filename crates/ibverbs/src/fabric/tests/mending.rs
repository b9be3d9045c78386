//! Streams that break are made anew, and what they had goes on.

use core::time::Duration;
use std::sync::Arc;

use super::contact::wait_for_tick;
use super::{Side, on, pair, settle, two_streams};
use crate::fabric::{
    ConnectionFailure, ConnectionId, FabricSettings, RemoteRange, Spread, TransferError,
};
use crate::fake::{Nature, adapters, net};
use crate::objects::Access;

/// Ticks in which what is repeated by the clock has happened.
const TICKS: usize = 1000;

/// Settles until this holds of them.
pub(super) fn settle_until(
    sides: &mut [&mut Side],
    what: &str,
    mut holds: impl FnMut(&[&mut Side]) -> bool,
) {
    for _ in 0..TICKS {
        settle(sides);
        if holds(sides) {
            return;
        }
        wait_for_tick();
    }
    panic!("{what}: never");
}

/// Memory with a registration.
pub(super) struct Memory {
    // The registration before its memory.
    spread: Arc<Spread>,
    pub(super) bytes: Vec<u8>,
}

impl Memory {
    pub(super) fn of(side: &Side, mut bytes: Vec<u8>) -> Self {
        let access = Access::LOCAL | Access::REMOTE_READ;
        // SAFETY: the bytes stay where they are until after their registration, and nobody looks
        // at them while they are read or written.
        let spread = unsafe {
            side.fabric
                .register(bytes.as_mut_ptr(), bytes.len(), access)
        };
        Self {
            spread: spread.expect("registered"),
            bytes,
        }
    }

    /// As the layer above registers it.
    pub(super) fn anew(side: &mut Side, mut bytes: Vec<u8>) -> Self {
        let access = Access::LOCAL | Access::REMOTE_READ;
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: as above.
        let spread = unsafe { side.fabric.register_again(start, len, access) };
        Self {
            spread: spread.expect("registered"),
            bytes,
        }
    }

    pub(super) fn remote(&self) -> RemoteRange {
        RemoteRange {
            start: self.spread.start(),
            keys: self.spread.remote_keys(),
        }
    }
}

/// Memory that no peer has given.
const NOBODYS: RemoteRange = RemoteRange {
    start: 4096,
    keys: u64::MAX,
};

pub(super) fn read(side: &mut Side, from: ConnectionId, remote: RemoteRange, into: &Memory) {
    let len = into.bytes.len();
    // SAFETY: the memory is left alone until the event.
    let begun = unsafe { side.fabric.read(from, remote, &into.spread, 0, len, 3) };
    begun.expect("it begins");
}

/// Both say something, and both hear it.
pub(super) fn both_talk(
    (a, there): (&mut Side, ConnectionId),
    (b, back): (&mut Side, ConnectionId),
    word: &[u8],
) {
    for (side, to) in [(&mut *a, there), (&mut *b, back)] {
        side.say(to, word).expect("room");
    }
    settle(&mut [&mut *a, &mut *b]);
    assert_eq!(a.from(there).last(), Some(&word));
    assert_eq!(b.from(back).last(), Some(&word));
}

/// With one stream and with two, a read that is refused is an error of its own, and of nothing
/// else.
#[test]
fn a_refused_read_ends_no_connection() {
    for (streams, cleans) in [(1, false), (1, true), (2, false), (2, true)] {
        let nature = Nature {
            cleans,
            lags: cleans,
            shared_receives: if cleans { 0 } else { 4096 },
            ..Nature::PLAIN
        };
        adapters(&[nature; 2]);
        let ((mut a, there), (mut b, back)) = pair(|device| FabricSettings {
            streams,
            stripe_bytes: 4096,
            ..on(device)
        });
        let into = Memory::of(&a, vec![0; 40_000]);
        for round in 1..20_u8 {
            read(&mut a, there, NOBODYS, &into);
            // Some of these are behind it, in both directions, and short enough for a request.
            for number in 0..10 {
                a.say(there, &[round, number]).expect("room");
                b.say(back, &[round, number]).expect("room");
            }
            settle_until(&mut [&mut a, &mut b], "an answer", |sides| {
                sides
                    .iter()
                    .all(|side| side.came.len() == usize::from(round) * 10)
            });
            assert_eq!(a.transferred, [Err(TransferError::Refused)]);
            a.transferred.clear();
        }
        let all: Vec<_> = (1..20)
            .flat_map(|round| (0..10).map(move |it| [round, it]))
            .collect();
        assert!(a.from(there) == all && b.from(back) == all);
        assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
        settle_until(&mut [&mut a, &mut b], "all streams", |sides| {
            let live = sides[0].fabric.live_streams(there);
            (live, sides[1].fabric.live_streams(back))
                == (usize::from(streams), usize::from(streams))
        });
    }
}

/// Parts of another transfer that were behind it are carried again.
#[test]
fn a_refused_read_leaves_other_transfers_alone() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), (b, _)) = pair(|device| FabricSettings {
        stripe_bytes: 4096,
        ..two_streams(&[device])
    });
    let mut b = b;
    let theirs: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
    let offered = Memory::of(&b, theirs.clone());
    let (refused, into) = (
        Memory::of(&a, vec![0; 30_000]),
        Memory::of(&a, vec![0; 100_000]),
    );
    read(&mut a, there, NOBODYS, &refused);
    read(&mut a, there, offered.remote(), &into);
    read(&mut a, there, NOBODYS, &refused);
    settle_until(&mut [&mut a, &mut b], "the ends", |sides| {
        sides[0].transferred.len() == 3
    });
    let is_refused = |result: &&Result<_, _>| **result == Err(TransferError::Refused);
    assert_eq!(a.transferred.iter().filter(is_refused).count(), 2);
    assert!(into.bytes == theirs);
    assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
}

/// Two adapters at each end, and a port of one end goes down: either of the two. It comes back
/// later.
#[test]
fn a_port_that_comes_back_is_used_again() {
    for down in 0..4 {
        adapters(&[Nature::PLAIN; 4]);
        let ((mut a, there), (mut b, back)) = pair(|device| FabricSettings {
            stripe_bytes: 4096,
            ..match device {
                "fake0" => two_streams(&["fake0", "fake2"]),
                _ => two_streams(&["fake1", "fake3"]),
            }
        });
        let into = Memory::of(&a, vec![0; 40_000]);
        let offered = Memory::of(&b, vec![7; 40_000]);
        net(|net| (net.down, net.impatient) = ([down].into(), true));
        both_talk((&mut a, there), (&mut b, back), b"one is left");
        read(&mut a, there, offered.remote(), &into);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.transferred, [Ok(())]);
        for _ in 0..3 {
            wait_for_tick();
            both_talk((&mut a, there), (&mut b, back), b"on");
        }
        assert_eq!(a.fabric.live_streams(there), 1);
        net(|net| net.down.clear());
        settle_until(&mut [&mut a, &mut b], "both streams", |sides| {
            let live = sides[0].fabric.live_streams(there);
            (live, sides[1].fabric.live_streams(back)) == (2, 2)
        });
        net(|net| net.carried.clear());
        both_talk((&mut a, there), (&mut b, back), b"both again");
        read(&mut a, there, offered.remote(), &into);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.transferred, [Ok(()), Ok(())]);
        for device in [0, 2] {
            let carried = net(|net| net.carried.get(&device).copied());
            assert!(carried >= Some(4), "{carried:?} requests by fake{device}");
        }
        assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
    }
}

/// Endpoints meet by the rail that both can use.
#[test]
fn a_port_that_is_down_at_first_contact_is_passed_by() {
    for down in 0..4 {
        adapters(&[Nature::PLAIN; 4]);
        let mut a = Side::open(1, two_streams(&["fake0", "fake2"]));
        let mut b = Side::open(2, two_streams(&["fake1", "fake3"]));
        net(|net| (net.down, net.impatient) = ([down].into(), true));
        let there = a.connect(&b);
        settle_until(&mut [&mut a, &mut b], "a connection", |sides| {
            sides.iter().all(|side| side.connected.len() == 1)
        });
        let back = b.connected[0];
        both_talk((&mut a, there), (&mut b, back), b"by one");
        net(|net| net.down.clear());
        settle_until(&mut [&mut a, &mut b], "both streams", |sides| {
            let live = sides[0].fabric.live_streams(there);
            (live, sides[1].fabric.live_streams(back)) == (2, 2)
        });
        both_talk((&mut a, there), (&mut b, back), b"by both");
        assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
    }
}

/// Any of the greetings may be lost, and each may come late.
#[test]
fn greetings_of_a_stream_that_is_made_anew_may_be_lost() {
    for lost in 0..3 {
        adapters(&[Nature::PLAIN; 2]);
        let ((mut a, there), (mut b, back)) = pair(on);
        let into = Memory::of(&a, vec![0; 100]);
        net(|net| net.holds = true);
        read(&mut a, there, NOBODYS, &into);
        let (mut count, mut late) = (0, Vec::new());
        settle_until(&mut [&mut a, &mut b], "the stream", |sides| {
            while net(|net| !net.held.is_empty()) {
                count += 1;
                if count == lost + 1 {
                    // It comes when all is over.
                    late.push(net(|net| net.held.remove(0)));
                } else {
                    net(|net| net.let_go(0));
                }
            }
            sides[0].fabric.live_streams(there) == 1 && sides[1].fabric.live_streams(back) == 1
        });
        net(|net| {
            net.held.extend(late);
            net.let_all_go();
        });
        both_talk((&mut a, there), (&mut b, back), b"on");
        both_talk((&mut a, there), (&mut b, back), b"and on");
        assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
    }
}

/// The last stream breaks, and the peer is gone before it hears of it.
#[test]
fn a_peer_that_makes_no_stream_anew_is_lost() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), (b, _)) = pair(|device| match device {
        "fake0" => FabricSettings {
            greeting: Duration::from_millis(200),
            ..on(device)
        },
        device => on(device),
    });
    let into = Memory::of(&a, vec![0; 100]);
    read(&mut a, there, NOBODYS, &into);
    a.progress();
    drop(b);
    settle_until(&mut [&mut a], "the end", |sides| {
        !sides[0].failed.is_empty()
    });
    let [(connection, ConnectionFailure::Lost(why))] = &a.failed[..] else {
        panic!("{:?}", a.failed);
    };
    assert_eq!(*connection, there);
    assert!(why.contains("LIMIC_VERBS_GREETING_MS"), "{why}");
    assert_eq!(a.transferred, [Err(TransferError::Refused)]);
}

/// What the old queue pair had done is not taken for work of the new one, even if the peer says at
/// once that this is connected.
#[test]
fn work_of_an_old_queue_pair_is_not_that_of_the_new_one() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), (mut b, _)) = pair(on);
    let into = Memory::of(&a, vec![0; 100]);
    let offered = Memory::of(&b, vec![7; 100]);
    read(&mut a, there, offered.remote(), &into);
    // Now it is done, which this end has not seen.
    b.progress();
    let stream = b.fabric.connections.values().next().map(|it| it.offers());
    let mut offer = stream.expect("a connection")[0];
    (offer.round, offer.is_connected, offer.pair.number) = (1, true, 0x00ab_cdef);
    a.fabric.hear_streams(there.0, &[offer], (0, 0));
    assert_eq!(a.fabric.live_streams(there), 1);
    a.progress();
    // The read was begun again.
    assert_eq!(a.transferred, []);
    assert_eq!(a.fabric.live_streams(there), 1);
}

/// A new queue pair may have the number of the old one, whose packets are still to be read: their
/// buffers are not its own.
#[test]
fn a_new_queue_pair_has_receives_of_its_own() {
    let alone = Nature {
        shared_receives: 0,
        ..Nature::PLAIN
    };
    adapters(&[alone; 2]);
    let ((mut a, there), (mut b, back)) = pair(on);
    let into = Memory::of(&a, vec![0; 100]);
    for round in 1..4 {
        for _ in 0..3 {
            a.say(there, b"before the break").expect("room");
        }
        read(&mut a, there, NOBODYS, &into);
        a.progress();
        settle_until(&mut [&mut a, &mut b], "the stream", |sides| {
            sides[0].fabric.live_streams(there) == 1 && sides[1].fabric.live_streams(back) == 1
        });
        assert_eq!(b.came.len(), 3 * round);
        let rail = &b.fabric.rails[0];
        let number = b.fabric.connections[&back.0].offers()[0].pair.number;
        assert_eq!(rail.receives.of(number).count(), net(|net| net.lent(1)));
        assert!(rail.tells_ends, "an end was not seen");
    }
}

/// A device fails while the only stream waits to be made anew there.
#[test]
fn a_device_that_fails_makes_no_stream_anew() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), _b) = pair(on);
    let into = Memory::of(&a, vec![0; 100]);
    read(&mut a, there, NOBODYS, &into);
    a.progress();
    assert_eq!((a.fabric.live_streams(there), a.failed.len()), (0, 0));
    a.fabric.rail_failed(0, "it was unplugged");
    a.progress();
    let why = "fake0 of this side has failed: it was unplugged";
    let lost = ConnectionFailure::Local(why.to_owned());
    assert_eq!(a.failed, [(there, lost)]);
}
