//! What a user of a line ring relies on.

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;

use super::{INLINE_PAYLOAD, LineConsumer, LineProducer, MIN_LINES, NEAR_LINES, Shape, area_len};
use crate::ring::watchdog::Watchdog;
use crate::ring::{GeometryError, LINE, Mapped, Memory, heap};
use crate::sync::Ordering::Relaxed;

fn ring(lines: u32) -> (LineProducer<Mapped>, LineConsumer<Mapped>) {
    let mem = heap(area_len(lines));
    (
        LineProducer::new(mem.clone(), lines).expect("geometry"),
        LineConsumer::new(mem, lines).expect("geometry"),
    )
}

/// A ring with a near lap of so many lines.
fn ring_with_near(lines: u32, near: u64) -> (LineProducer<Mapped>, LineConsumer<Mapped>) {
    let mem = heap(area_len(lines));
    let shape = Shape::with_near(&mem, lines, near).expect("geometry");
    (
        LineProducer::of(mem.clone(), shape),
        LineConsumer::of(mem, shape),
    )
}

/// Payload that tells records and bytes apart.
fn pattern(seed: u64, len: u32) -> Vec<u8> {
    (0..u64::from(len))
        .map(|i| (seed.wrapping_mul(0x9e37) >> 3) as u8 ^ (i * 7) as u8)
        .collect()
}

fn send(producer: &mut LineProducer<Mapped>, seed: u64, len: u32) -> bool {
    let Some(mut room) = producer.reserve(len) else {
        return false;
    };
    room.write_bytes(0, &pattern(seed, len));
    room.publish((seed % 254) as u8 + 1, seed as u8, seed);
    true
}

/// The same with a tag of its own, which may be that of the record before.
fn send_tagged(producer: &mut LineProducer<Mapped>, (seed, tag): (u64, u64), len: u32) -> bool {
    let Some(mut room) = producer.reserve_tagged(len, tag) else {
        return false;
    };
    room.write_bytes(0, &pattern(seed, len));
    room.publish((seed % 254) as u8 + 1, seed as u8, tag);
    true
}

/// Takes the oldest record off, which must be the one with this seed, tag and length.
fn receive_expected(consumer: &mut LineConsumer<Mapped>, expected: Option<(u64, u64, u32)>) {
    let record = consumer.peek().expect("honest producer");
    let Some((seed, tag, len)) = expected else {
        assert!(record.is_none(), "a record too many");
        return;
    };
    let record = record.expect("a record");
    assert_eq!((record.tag, record.len), (tag, len));
    assert_eq!(record.kind, (seed % 254) as u8 + 1);
    let mut payload = vec![0; len as usize];
    assert!(record.read_bytes(0, &mut payload));
    assert_eq!(payload, pattern(seed, len));
    consumer.pop();
}

/// Takes the oldest record off, and checks all of it against its seed.
fn receive(consumer: &mut LineConsumer<Mapped>) -> Option<(u64, u32)> {
    let record = consumer.peek().expect("honest producer")?;
    let (seed, len) = (record.tag, record.len);
    assert_eq!(record.kind, (seed % 254) as u8 + 1);
    assert_eq!(record.flags, seed as u8);
    let mut payload = vec![0; len as usize];
    assert!(record.read_bytes(0, &mut payload));
    assert_eq!(payload, pattern(seed, len));
    consumer.pop();
    Some((seed, len))
}

#[test]
fn ring_line_moves_a_record_with_all_its_fields() {
    let (mut producer, mut consumer) = ring(8);
    assert!(consumer.peek().expect("empty").is_none());
    let mut room = producer.reserve(11).expect("room");
    assert_eq!(room.len(), 11);
    room.write_bytes(0, b"hello ");
    room.write_bytes(6, b"world");
    room.publish(3, 0xa5, u64::MAX - 1);
    let record = consumer.peek().expect("honest").expect("record");
    assert_eq!(
        (record.kind, record.flags, record.tag),
        (3, 0xa5, u64::MAX - 1)
    );
    let mut bytes = [0; 5];
    assert!(record.read_bytes(6, &mut bytes));
    assert_eq!(&bytes, b"world");
    assert!(!record.read_bytes(7, &mut bytes), "one byte too many");
    assert!(!record.read_bytes(u32::MAX, &mut bytes));
    consumer.pop();
    assert!(consumer.peek().expect("empty").is_none());
    consumer.pop();
    assert!(
        consumer.peek().expect("empty").is_none(),
        "a pop too many does nothing"
    );
}

