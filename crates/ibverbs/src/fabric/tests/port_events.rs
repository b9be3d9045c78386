//! Drivers tell that a port went down, and that it is up again.

use core::time::Duration;
use std::time::Instant;

use super::contact::wait_for_tick;
use super::mending::{Memory, read, settle_until};
use super::rails::{all_goes_on, lone_streams, twice_two};
use super::{on, pair, settle};
use crate::fabric::FabricSettings;
use crate::fake::{Nature, adapters, net};

/// The port may be of either end, and the other end is the one that speaks. Its requests are
/// repeated all the time.
#[test]
fn a_lone_stream_leaves_a_port_whose_driver_says_that_it_is_down() {
    lone_streams(false, |end, (a, there), (b, back)| {
        for down in [end, end + 2, end] {
            net(|net| {
                net.down.clear();
                net.turn_port(down, false);
            });
            let (side, to) = match end {
                0 => (&mut *b, back),
                _ => (&mut *a, there),
            };
            side.say(to, b"by the other").expect("room");
            settle_until(&mut [&mut *a, &mut *b], "the message", |sides| {
                let last = sides[end].came.last();
                last.is_some_and(|(_, it)| it == b"by the other")
            });
            all_goes_on((&mut *a, there), (&mut *b, back), 1);
        }
    });
}

/// With a stream by each adapter, what was under way goes by the other one. A port that comes back
/// is used at once, however rarely the peer is told by then.
#[test]
fn streams_leave_a_port_and_come_back_as_its_driver_tells() {
    for down in [0, 2] {
        adapters(&[Nature::PLAIN; 4]);
        net(|net| net.impatient = false);
        let ((mut a, there), (mut b, back)) = pair(twice_two(2));
        net(|net| net.turn_port(down, false));
        for number in 0..5 {
            a.say(there, &[number]).expect("room");
        }
        settle_until(&mut [&mut a, &mut b], "the messages", |sides| {
            let came = sides[1].from(back) == [[0], [1], [2], [3], [4]];
            came && sides[0].fabric.live_streams(there) == 1
        });
        // The peer hears of it when its requests fail.
        net(|net| net.impatient = true);
        let into = Memory::of(&b, vec![0; 40_000]);
        let offered = Memory::of(&a, vec![7; 40_000]);
        read(&mut b, back, offered.remote(), &into);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(
            (&b.transferred[..], b.fabric.live_streams(back)),
            (&[Ok(())][..], 1)
        );
        for (side, to) in [(&mut a, there), (&mut b, back)] {
            let connection = side.fabric.connections.get_mut(&to.0);
            let mends = &mut connection.expect("it lives").mends;
            mends[0].next = Instant::now() + Duration::from_secs(3600);
        }
        net(|net| net.turn_port(down, true));
        all_goes_on((&mut a, there), (&mut b, back), 2);
    }
}

/// Both ports of an end go down, that of the stream last, and the other one comes back.
#[test]
fn a_lone_stream_goes_to_the_first_port_that_is_up_again() {
    lone_streams(false, |end, (a, there), (b, back)| {
        let turns = [(end, false), (end + 2, false), (end, true)];
        for (said, (port, is_up)) in (1..).zip(turns) {
            net(|net| net.turn_port(port, is_up));
            a.say(there, b"on").expect("room");
            let both_down = net(|net| net.down.len() == 2);
            if both_down {
                wait_for_tick();
                settle(&mut [&mut *a, &mut *b]);
                assert_eq!(b.came.len(), 1);
            } else {
                settle_until(&mut [&mut *a, &mut *b], "the message", |sides| {
                    sides[1].came.len() == said
                });
            }
        }
        all_goes_on((&mut *a, there), (&mut *b, back), 1);
    });
}

/// No other port is there, or its adapter has failed: adapters repeat what is under way.
#[test]
fn streams_stay_on_a_port_that_is_down_where_no_other_serves() {
    for streams in [1, 2] {
        for others in [false, true] {
            adapters(&[Nature::PLAIN; 4]);
            net(|net| net.impatient = false);
            let ((mut a, there), (mut b, back)) = match others {
                true => pair(twice_two(streams)),
                false => pair(|device| FabricSettings {
                    streams,
                    stripe_bytes: 4096,
                    ..on(device)
                }),
            };
            if others {
                a.fabric.rail_failed(1, "it was unplugged");
                all_goes_on((&mut a, there), (&mut b, back), streams.into());
            }
            b.came.clear();
            net(|net| net.turn_port(0, false));
            a.say(there, b"late").expect("room");
            wait_for_tick();
            settle(&mut [&mut a, &mut b]);
            assert_eq!(a.fabric.live_streams(there), usize::from(streams));
            assert_eq!((&a.failed[..], &b.came[..]), (&[][..], &[][..]));
            net(|net| net.turn_port(0, true));
            settle(&mut [&mut a, &mut b]);
            assert_eq!(b.from(back), [b"late"]);
        }
    }
}
