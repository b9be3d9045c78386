//! What a user of a line ring relies on.

mod in_one_step;
mod lines;
mod queue;

use super::{INLINE_PAYLOAD, LineConsumer, LineProducer, MIN_LINES, Shape, area_len};
use crate::ring::{GeometryError, LINE, Mapped, heap};

fn ring(lines: u32) -> (LineProducer<Mapped>, LineConsumer<Mapped>) {
    let mem = heap(area_len(lines));
    (
        LineProducer::new(mem.clone(), lines).expect("geometry"),
        LineConsumer::new(mem, lines).expect("geometry"),
    )
}

/// A ring with a hot lap of so many lines.
fn ring_with_hot(lines: u32, hot: u64) -> (LineProducer<Mapped>, LineConsumer<Mapped>) {
    let mem = heap(area_len(lines));
    let shape = Shape::with_hot(&mem, lines, hot).expect("geometry");
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
    room.publish((seed % 254) as u8 + 1, seed);
    true
}

/// The same with a tag of its own, which may be that of the record before.
fn send_tagged(producer: &mut LineProducer<Mapped>, (seed, tag): (u64, u64), len: u32) -> bool {
    let Some(mut room) = producer.reserve_tagged(len, tag) else {
        return false;
    };
    room.write_bytes(0, &pattern(seed, len));
    room.publish((seed % 254) as u8 + 1, tag);
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
    assert_eq!((record.tag, record.length()), (tag, len));
    assert_eq!(record.kind, (seed % 254) as u8 + 1);
    let mut payload = vec![0; len as usize];
    assert!(record.read_bytes(0, &mut payload));
    assert_eq!(payload, pattern(seed, len));
    consumer.pop();
}

/// Takes the oldest record off, and checks all of it against its seed.
fn receive(consumer: &mut LineConsumer<Mapped>) -> Option<(u64, u32)> {
    let record = consumer.peek().expect("honest producer")?;
    let (seed, len) = (record.tag, record.length());
    assert_eq!(record.kind, (seed % 254) as u8 + 1);
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
    room.write_bytes(0, b"hello ");
    room.write_bytes(6, b"world");
    room.publish(3, u64::MAX - 1);
    let record = consumer.peek().expect("honest").expect("record");
    assert_eq!((record.kind, record.tag), (3, u64::MAX - 1));
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
        room.publish(1, 6);
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
    for &(lines, hot) in sizes {
        let (mut producer, mut consumer) = ring_with_hot(lines, hot);
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
fn ring_line_returns_credit_on_demand() {
    let (mut producer, mut consumer) = ring(16);
    while send(&mut producer, 1, 8) {}
    assert_eq!(receive(&mut consumer), Some((1, 8)));
    assert!(
        producer.reserve(8).is_none(),
        "half a line is less than a quarter of the ring"
    );
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

#[test]
fn ring_line_shows_the_last_receipt_until_it_is_reset() {
    let (mut producer, mut consumer) = ring(8);
    assert_eq!(producer.receipt(), 0);
    for seed in 1..50 {
        assert!(send(&mut producer, seed, 70));
        assert_eq!(receive(&mut consumer), Some((seed, 70)));
        assert_eq!(producer.receipt(), seed - 1, "records leave it alone");
        consumer.give_receipt(seed);
        assert_eq!(producer.receipt(), seed);
    }
    consumer.reset();
    assert_eq!(producer.receipt(), 0);
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