#[test]
fn ring_line_shows_the_same_record_until_popped() {
    let (mut producer, mut consumer) = ring(8);
    assert!(send(&mut producer, 7, 100) && send(&mut producer, 8, 0));
    for _ in 0..3 {
        assert_eq!(consumer.peek().expect("honest").expect("record").tag, 7);
    }
    assert_eq!(receive(&mut consumer), Some((7, 100)));
    assert_eq!(receive(&mut consumer), Some((8, 0)));
}

#[test]
fn ring_line_puts_four_messages_of_a_stream_into_a_line() {
    let (mut producer, mut consumer) = ring(64);
    let mut lines = std::collections::BTreeSet::new();
    for seed in 0..40 {
        assert!(send_tagged(&mut producer, (seed, 7), 8));
        assert!(consumer.peek().expect("honest").is_some());
        lines.insert(consumer.next_offset() / LINE);
        receive_expected(&mut consumer, Some((seed, 7, 8)));
    }
    // Three in the first, since the first record says its tag.
    assert_eq!(lines.len(), 11);
    assert!(send_tagged(&mut producer, (40, 8), 8), "another tag");
    receive_expected(&mut consumer, Some((40, 8, 8)));
}

#[test]
#[should_panic(expected = "another tag")]
fn ring_line_holds_a_producer_to_the_tag_that_it_named() {
    let (mut producer, _) = ring(8);
    assert!(send_tagged(&mut producer, (1, 5), 8));
    if let Some(room) = producer.reserve_tagged(8, 5) {
        room.publish(1, 0, 6);
    }
}

#[test]
fn ring_line_forgets_a_dropped_reservation() {
    let (mut producer, mut consumer) = ring(8);
    for seed in 0..if cfg!(miri) { 12 } else { 40 } {
        let len = producer.max_record_payload();
        producer
            .reserve(len)
            .expect("room")
            .write_bytes(0, &vec![0xff; len as usize]);
        assert!(consumer.peek().expect("untouched").is_none());
        assert!(send(&mut producer, seed, INLINE_PAYLOAD));
        assert_eq!(receive(&mut consumer), Some((seed, INLINE_PAYLOAD)));
    }
}

#[test]
fn ring_line_has_room_for_every_legal_record_once_idle() {
    let sizes: &[(u32, u64)] = if cfg!(miri) {
        &[(MIN_LINES, 4), (16, 4)]
    } else {
        &[
            (MIN_LINES, 4),
            (8, 8),
            (16, 16),
            (64, 64),
            (16, 4),
            (32, 8),
            (64, 16),
        ]
    };
    for &(lines, near) in sizes {
        let (mut producer, mut consumer) = ring_with_near(lines, near);
        let max = producer.max_record_payload();
        assert!(producer.reserve(max + 1).is_none());
        assert!(producer.reserve(u32::MAX).is_none());
        // Every alignment of the next record, and every amount of unreturned credit.
        for step in 0..u64::from(lines) * 16 {
            let len = [INLINE_PAYLOAD, 8, 8, 0, 100][step as usize % 5].min(max);
            assert!(send(&mut producer, step, len));
            assert_eq!(receive(&mut consumer), Some((step, len)));
            assert!(
                producer.reserve(max).is_some(),
                "{lines} lines, step {step}"
            );
            if step % 3 == 0 {
                assert!(send(&mut producer, step, max));
                assert_eq!(receive(&mut consumer), Some((step, max)));
            }
        }
    }
}

#[test]
fn ring_line_is_full_without_spoiling_anything_and_goes_on() {
    let (mut producer, mut consumer) = ring(16);
    let mut sent = 0;
    while send(&mut producer, sent, 8) {
        sent += 1;
    }
    assert_eq!(sent, 31, "two in a line, and one word stays free");
    assert!(producer.reserve(8).is_none());
    for seed in 0..sent {
        assert_eq!(receive(&mut consumer), Some((seed, 8)));
    }
    assert!(send(&mut producer, 99, 8));
    assert_eq!(receive(&mut consumer), Some((99, 8)));
}

#[test]
fn ring_line_returns_credit_on_demand_and_shows_the_hint_with_it() {
    let (mut producer, mut consumer) = ring(16);
    while send(&mut producer, 1, 8) {}
    assert_eq!(producer.hint(), 0);
    consumer.set_hint(42);
    assert_eq!(receive(&mut consumer), Some((1, 8)));
    assert!(
        producer.reserve(8).is_none(),
        "half a line is less than a quarter of the ring"
    );
    assert_eq!(producer.hint(), 42);
    consumer.return_credit();
    assert!(send(&mut producer, 2, 8));
}

