//! Streams and connections end, and others go on.

use super::{Side, on, pair, settle, two_streams};
use crate::fabric::{ConnectionFailure, FabricSettings, RemoteRange, TransferError};
use crate::fake::{Nature, adapters, net};
use crate::objects::Access;

/// The ring's reader takes a packet for whole when its last word is there.
#[test]
fn a_ring_is_lent_only_where_writes_come_in_order() {
    for in_order in [false, true] {
        let reader = Nature {
            in_order,
            ..Nature::PLAIN
        };
        adapters(&[Nature::PLAIN, reader]);
        let ((mut a, there), (mut b, back)) = pair(on);
        for number in 0..50 {
            a.say(there, &[number]).expect("room");
            settle(&mut [&mut a, &mut b]);
        }
        assert_eq!(b.from(back).len(), 50);
        assert_eq!(a.fabric.counts().ring_messages > 0, in_order);
    }
}

/// Adapters give the number of a queue pair to the next one.
#[test]
fn packets_of_a_dead_connection_are_not_its_successors() {
    for cleans in [false, true] {
        adapters(
            &[Nature {
                cleans,
                ..Nature::PLAIN
            }; 2],
        );
        let ((mut a, there), (mut b, back)) = pair(on);
        let mut c = Side::open(3, on("fake1"));
        b.say(back, b"of the dead").expect("room");
        b.progress();
        a.fabric.disconnect(there);
        let next = a.connect(&c);
        settle(&mut [&mut a, &mut c]);
        c.say(c.connected[0], b"of the living").expect("room");
        settle(&mut [&mut a, &mut c]);
        assert_eq!(a.from(next), [b"of the living"]);
        assert_eq!((a.came.len(), a.failed), (1, vec![]));
    }
}

/// What is left of a read that the peer refuses is not tried on the other streams.
#[test]
fn a_refused_read_is_not_tried_on_other_streams() {
    adapters(&[Nature::PLAIN; 3]);
    let ((mut a, there), (mut b, back)) = pair(|device| FabricSettings {
        send_entries: 3,
        stripe_bytes: 4096,
        ..match device {
            "fake0" => two_streams(&["fake0", "fake2"]),
            device => two_streams(&[device; 2]),
        }
    });
    let mut memory = vec![0_u8; 1 << 14];
    let mut theirs = vec![0_u8; 1 << 14];
    // SAFETY: both outlive their registrations, and nobody looks at them before the end.
    let (into, offered) = unsafe {
        let into = a
            .fabric
            .register(memory.as_mut_ptr(), 1 << 14, Access::LOCAL);
        let offered = b
            .fabric
            .register(theirs.as_mut_ptr(), 1 << 14, Access::REMOTE_READ);
        (into.expect("registered"), offered.expect("registered"))
    };
    let good = RemoteRange {
        start: offered.start(),
        keys: offered.remote_keys(),
    };
    let nobodys = RemoteRange {
        start: 4096,
        keys: u64::MAX,
    };
    // The second stream has work enough for a while.
    net(|net| net.frozen = Some(2));
    // SAFETY: as above.
    unsafe { a.fabric.read(there, good, &into, 0, 1 << 14, 3) }.expect("it begins");
    settle(&mut [&mut a, &mut b]);
    // SAFETY: as above.
    unsafe { a.fabric.read(there, nobodys, &into, 0, 1 << 13, 4) }.expect("it begins");
    settle(&mut [&mut a, &mut b]);
    net(|net| net.frozen = None);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.transferred.len(), 2);
    assert!(a.transferred.contains(&Err(TransferError::Refused)));
    a.say(there, b"on").expect("room");
    b.say(back, b"on").expect("room");
    settle(&mut [&mut a, &mut b]);
    assert_eq!(
        (a.from(there), b.from(back)),
        (vec![&b"on"[..]], vec![&b"on"[..]])
    );
}

#[test]
fn a_peer_that_is_gone_is_lost() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), (b, _)) = pair(on);
    drop(b);
    net(|net| net.impatient = true);
    a.say(there, b"hello").expect("room");
    settle(&mut [&mut a]);
    let [(connection, ConnectionFailure::Lost(_))] = a.failed[..] else {
        panic!("{:?}", a.failed);
    };
    assert_eq!(connection, there);
}

/// One of two adapters goes, with packets under way in both directions.
#[test]
fn what_a_stream_had_goes_by_another() {
    adapters(&[Nature::PLAIN; 3]);
    let ((mut a, there), (mut b, back)) = pair(|device| match device {
        "fake0" => two_streams(&["fake0", "fake2"]),
        device => two_streams(&[device]),
    });
    net(|net| (net.frozen, net.impatient) = (Some(0), true));
    for number in 0..5 {
        a.say(there, &[number; 600]).expect("room");
        b.say(back, &[number; 600]).expect("room");
        settle(&mut [&mut b, &mut a]);
    }
    net(|net| net.frozen = None);
    settle(&mut [&mut a, &mut b]);
    let all: Vec<_> = (0..5).map(|number| vec![number; 600]).collect();
    assert!(a.from(there) == all && b.from(back) == all);
    assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
    assert!(a.fabric.counts().moved > 0 && b.fabric.counts().moved > 0);
}

/// A stream breaks with a packet unread, and the next queue pair gets its number.
#[test]
fn packets_of_a_broken_stream_stay_with_their_connection() {
    for (cleans, lags, shared_receives) in [
        (false, false, 4096),
        (true, false, 4096),
        (true, true, 4096),
        (true, true, 0),
    ] {
        let nature = Nature {
            cleans,
            lags,
            shared_receives,
            ..Nature::PLAIN
        };
        adapters(&[nature; 4]);
        let ((mut a, there), (mut b, back)) = pair(|device| match device {
            "fake1" => two_streams(&["fake1", "fake2"]),
            device => two_streams(&[device]),
        });
        let mut c = Side::open(3, two_streams(&["fake3"]));
        b.say(back, b"of the broken").expect("room");
        b.progress();
        net(|net| (net.frozen, net.impatient) = (Some(1), true));
        a.say(there, b"to the other").expect("room");
        // The packet is taken with what breaks the stream, and read when there is a successor.
        while a.fabric.take_completions() {}
        let next = a.connect(&c);
        net(|net| (net.frozen, net.impatient) = (None, false));
        settle(&mut [&mut a, &mut c, &mut b]);
        c.say(c.connected[0], b"of the next").expect("room");
        settle(&mut [&mut a, &mut c, &mut b]);
        assert_eq!(a.from(there), [b"of the broken"]);
        assert_eq!(a.from(next), [b"of the next"]);
        assert_eq!(b.from(back), [b"to the other"]);
        assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
    }
}
