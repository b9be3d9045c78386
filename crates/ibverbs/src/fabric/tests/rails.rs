//! An adapter of one side dies, and its streams to peers that are connected go over the other one.

use core::time::Duration;
use std::time::Instant;

use super::contact::wait_for_tick;
use super::gone::unplugged_in_mid_read;
use super::mending::{Memory, both_talk, read, settle_until};
use super::{Side, on, pair, settle, two_and_one, two_streams};
use crate::fabric::failing::Fault;
use crate::fabric::{ConnectionFailure, ConnectionId, FabricSettings};
use crate::fake::{Nature, adapters, net};

/// Two adapters at each end, and so many streams over them.
pub(super) fn twice_two(streams: u8) -> impl Fn(&str) -> FabricSettings {
    move |device| FabricSettings {
        streams,
        stripe_bytes: 4096,
        ..match device {
            "fake0" => two_streams(&["fake0", "fake2"]),
            _ => two_streams(&["fake1", "fake3"]),
        }
    }
}

/// Two ends with two adapters each and one stream, on one network or two; for each end by its
/// number. Requests fail where nothing answers if they are `impatient`, or are repeated for ever.
pub(super) fn lone_streams(
    impatient: bool,
    body: impl Fn(usize, (&mut Side, ConnectionId), (&mut Side, ConnectionId)),
) {
    for apart in [false, true] {
        for end in [0, 1] {
            adapters(&[Nature::PLAIN; 4]);
            net(|net| (net.apart, net.impatient) = (apart, impatient));
            let ((mut a, there), (mut b, back)) = pair(twice_two(1));
            body(end, (&mut a, there), (&mut b, back));
        }
    }
}

/// All of it comes once and in order, both ways, and a read of new memory goes by so many streams.
pub(super) fn all_goes_on(
    (a, there): (&mut Side, ConnectionId),
    (b, back): (&mut Side, ConnectionId),
    streams: usize,
) {
    settle_until(&mut [&mut *a, &mut *b], "all streams", |sides| {
        let live = sides[0].fabric.live_streams(there);
        (live, sides[1].fabric.live_streams(back)) == (streams, streams)
    });
    both_talk((&mut *a, there), (&mut *b, back), b"on");
    let into = Memory::anew(a, vec![0; 40_000]);
    let offered = Memory::anew(b, vec![9; 40_000]);
    a.transferred.clear();
    read(a, there, offered.remote(), &into);
    settle(&mut [&mut *a, &mut *b]);
    assert_eq!(a.transferred, [Ok(())]);
    assert_eq!(into.bytes, offered.bytes);
    assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
}

/// With one adapter at the other end, and with two, on one network or on two. What is under way in
/// both directions goes on, however many streams were there.
#[test]
fn streams_of_an_adapter_that_is_gone_go_over_the_other() {
    for gone in [0, 2] {
        for impatient in [true, false] {
            adapters(&[Nature::PLAIN; 3]);
            with_work_under_way(pair(two_and_one), gone, impatient, 2);
            for streams in [1, 2, 4] {
                for apart in [false, true] {
                    adapters(&[Nature::PLAIN; 4]);
                    net(|net| net.apart = apart);
                    let ends = pair(twice_two(streams));
                    with_work_under_way(ends, gone, impatient, streams.into());
                }
            }
        }
    }
}

/// Packets and a read are under way when an adapter goes.
fn with_work_under_way(
    ((mut a, there), (mut b, back)): ((Side, ConnectionId), (Side, ConnectionId)),
    gone: usize,
    impatient: bool,
    streams: usize,
) {
    let (into, offered) = unplugged_in_mid_read((&mut a, there), &b, gone, impatient);
    for number in 0..5 {
        a.say(there, &[number; 600]).expect("room");
        if !impatient {
            b.say(back, &[number; 600]).expect("room");
        }
    }
    settle_until(&mut [&mut a, &mut b], "what was begun", |sides| {
        let came = |side: usize| sides[side].came.len();
        sides[0].transferred == [Ok(())] && came(1) == 5 && (impatient || came(0) == 5)
    });
    let all: Vec<_> = (0..5).map(|number| vec![number; 600]).collect();
    assert!(b.from(back) == all && (impatient || a.from(there) == all));
    assert_eq!(into.bytes, offered.bytes);
    all_goes_on((&mut a, there), (&mut b, back), streams);
}

/// The port of the other adapter is down at that time. It comes back.
#[test]
fn streams_wait_for_the_port_of_the_adapter_that_is_left() {
    for streams in [1, 2] {
        adapters(&[Nature::PLAIN; 4]);
        let ((mut a, there), (mut b, back)) = pair(twice_two(streams));
        net(|net| (net.down, net.impatient) = ([2].into(), true));
        let into = Memory::of(&a, vec![0; 40_000]);
        let offered = Memory::of(&b, vec![7; 40_000]);
        // Whatever is on the port that is down breaks.
        read(&mut a, there, offered.remote(), &into);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.transferred, [Ok(())]);
        assert_eq!(a.fabric.live_streams(there), 1);
        net(|net| net.unplug(0));
        a.say(there, b"waits").expect("room");
        settle_until(&mut [&mut a, &mut b], "the end of all streams", |sides| {
            sides[0].fabric.live_streams(there) == 0
        });
        settle(&mut [&mut a, &mut b]);
        assert_eq!((&a.failed[..], &b.came[..]), (&[][..], &[][..]));
        net(|net| net.down.clear());
        settle_until(&mut [&mut a, &mut b], "the message", |sides| {
            sides[1].from(back) == [b"waits"]
        });
        all_goes_on((&mut a, there), (&mut b, back), streams.into());
    }
}