#[test]
fn ring_line_starts_anew_after_a_reset() {
    let (mut producer, mut consumer) = ring(8);
    for seed in 0..20 {
        assert!(send(&mut producer, seed, 70));
        assert_eq!(receive(&mut consumer), Some((seed, 70)));
    }
    assert!(send(&mut producer, 1, 110));
    drop(producer);
    consumer.reset();
    assert!(consumer.peek().expect("empty").is_none());
    let mut producer = LineProducer::new(consumer_memory(&consumer), 8).expect("geometry");
    for seed in 0..20 {
        assert!(send(&mut producer, seed, 70));
        assert_eq!(receive(&mut consumer), Some((seed, 70)));
    }
}

fn consumer_memory(consumer: &LineConsumer<Mapped>) -> Mapped {
    consumer.memory().clone()
}

#[test]
fn ring_line_refuses_a_wrong_geometry() {
    for lines in [0, 1, 2, 3, 12, 1 << 25] {
        assert!(matches!(
            LineConsumer::new(heap(4096), lines),
            Err(GeometryError::Count { given, .. }) if given == lines
        ));
    }
    let error = LineProducer::new(heap(area_len(64) - 64), 64).expect_err("too small");
    assert_eq!(
        error,
        GeometryError::TooSmall {
            given: 64 * 65,
            needed: 64 * 66
        }
    );
}

/// Lines that hold so many records of this length, sent at once.
fn lines_of(records: u64, len: u32) -> u64 {
    let (mut producer, consumer) = ring(64);
    for seed in 0..records {
        assert!(send(&mut producer, seed, len));
    }
    let words = consumer_memory(&consumer);
    let used =
        |line: &usize| (0..8).any(|word| words.word64(line * 64 + word * 8).load(Relaxed) != 0);
    (2..66).filter(used).count() as u64
}

#[test]
fn ring_line_moves_fewer_lines_than_short_messages() {
    assert_eq!(lines_of(32, 0), 8);
    assert_eq!(lines_of(32, 8), 16);
    assert_eq!(lines_of(32, 16), 16);
    assert_eq!(lines_of(32, 17), 32);
    assert_eq!(lines_of(32, INLINE_PAYLOAD), 32);
    assert_eq!(lines_of(30, INLINE_PAYLOAD + 8), 60);
}

#[test]
fn ring_line_shows_each_short_record_at_once() {
    let (mut producer, mut consumer) = ring(16);
    for seed in 0..200 {
        let len = [8, 0, 16, 3, 48, 8, 8, 0, 0, 100][seed as usize % 10];
        assert!(send(&mut producer, seed, len));
        assert_eq!(receive(&mut consumer), Some((seed, len)));
        assert_eq!(receive(&mut consumer), None);
    }
}

#[test]
fn ring_line_stays_near_its_start_while_the_consumer_keeps_up() {
    let (mut producer, mut consumer) = ring(1024);
    let far_is_untouched = |consumer: &LineConsumer<Mapped>| {
        let memory = consumer_memory(consumer);
        let first = area_len(NEAR_LINES as u32) / 8;
        (first..memory.len() / 8).all(|word| memory.word64(word * 8).load(Relaxed) == 0)
    };
    let keep_up = |producer: &mut _, consumer: &mut _, records| {
        for seed in 0..records {
            let len = if seed % 7 == 0 {
                2000
            } else {
                seed as u32 % 60
            };
            assert!(send(producer, seed, len));
            assert_eq!(receive(consumer), Some((seed, len)));
        }
    };
    let records = if cfg!(miri) { 300 } else { 5000 };
    keep_up(&mut producer, &mut consumer, records);
    assert!(far_is_untouched(&consumer));
    // A burst has all of the ring, and then it goes on near the start.
    for _ in 0..3 {
        let mut sent = 0;
        while send(&mut producer, sent, INLINE_PAYLOAD) {
            sent += 1;
        }
        assert!(sent > 1024 - 32 - 32 - 2, "{sent} lines");
        for seed in 0..sent {
            assert_eq!(receive(&mut consumer), Some((seed, INLINE_PAYLOAD)));
        }
        keep_up(&mut producer, &mut consumer, records);
        assert_eq!(consumer.position().1, 0, "back in the near lap");
    }
}

