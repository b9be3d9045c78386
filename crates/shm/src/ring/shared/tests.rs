//! What users of a shared ring rely on.

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;

use super::{MAX_PAYLOAD, MAX_SENDERS, Peek, SharedConsumer, SharedProducer, area_len};
use crate::ring::watchdog::Watchdog;
use crate::ring::{GeometryError, Mapped, heap};

fn ring(slots: u32, senders: u32) -> (Vec<SharedProducer<Mapped>>, SharedConsumer<Mapped>) {
    let mem = heap(area_len(slots));
    (
        (0..senders)
            .map(|id| SharedProducer::new(mem.clone(), slots, id).expect("geometry"))
            .collect(),
        SharedConsumer::new(mem, slots).expect("geometry"),
    )
}

fn pattern(seed: u64, len: u32) -> Vec<u8> {
    (0..u64::from(len))
        .map(|i| (seed * 131 + i * 7) as u8)
        .collect()
}

fn send(producer: &mut SharedProducer<Mapped>, seed: u64, len: u32) -> bool {
    let Some(mut room) = producer.reserve(len) else {
        return false;
    };
    room.write_bytes(0, &pattern(seed, len));
    room.publish((seed % 255) as u8 + 1, seed);
    true
}

/// Takes the oldest record off, and checks it: (sender, seed, length).
fn receive(consumer: &mut SharedConsumer<Mapped>) -> Option<(u32, u64, u32)> {
    let Peek::Ready(sender, record) = consumer.peek().expect("honest senders") else {
        return None;
    };
    let (seed, len) = (record.tag, record.length());
    assert_eq!(record.kind, (seed % 255) as u8 + 1);
    let mut payload = vec![0; len as usize];
    assert!(record.read_bytes(0, &mut payload));
    assert!(!record.read_bytes(1, &mut payload) || len == 0);
    assert_eq!(payload, pattern(seed, len));
    consumer.pop();
    Some((sender, seed, len))
}

/// Claims a slot and dies.
fn claim_and_die(producer: &mut SharedProducer<Mapped>) {
    std::mem::forget(producer.reserve(8).expect("room"));
}

#[test]
fn ring_shared_moves_records_of_several_senders_in_order() {
    let (mut producers, mut consumer) = ring(4, 3);
    for lap in 0..10 {
        assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
        for (id, producer) in producers.iter_mut().enumerate() {
            assert!(send(
                producer,
                lap * 3 + id as u64,
                MAX_PAYLOAD - lap as u32
            ));
        }
        for id in 0..3 {
            let expected = (id, lap * 3 + u64::from(id), MAX_PAYLOAD - lap as u32);
            assert_eq!(receive(&mut consumer), Some(expected));
        }
        consumer.pop();
        assert!(
            receive(&mut consumer).is_none(),
            "a pop too many does nothing"
        );
    }
}

#[test]
fn ring_shared_is_full_without_spoiling_anything_and_goes_on() {
    let (mut producers, mut consumer) = ring(4, 2);
    for seed in 0..4 {
        assert!(send(&mut producers[0], seed, 8));
    }
    for _ in 0..3 {
        assert!(producers[0].reserve(8).is_none());
        assert!(producers[1].reserve(8).is_none());
    }
    assert_eq!(receive(&mut consumer), Some((0, 0, 8)));
    assert!(send(&mut producers[1], 9, 8), "one slot is free again");
    assert!(producers[0].reserve(0).is_none());
    for expected in [(0, 1, 8), (0, 2, 8), (0, 3, 8), (1, 9, 8)] {
        assert_eq!(receive(&mut consumer), Some(expected));
    }
    assert!(producers[0].reserve(MAX_PAYLOAD + 1).is_none());
}

#[test]
fn ring_shared_names_the_sender_that_died_and_goes_on_without_it() {
    let (mut producers, mut consumer) = ring(4, 3);
    for round in 0..9 {
        assert!(send(&mut producers[0], round, 8));
        claim_and_die(&mut producers[1]);
        assert!(send(&mut producers[2], round + 100, 8));
        assert!(!consumer.skip_stalled(), "the first one is ready");
        assert_eq!(receive(&mut consumer), Some((0, round, 8)));
        assert!(matches!(consumer.peek(), Ok(Peek::Stalled { sender: 1 })));
        consumer.pop();
        assert!(
            matches!(consumer.peek(), Ok(Peek::Stalled { sender: 1 })),
            "pop is no skip"
        );
        assert!(consumer.skip_stalled());
        assert!(!consumer.skip_stalled());
        assert_eq!(receive(&mut consumer), Some((2, round + 100, 8)));
        assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
        assert!(!consumer.skip_stalled(), "nothing to skip");
    }
}

#[test]
fn ring_shared_gives_what_lies_behind_a_claim_of_another_sender() {
    let (mut producers, mut consumer) = ring(8, 4);
    for round in 0..20 {
        let [stopped, dead, other, _] = &mut producers[..] else {
            unreachable!("there are four");
        };
        let claim = stopped.reserve(8).expect("room");
        assert!(send(dead, round, 8));
        assert!(send(other, round + 100, 8));
        assert!(send(dead, round + 200, 8));
        claim_and_die(dead);
        let mut tags = Vec::new();
        consumer.take_from(1, |record| tags.push(record.tag));
        assert_eq!(tags, [round, round + 200]);
        consumer.take_from(1, |_| unreachable!("they are taken"));
        assert!(matches!(consumer.peek(), Ok(Peek::Stalled { sender: 0 })));
        drop(claim);
        assert_eq!(receive(&mut consumer), Some((2, round + 100, 8)));
        assert!(matches!(consumer.peek(), Ok(Peek::Stalled { sender: 1 })));
        assert!(consumer.skip_stalled());
        assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
    }
}

