//! Streams that fail, connections that are lost, peers that are killed or not there.

use core::time::Duration;
use std::time::Instant;

use limic_ibverbs::fabric::{
    Arrivals, ConnectionFailure, Event, Fabric, FabricSettings, RemoteRange, SendRefused,
    TransferError,
};
use limic_ibverbs::objects::Access;
use limic_lab_tests::in_guest;
use limic_tests::process::die;
use limic_tests::{Cast, Rank};

use crate::side::{Side, run, settings, stream_both_ways};

#[test]
fn a_stream_that_fails_is_replaced_by_the_others() {
    run(
        "loss::a_stream_that_fails_is_replaced_by_the_others",
        |rank| {
            let mut side = Side::connected(
                rank,
                FabricSettings {
                    streams: 3,
                    ..settings()
                },
            );
            stream_both_ways(&mut side, 100);
            side.meet(rank);
            if rank.rank == 0 {
                break_queue_pair(&mut side, "the refusal", |side| {
                    !side.transferred.is_empty()
                });
                assert_eq!(side.transferred, [(7, Err(TransferError::Refused))]);
            }
            stream_both_ways(&mut side, 300);
            side.progress_until("all streams", |side| {
                side.fabric.live_streams(side.peer) == 3
            });
            stream_both_ways(&mut side, 100);
            side.close(rank);
        },
    );
}

/// The only stream breaks, again and again, and is made anew each time.
#[test]
fn a_refused_read_is_an_error_of_its_own() {
    run("loss::a_refused_read_is_an_error_of_its_own", |rank| {
        let mut side = Side::connected(rank, settings());
        for round in 1..10 {
            if rank.rank == round % 2 {
                break_queue_pair(&mut side, "the refusal", |side| {
                    !side.transferred.is_empty()
                });
                assert_eq!(side.transferred, [(7, Err(TransferError::Refused))]);
                side.transferred.clear();
            }
            stream_both_ways(&mut side, 100);
        }
        side.close(rank);
    });
}

#[test]
fn a_lost_connection_is_made_anew() {
    run("loss::a_lost_connection_is_made_anew", |rank| {
        let mut side = Side::connected(rank, settings());
        stream_both_ways(&mut side, 100);
        side.meet(rank);
        lose_and_connect(&mut side, rank);
        stream_both_ways(&mut side, 100);
        side.close(rank);
    });
}

/// Reads by a key that the peer never gave: its adapter refuses, and breaks the queue pair. Waits
/// until that shows.
fn break_queue_pair(side: &mut Side, what: &str, shows: impl Fn(&Side) -> bool) {
    let mut memory = vec![0_u8; 4096];
    // SAFETY: lives until the event.
    let spread = unsafe {
        side.fabric
            .register(memory.as_mut_ptr(), memory.len(), Access::LOCAL)
    }
    .expect("registered");
    let wrong = RemoteRange {
        start: 0x1000,
        keys: 0x0123_4567_0123_4567,
    };
    // SAFETY: the memory is left alone until the event.
    unsafe { side.fabric.read(side.peer, wrong, &spread, 0, 4096, 7) }.expect("started");
    side.progress_until(what, shows);
}

/// Rank 0 ends its connection, and both connect anew.
fn lose_and_connect(side: &mut Side, rank: &Rank) {
    let before = side.peer;
    if rank.rank == 0 {
        side.fabric.disconnect(before);
        let address = side.there;
        let again = side.fabric.connect(&address, 2, 2 ^ rank.seed);
        again.expect("connect");
    }
    let start = Instant::now();
    while !side.connected_to_peer() {
        assert!(start.elapsed() < Duration::from_secs(50), "not connected");
    }
    assert_ne!(side.peer, before);
    // What failed before is told before.
    side.failed = None;
}

/// Of all connections together, a completion queue has no room for those of so many.
#[test]
fn connections_that_were_lost_take_no_room() {
    run("loss::connections_that_were_lost_take_no_room", |rank| {
        let large = FabricSettings {
            send_entries: 4096,
            ..settings()
        };
        let mut side = Side::connected(rank, large);
        for _ in 0..10 {
            stream_both_ways(&mut side, 10);
            side.meet(rank);
            lose_and_connect(&mut side, rank);
        }
        stream_both_ways(&mut side, 10);
        side.close(rank);
    });
}

#[test]
fn a_killed_peer_is_noticed_by_who_only_waits() {
    if !in_guest() {
        return;
    }
    Cast::new("loss::a_killed_peer_is_noticed_by_who_only_waits")
        .ranks(2)
        .dies(1)
        .limit(Duration::from_secs(120))
        .run(|rank| {
            let patient = FabricSettings {
                keep_alive: Duration::from_millis(300),
                timeout: 12,
                ..settings()
            };
            let mut side = Side::connected(rank, patient);
            stream_both_ways(&mut side, 20);
            if rank.rank == 1 {
                die();
            }
            let start = Instant::now();
            side.progress_until("the news", |side| side.failed.is_some());
            println!(
                "REPORT: the death is known after {} ms",
                start.elapsed().as_millis()
            );
            assert!(
                matches!(side.failed, Some(ConnectionFailure::Lost(_))),
                "{:?}",
                side.failed
            );
            let refused = side.fabric.send(side.peer, 1, 1, 0, |_| {});
            assert!(matches!(refused, Err(SendRefused::Failed)), "{refused:?}");
        });
}

#[test]
fn nobody_there_is_an_error_in_time() {
    if !in_guest() {
        return;
    }
    let impatient = FabricSettings {
        greeting: Duration::from_millis(500),
        ..settings()
    };
    let mut fabric = Fabric::open(impatient, 1, 2, Vec::new()).expect("the fabric opens");
    let mut nobody = fabric.address();
    nobody.first.greeter = 0x00ff_fff0;
    let connection = fabric.connect(&nobody, 99, 3).expect("it only begins");
    let mut arrivals = Arrivals::new();
    let event = loop {
        if let Some(event) = fabric.poll(&mut arrivals) {
            break event;
        }
    };
    let Event::Failed {
        connection: who,
        why,
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(who, connection);
    assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
}