#[test]
fn ring_line_streams_stay_in_the_near_lap() {
    let (mut producer, mut consumer) = ring_with_near(64, 16);
    let most = producer.max_near_payload();
    assert!(producer.reserve_near(most + 1).is_none());
    let mut seed = 0;
    for round in 0..if cfg!(miri) { 20 } else { 400 } {
        // Now and then a burst that needs the far lap; then the stream waits until the near one is read.
        let burst = if round % 10 == 9 { 40 } else { round % 3 };
        let mut sent = Vec::new();
        for _ in 0..burst {
            seed += 1;
            assert!(send(&mut producer, seed, 40));
            sent.push((seed, 40));
        }
        while let Some(mut room) = producer.reserve_near(200) {
            seed += 1;
            let len = room.len();
            assert!((100..=200).contains(&len));
            room.write_bytes(0, &pattern(seed, len));
            room.publish((seed % 254) as u8 + 1, seed as u8, seed);
            sent.push((seed, len));
        }
        assert!(
            sent.len() > burst || burst == 40,
            "an empty near lap has room"
        );
        for expected in sent {
            assert_eq!(receive(&mut consumer), Some(expected));
        }
        assert_eq!(receive(&mut consumer), None);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(u32),
    Abandon(u32),
    Receive(u8),
    ReturnCredit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..1500_u32).prop_map(Step::Send),
        6 => (0..60_u32).prop_map(Step::Send),
        1 => (0..1500_u32).prop_map(Step::Abandon),
        6 => (1..6_u8).prop_map(Step::Receive),
        1 => Just(Step::ReturnCredit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn ring_line_behaves_as_a_queue(
        log_lines in 2..7_u32,
        near in 0..3_u32,
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 600 }),
    ) {
        let lines = 1 << log_lines;
        // All of it, or a quarter or an eighth of a ring that is large enough for two laps.
        let near = if near == 0 || lines >> (near + 1) < MIN_LINES { lines } else { lines >> (near + 1) };
        let (mut producer, mut consumer) = ring_with_near(lines, near.into());
        let mut model = VecDeque::new();
        let mut seed = 0;
        for step in steps {
            match step {
                Step::Send(len) => {
                    seed += 1;
                    let legal = len <= producer.max_record_payload();
                    // Three records have one tag, then three with another each.
                    let tag = if seed % 6 < 3 { seed / 6 } else { seed };
                    if send_tagged(&mut producer, (seed, tag), len) {
                        prop_assert!(legal);
                        model.push_back((seed, tag, len));
                    } else if legal {
                        prop_assert!(!model.is_empty(), "an idle ring has room");
                    }
                }
                Step::Abandon(len) => {
                    if let Some(mut room) = producer.reserve(len) {
                        room.write_bytes(0, &vec![0xee; len as usize]);
                    }
                }
                Step::Receive(count) => {
                    for _ in 0..count {
                        receive_expected(&mut consumer, model.pop_front());
                    }
                }
                Step::ReturnCredit => consumer.return_credit(),
            }
        }
        while let Some(expected) = model.pop_front() {
            receive_expected(&mut consumer, Some(expected));
        }
        receive_expected(&mut consumer, None);
    }
}

#[test]
fn ring_line_keeps_order_and_bytes_between_threads() {
    let (mut producer, mut consumer) = ring_with_near(64, 8);
    let records: u64 = if cfg!(miri) { 60 } else { 200_000 };
    let length = |seed: u64| {
        let len = match seed % 5 {
            0 => 8,
            1 => 48,
            2 => 49,
            3 => (seed * 13 % 600) as u32,
            _ => 0,
        };
        // Miri's model of weak memory cannot follow a word that is written as a
        // whole by atomics, and later in part as payload.
        if cfg!(miri) {
            len.next_multiple_of(8)
        } else {
            len
        }
    };
    let sender = thread::spawn(move || {
        let watchdog = Watchdog::new();
        for seed in 0..records {
            while !send(&mut producer, seed, length(seed)) {
                watchdog.turn();
            }
        }
    });
    let watchdog = Watchdog::new();
    for seed in 0..records {
        let received = loop {
            if let Some(received) = receive(&mut consumer) {
                break received;
            }
            watchdog.turn();
        };
        assert_eq!(received, (seed, length(seed)));
    }
    assert!(consumer.peek().expect("empty").is_none());
    sender.join().expect("sender");
}
