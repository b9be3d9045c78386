//! Streams and connections end, and others go on.

use super::{Side, on, pair, settle};
use crate::fabric::{FabricSettings, RemoteRange, TransferError};
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
        assert_eq!(a.fabric.counts().ring_packets > 0, in_order);
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
        devices: match device {
            "fake0" => vec!["fake0".to_owned(), "fake2".to_owned()],
            device => vec![device.to_owned(); 2],
        },
        streams: 2,
        send_entries: 3,
        stripe_bytes: 4096,
        ..on(device)
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