/// One adapter dies at each end, and those that are left were no pair before.
#[test]
fn adapters_that_are_left_become_a_pair() {
    adapters(&[Nature::PLAIN; 4]);
    let ((mut a, there), (mut b, back)) = pair(twice_two(2));
    net(|net| {
        net.unplug(0);
        net.break_queues(3);
    });
    a.say(there, b"from here").expect("room");
    b.say(back, b"from there").expect("room");
    settle_until(&mut [&mut a, &mut b], "the messages", |sides| {
        sides[0].came.len() == 1 && sides[1].came.len() == 1
    });
    all_goes_on((&mut a, there), (&mut b, back), 2);
}

/// The completions of packets went with their queue. The peer sends those again that it still has;
/// of others it knows that they were received.
#[test]
fn packets_that_an_adapter_has_lost_end_the_connection_unless_the_peer_has_them() {
    for (count, acknowledged) in [(3, false), (7, true), (8, true)] {
        for later in [false, true] {
            adapters(&[Nature::PLAIN; 4]);
            let ((mut a, there), (mut b, back)) = pair(twice_two(2));
            for number in 0..count {
                b.say(back, &[number]).expect("room");
            }
            b.progress();
            net(|net| net.break_queues(0));
            if later {
                a.progress();
                b.progress();
                b.say(back, &[count]).expect("room");
            }
            if !acknowledged {
                let all: Vec<_> = (0..count + u8::from(later)).map(|it| [it]).collect();
                settle_until(&mut [&mut a, &mut b], "the messages", |sides| {
                    sides[0].from(there) == all
                });
                for _ in 0..3 {
                    wait_for_tick();
                    settle(&mut [&mut a, &mut b]);
                }
                all_goes_on((&mut a, there), (&mut b, back), 2);
                continue;
            }
            settle_until(&mut [&mut a, &mut b], "the end", |sides| {
                !sides[0].failed.is_empty()
            });
            let [(connection, ConnectionFailure::Local(why))] = &a.failed[..] else {
                panic!("{:?}", a.failed);
            };
            assert_eq!(*connection, there);
            assert!(why.contains("fake0"), "{why}");
            assert_eq!(a.came, []);
        }
    }
}

/// Packets are lost behind one that the peer still has. It is asked again when that has come, also
/// where nothing else tells the peer so.
#[test]
fn packets_lost_behind_one_that_waits_end_the_connection_too() {
    for count in [5, 8] {
        adapters(&[Nature::PLAIN; 4]);
        let ((mut a, there), (mut b, back)) = pair(twice_two(2));
        // The first stream breaks, and the second has a packet that waits.
        net(|net| (net.down, net.impatient) = ([0].into(), true));
        both_talk((&mut a, there), (&mut b, back), b"by the second");
        net(|net| (net.impatient, net.frozen) = (false, Some(3)));
        b.say(back, b"waits").expect("room");
        net(|net| net.down.clear());
        settle_until(&mut [&mut a, &mut b], "both streams", |sides| {
            let live = sides[0].fabric.live_streams(there);
            (live, sides[1].fabric.live_streams(back)) == (2, 2)
        });
        for number in 0..count {
            b.say(back, &[number]).expect("room");
        }
        b.progress();
        net(|net| net.break_queues(0));
        a.progress();
        b.progress();
        settle_until(&mut [&mut a, &mut b], "all streams", |sides| {
            sides[0].fabric.live_streams(there) == 2
        });
        assert_eq!((a.came.len(), &a.failed[..]), (1, &[][..]));
        net(|net| net.frozen = None);
        settle_until(&mut [&mut a, &mut b], "the end", |sides| {
            !sides[0].failed.is_empty()
        });
        let [(_, ConnectionFailure::Local(why))] = &a.failed[..] else {
            panic!("{:?}", a.failed);
        };
        assert!(why.contains("fake0"), "{why}");
        assert_eq!(a.from(there), [&b"by the second"[..], b"waits"]);
    }
}

