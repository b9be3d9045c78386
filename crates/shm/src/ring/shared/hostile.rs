//! A sender that writes whatever it likes into the ring.

use proptest::prelude::*;

use super::{
    CLAIMED, FIRST, FREE, HEAD, MAX_PAYLOAD, Peek, READY, SLOT, SharedConsumer, SharedProducer,
    area_len, meta, state,
};
use crate::ring::{Mapped, Memory, heap};
use crate::sync::Ordering;

const SLOTS: u32 = 4;

fn ring() -> (Mapped, SharedProducer<Mapped>, SharedConsumer<Mapped>) {
    let mem = heap(area_len(SLOTS));
    let producer = SharedProducer::new(mem.clone(), SLOTS, 5).expect("geometry");
    (
        mem.clone(),
        producer,
        SharedConsumer::new(mem, SLOTS).expect("geometry"),
    )
}

fn put(mem: &Mapped, offset: usize, word: u64) {
    mem.word64(offset).store(word, Ordering::Release);
}

fn send(producer: &mut SharedProducer<Mapped>, tag: u64) -> bool {
    producer
        .reserve(8)
        .map(|room| room.publish(1, tag))
        .is_some()
}

/// Takes all off, as a receiver does that believes every claim to be a dead one's.
/// Returns the tags.
fn drain(consumer: &mut SharedConsumer<Mapped>) -> Vec<u64> {
    let mut tags = Vec::new();
    for _ in 0..4 * SLOTS {
        match consumer.peek() {
            Ok(Peek::Empty) => break,
            Ok(Peek::Ready(_, record)) => {
                let mut private = [0; MAX_PAYLOAD as usize];
                assert!(record.read_bytes(0, &mut private[..record.length() as usize]));
                tags.push(record.tag);
                consumer.pop();
            }
            Ok(Peek::Stalled { .. }) => assert!(consumer.skip_stalled()),
            Err(error) => {
                assert!(error.to_string().contains("corrupt ring"));
                assert!(consumer.skip_corrupt());
            }
        }
    }
    tags
}

#[test]
fn ring_shared_reports_each_kind_of_bad_slot_and_frees_it() {
    for (word, third, what) in [
        (state(READY, 3, 1), meta(8, 1), "another lap"),
        (state(CLAIMED, 3, u64::MAX), meta(8, 1), "another lap"),
        (state(FREE, 3, 0), meta(8, 1), "names a sender"),
        (state(3, 3, 0), meta(8, 1), "no such phase"),
        (state(READY, 3, 0), meta(MAX_PAYLOAD + 1, 1), "longer"),
        (state(READY, 3, 0), meta(u32::MAX, 0), "longer"),
    ] {
        let (mem, mut producer, mut consumer) = ring();
        put(&mem, FIRST, word);
        put(&mem, FIRST + 16, third);
        let error = consumer.peek().expect_err("a bad slot");
        assert!(error.what.contains(what), "{error}");
        assert!(consumer.skip_corrupt());
        assert!(!consumer.skip_corrupt());
        for tag in 0..20 {
            assert!(send(&mut producer, tag), "{what}: the ring works on");
            assert_eq!(drain(&mut consumer), [tag]);
        }
    }
}

#[test]
fn ring_shared_heals_from_any_head_hint() {
    for head in [
        0,
        1,
        3,
        4,
        5,
        11,
        12,
        13,
        1 << 20,
        1 << 43,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ] {
        for before in [0, 1, 9] {
            let (mem, mut producer, mut consumer) = ring();
            for tag in 0..before {
                assert!(send(&mut producer, tag));
                assert_eq!(drain(&mut consumer), [tag]);
            }
            put(&mem, HEAD, head);
            let mut got = Vec::new();
            for tag in 0..20 {
                // The order of what was sent under a wrong hint is not promised.
                let sent = send(&mut producer, tag);
                consumer.repair_head();
                got.extend(drain(&mut consumer));
                assert!(
                    sent || tag < 2,
                    "hint {head}, {before} before: stuck at {tag}"
                );
            }
            assert!(
                got.ends_with(&[17, 18, 19]),
                "hint {head}, {before} before: {got:?}"
            );
        }
    }
}

#[test]
fn ring_shared_ends_a_flood_of_void_records() {
    let (mem, _, mut consumer) = ring();
    for slot in 0..SLOTS as usize {
        put(&mem, FIRST + slot * SLOT, state(READY, 1, 0));
    }
    assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..64_u64,
        (0..4_u64, 0..8_u32, 0..6_u64).prop_map(|(phase, id, lap)| state(phase, id, lap)),
        (0..300_u32, any::<u8>()).prop_map(|(len, kind)| meta(len, kind)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn ring_shared_survives_garbage_in_every_word(
        words in prop::collection::vec((0..6_usize, 0..3_usize, word()), 1..if cfg!(miri) { 15 } else { 60 }),
    ) {
        let (mem, mut producer, mut consumer) = ring();
        for (place, nth, word) in words {
            // One of the three words of a slot, or the head hint.
            let offset = if place < 4 { FIRST + place * SLOT + nth * 8 } else { HEAD };
            put(&mem, offset, word);
            send(&mut producer, word);
            if nth == 0 {
                drain(&mut consumer);
            }
        }
        // Once it ends, the ring recovers within a few laps.
        for _ in 0..4 * SLOTS {
            send(&mut producer, 1);
            consumer.repair_head();
            drain(&mut consumer);
        }
        for tag in 100..110 {
            prop_assert!(send(&mut producer, tag));
            consumer.repair_head();
            prop_assert_eq!(drain(&mut consumer), vec![tag]);
        }
    }
}
