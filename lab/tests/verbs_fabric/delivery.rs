//! What is sent arrives, in order; transfers move the right bytes; completions have room.

use core::time::Duration;
use std::time::Instant;

use limic_ibverbs::fabric::{Arrivals, Event, Fabric, FabricAddress, FabricSettings, RemoteRange};
use limic_ibverbs::objects::Access;

use crate::side::{Side, run, settings, stream_both_ways};

#[test]
fn messages_arrive_in_order_both_ways() {
    run("delivery::messages_arrive_in_order_both_ways", |rank| {
        let mut side = Side::connected(rank, settings());
        stream_both_ways(&mut side, 600);
        let counts = side.fabric.counts();
        assert!(
            counts.ring_messages > 0,
            "a peer that talks a lot gets a ring"
        );
        println!("REPORT: rank {}: {counts:?}", rank.rank);
        side.close(rank);
    });
}

#[test]
fn small_queues_and_no_ring_still_deliver() {
    run("delivery::small_queues_and_no_ring_still_deliver", |rank| {
        for coalesce in [true, false] {
            let mut side = Side::connected(
                rank,
                FabricSettings {
                    send_entries: 2,
                    ring_slots: 0,
                    receives: 8,
                    coalesce,
                    ..settings()
                },
            );
            stream_both_ways(&mut side, 200);
            let counts = side.fabric.counts();
            if coalesce {
                assert!(counts.packets < counts.messages, "{counts:?}");
            } else {
                assert!(counts.packets >= 200, "{counts:?}");
            }
            side.close(rank);
        }
    });
}

#[test]
fn transfers_move_the_right_bytes() {
    run("delivery::transfers_move_the_right_bytes", |rank| {
        const LEN: usize = 300_000;
        let mut side = Side::connected(
            rank,
            FabricSettings {
                streams: 2,
                stripe_bytes: 65_536,
                ..settings()
            },
        );
        let mut memory: Vec<u8> = (0..2 * LEN)
            .map(|at| (at * 7 + rank.rank as usize) as u8)
            .collect();
        let access = Access::LOCAL | Access::REMOTE_READ;
        // SAFETY: the memory lives until the registration is dropped, and is looked at only after
        // the transfer.
        let spread = unsafe {
            side.fabric
                .register(memory.as_mut_ptr(), memory.len(), access)
        };
        let spread = spread.expect("registered");
        let mut blob = spread.start().to_le_bytes().to_vec();
        blob.extend(spread.remote_keys().to_le_bytes());
        let blobs = rank.link.exchange(&blob);
        if rank.rank == 0 {
            let blob = blobs[1].as_deref().expect("the peer's range");
            let word = |at: usize| u64::from_le_bytes(blob[at..at + 8].try_into().expect("eight"));
            let remote = RemoteRange {
                start: word(0),
                keys: word(8),
            };
            // SAFETY: the memory stays as it is until the event.
            let begun = unsafe { side.fabric.read(side.peer, remote, &spread, LEN, LEN, 2) };
            begun.expect("read");
            side.progress_until("the transfer", |side| !side.transferred.is_empty());
            assert_eq!(side.transferred, [(2, Ok(()))]);
            let expected = |at: usize| (at * 7 + 1) as u8;
            assert!((0..LEN).all(|at| memory[LEN + at] == expected(at)), "read");
            side.send(1, 0, b"done");
        } else {
            side.progress_until("the word", |side| !side.received.is_empty());
        }
        drop(spread);
        side.close(rank);
    });
}

/// Peers whose sends and receives may all complete before anybody looks: more than a completion
/// queue holds at first (1040).
const SPOKES: u64 = 60;

#[test]
fn a_completion_queue_grows_with_the_connections() {
    run(
        "delivery::a_completion_queue_grows_with_the_connections",
        |rank| {
            let small = FabricSettings {
                send_entries: 16,
                receives: 16,
                packets: 64,
                packet_bytes: 1024,
                rings: 0,
                ..settings()
            };
            let own = if rank.rank == 0 { 1 } else { SPOKES };
            let mut fabrics: Vec<(Fabric, Arrivals)> = (0..own)
                .map(|number| {
                    let id = u64::from(rank.rank) * 1000 + number + 1;
                    let fabric = Fabric::open(small.clone(), id, id ^ rank.seed, Vec::new());
                    (fabric.expect("the fabric opens"), Arrivals::new())
                })
                .collect();
            let hub = fabrics[0].0.address().to_bytes();
            let blobs = rank.link.exchange(&hub);
            if rank.rank == 1 {
                let hub = blobs[0].as_deref().expect("its address");
                let hub = FabricAddress::from_bytes(hub).expect("an address");
                for (fabric, _) in &mut fabrics {
                    let begun = fabric.connect(&hub, 1, 1 ^ rank.seed);
                    begun.expect("connect");
                }
            }
            // Each spoke says its number to the hub, which says it back.
            let (mut connected, mut heard) = (0, 0);
            let start = Instant::now();
            while heard < SPOKES {
                assert!(
                    start.elapsed() < Duration::from_secs(100),
                    "{connected} connected, {heard} heard of {SPOKES}"
                );
                for (fabric, arrivals) in &mut fabrics {
                    match fabric.poll(arrivals) {
                        Some(Event::Connected { connection, .. }) => {
                            connected += 1;
                            if rank.rank == 1 {
                                fabric
                                    .send(connection, 1, 7, 1, |room| room.fill(9))
                                    .expect("a new connection has room");
                            }
                        }
                        Some(Event::Messages) => {
                            let messages = arrivals.messages();
                            heard += messages
                                .map(|(_, payload)| assert_eq!(payload, [9]))
                                .count() as u64;
                            if rank.rank == 0 {
                                fabric
                                    .send(arrivals.connection(), 1, 7, 1, |room| room.fill(9))
                                    .expect("a connection that is not used has room");
                            }
                        }
                        Some(Event::Failed { why, .. }) => panic!("{why}"),
                        Some(Event::Transferred { .. } | Event::More { .. }) | None => {}
                    }
                }
            }
            let _ = rank.link.exchange_while(b"heard", || {
                for (fabric, arrivals) in &mut fabrics {
                    let _ = fabric.poll(arrivals);
                }
            });
            for (mut fabric, _) in fabrics {
                fabric.close(Instant::now() + Duration::from_secs(1));
            }
            let _ = rank.link.exchange(b"closed");
        },
    );
}