/// The stream is already down when the failure becomes known, or the peer is the only one that uses
/// it yet. A lone stream has gone over to the other adapter by then.
#[test]
fn packets_lost_before_the_adapter_tells_end_the_connection_too() {
    let broken = || Fault::Request("a test breaks it".to_owned());
    for (streams, is_mended) in [(2, false), (2, true), (1, false)] {
        adapters(&[Nature::PLAIN; 4]);
        let ((mut a, there), (mut b, back)) = pair(twice_two(streams));
        if is_mended {
            b.fabric.stream_failed(back.0, 0, broken());
            while b.fabric.live_streams(back) < 2 {
                a.progress();
                b.progress();
            }
            assert_eq!(a.fabric.live_streams(there), 1);
        }
        for number in 0..8 {
            b.say(back, &[number]).expect("room");
        }
        b.progress();
        net(|net| {
            net.break_queues(0);
            net.down.extend((streams == 1).then_some(0));
        });
        if !is_mended {
            a.fabric.stream_failed(there.0, 0, broken());
        }
        settle_until(&mut [&mut a, &mut b], "the end", |sides| {
            !sides[0].failed.is_empty()
        });
        let [(_, ConnectionFailure::Local(why))] = &a.failed[..] else {
            panic!("{:?}", a.failed);
        };
        assert!(why.contains("fake0"), "{why}");
        assert_eq!(a.came, []);
    }
}

/// The peer has a packet that it sends again when it makes a call. It makes none for longer than
/// any wait, and nothing is lost.
#[test]
fn a_peer_that_computes_with_a_packet_to_send_again_is_waited_for() {
    let greeting = Duration::from_millis(300);
    adapters(&[Nature::PLAIN; 4]);
    let ((mut a, there), (mut b, back)) = pair(|device| FabricSettings {
        greeting,
        ..twice_two(1)(device)
    });
    net(|net| net.frozen = Some(1));
    b.say(back, b"waits").expect("room");
    net(|net| net.break_queues(0));
    while b.fabric.live_streams(back) > 0 {
        a.progress();
        b.progress();
        assert_eq!(a.failed, []);
    }
    net(|net| net.frozen = None);
    let begun = Instant::now();
    while begun.elapsed() < 2 * greeting {
        a.progress();
    }
    let live = (a.fabric.live_streams(there), b.fabric.live_streams(back));
    assert_eq!(
        (live, &a.failed[..], &a.came[..]),
        ((1, 0), &[][..], &[][..])
    );
    settle_until(&mut [&mut a, &mut b], "the message", |sides| {
        sides[0].from(there) == [b"waits"]
    });
    all_goes_on((&mut a, there), (&mut b, back), 1);
}

/// No adapter is left: the error names the one that went last.
#[test]
fn the_last_adapter_that_goes_is_named() {
    adapters(&[Nature::PLAIN; 4]);
    let ((mut a, there), (_b, _)) = pair(twice_two(2));
    a.fabric.rail_failed(0, "it was unplugged");
    assert_eq!(a.failed, []);
    a.fabric.rail_failed(1, "it was unplugged");
    a.progress();
    let why = "fake2 of this side has failed: it was unplugged";
    let lost = ConnectionFailure::Local(why.to_owned());
    // They had met.
    let said = format!("this side could not reach it: {why}");
    assert_eq!(lost.to_string(), said);
    assert_eq!(a.failed, [(there, lost)]);
}

/// The peer makes no call any more: the time that it has for that is counted.
#[test]
fn streams_that_find_no_way_end_with_the_adapter_named() {
    adapters(&[Nature::PLAIN; 3]);
    let ((mut a, there), (b, _)) = pair(|device| FabricSettings {
        greeting: Duration::from_millis(200),
        devices: match device {
            "fake0" => vec!["fake0".to_owned(), "fake2".to_owned()],
            device => vec![device.to_owned()],
        },
        ..on("")
    });
    drop(b);
    net(|net| net.unplug(0));
    settle_until(&mut [&mut a], "the end", |sides| {
        !sides[0].failed.is_empty()
    });
    let [(connection, ConnectionFailure::Local(why))] = &a.failed[..] else {
        panic!("{:?}", a.failed);
    };
    assert_eq!(*connection, there);
    assert!(
        why.contains("fake0") && why.contains("LIMIC_VERBS_GREETING_MS"),
        "{why}"
    );
}

/// The port may be of either end. It is used again when the other port goes down.
#[test]
fn a_lone_stream_leaves_a_port_that_is_down() {
    lone_streams(true, |end, (a, there), (b, back)| {
        let mut said = 0;
        for down in [end, end + 2, end] {
            net(|net| net.down = [down].into());
            let (side, to) = match end {
                0 => (&mut *a, there),
                _ => (&mut *b, back),
            };
            side.say(to, &[said]).expect("room");
            said += 1;
            settle_until(&mut [&mut *a, &mut *b], "the message", |sides| {
                sides[1 - end].came.len() == usize::from(said)
            });
            all_goes_on((&mut *a, there), (&mut *b, back), 1);
            said += 1;
        }
    });
}

/// A port is down before they meet.
#[test]
fn a_lone_stream_is_made_where_ports_are_up() {
    for down in 0..4 {
        adapters(&[Nature::PLAIN; 4]);
        net(|net| net.impatient = true);
        let mut a = Side::open(1, twice_two(1)("fake0"));
        let mut b = Side::open(2, twice_two(1)("fake1"));
        net(|net| net.down = [down].into());
        let there = a.connect(&b);
        settle_until(&mut [&mut a, &mut b], "a connection", |sides| {
            sides.iter().all(|side| side.connected.len() == 1)
        });
        let back = b.connected[0];
        all_goes_on((&mut a, there), (&mut b, back), 1);
    }
}