#[test]
fn ring_shared_passes_over_dropped_reservations() {
    let (mut producers, mut consumer) = ring(4, 1);
    for seed in 0..10 {
        drop(producers[0].reserve(8).expect("room"));
        drop(producers[0].reserve(8).expect("room"));
        assert!(send(&mut producers[0], seed, 8));
        assert_eq!(receive(&mut consumer), Some((0, seed, 8)));
        assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
    }
    for _ in 0..4 {
        drop(producers[0].reserve(8).expect("room"));
    }
    assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
    assert!(send(&mut producers[0], 1, 8), "their slots are free");
}

#[test]
fn ring_shared_refuses_a_wrong_geometry() {
    for slots in [0, 1, 3, 1 << 21] {
        assert!(matches!(
            SharedConsumer::new(heap(4096), slots),
            Err(GeometryError::Count { given, .. }) if given == slots
        ));
    }
    assert!(matches!(
        SharedProducer::new(heap(area_len(4) - 64), 4, 0),
        Err(GeometryError::TooSmall { .. })
    ));
    assert!(matches!(
        SharedProducer::new(heap(area_len(4)), 4, MAX_SENDERS),
        Err(GeometryError::Sender {
            given: MAX_SENDERS,
            limit: MAX_SENDERS
        })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn ring_shared_behaves_as_a_queue(
        log_slots in 1..5_u32,
        steps in prop::collection::vec((0..5_u8, 0..3_usize, 0..=MAX_PAYLOAD), 1..if cfg!(miri) { 25 } else { 400 }),
    ) {
        let slots = 1 << log_slots;
        let (mut producers, mut consumer) = ring(slots, 3);
        // What the ring holds: a record, or a claim of a dead sender.
        let mut model: VecDeque<(u32, Option<(u64, u32)>)> = VecDeque::new();
        for (seed, (action, id, len)) in steps.into_iter().enumerate() {
            let producer = &mut producers[id];
            let full = model.len() == slots as usize;
            match action {
                0 | 1 => {
                    prop_assert_eq!(send(producer, seed as u64, len), !full);
                    if !full {
                        model.push_back((id as u32, Some((seed as u64, len))));
                    }
                }
                2 if !full => {
                    claim_and_die(producer);
                    model.push_back((id as u32, None));
                }
                _ => match model.pop_front() {
                    Some((sender, Some((seed, len)))) => {
                        prop_assert_eq!(receive(&mut consumer), Some((sender, seed, len)));
                    }
                    Some((dead, None)) => {
                        let stalled = matches!(
                            consumer.peek(), Ok(Peek::Stalled { sender }) if sender == dead
                        );
                        prop_assert!(stalled && consumer.skip_stalled());
                    }
                    None => prop_assert!(matches!(consumer.peek(), Ok(Peek::Empty))),
                },
            }
            prop_assert!(!consumer.repair_head(), "all are honest");
        }
    }
}

#[test]
fn ring_shared_keeps_each_senders_order_between_threads() {
    const SENDERS: u32 = 3;
    let (producers, mut consumer) = ring(8, SENDERS + 1);
    let records: u64 = if cfg!(miri) { 15 } else { 60_000 };
    let threads: Vec<_> = producers
        .into_iter()
        .enumerate()
        .map(|(id, mut producer)| {
            thread::spawn(move || {
                let watchdog = Watchdog::new();
                if id as u32 == SENDERS {
                    // The fourth one dies in the middle of its first record.
                    loop {
                        if let Some(room) = producer.reserve(8) {
                            std::mem::forget(room);
                            return;
                        }
                        watchdog.turn();
                    }
                }
                for seed in 0..records {
                    let len = (seed * 37 % u64::from(MAX_PAYLOAD + 1)) as u32;
                    while !send(&mut producer, seed, len) {
                        watchdog.turn();
                    }
                }
            })
        })
        .collect();
    let watchdog = Watchdog::new();
    let mut next = [0; SENDERS as usize];
    let mut died = 0;
    while died == 0 || next.iter().any(|&seed| seed < records) {
        match receive(&mut consumer) {
            Some((sender, seed, _)) => {
                assert_eq!(seed, next[sender as usize]);
                next[sender as usize] += 1;
            }
            None => {
                if matches!(consumer.peek(), Ok(Peek::Stalled { sender: SENDERS })) {
                    assert!(consumer.skip_stalled());
                    died += 1;
                }
                assert!(!consumer.repair_head(), "all are honest");
                watchdog.turn();
            }
        }
    }
    assert_eq!(died, 1);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("sender"));
    assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
}

#[test]
fn ring_shared_is_looked_at_without_a_claim() {
    let (mut producers, mut consumer) = ring(4, 2);
    for round in 0..20 {
        for seed in 0..4 {
            assert!(producers[1].has_room(), "round {round}");
            assert!(matches!(
                consumer.peek().expect("in order"),
                Peek::Empty | Peek::Ready(..)
            ));
            assert!(send(&mut producers[0], seed, 8));
        }
        assert!(!producers[1].has_room(), "round {round}");
        for seed in 0..4 {
            assert_eq!(receive(&mut consumer), Some((0, seed, 8)));
        }
        // No look has left a record.
        assert_eq!(receive(&mut consumer), None);
    }
}
