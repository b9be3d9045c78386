//! A peer that writes whatever it likes into the ring.

use proptest::prelude::*;

use super::{
    ENDS_LINE, FIRST, LINE_WORDS, LineConsumer, LineProducer, PAD, READ, SAME_TAG, Shape, area_len,
    header,
};
use crate::ring::{LINE, Mapped, Memory, heap};
use crate::sync::Ordering;

const LINES: u32 = 16;

fn consumer() -> (Mapped, LineConsumer<Mapped>) {
    let mem = heap(area_len(LINES));
    (
        mem.clone(),
        LineConsumer::new(mem, LINES).expect("geometry"),
    )
}

/// Both ends of a ring with two laps.
fn two_laps() -> (Mapped, LineProducer<Mapped>, LineConsumer<Mapped>) {
    let mem = heap(area_len(LINES));
    let shape = Shape::with_hot(&mem, LINES, 4).expect("geometry");
    let producer = LineProducer::of(mem.clone(), shape);
    (mem.clone(), producer, LineConsumer::of(mem, shape))
}

fn put(mem: &Mapped, index: usize, word: u64) {
    mem.word64(FIRST + index * LINE)
        .store(word, Ordering::Release);
}

/// Position of the first word of a line.
const fn at(line: u64) -> u64 {
    line * LINE_WORDS
}

/// Reads all of what the ring shows, as a receiver does that trusts its checks.
fn drain(consumer: &mut LineConsumer<Mapped>, most: usize) {
    let mut private = vec![0; area_len(LINES)];
    for _ in 0..most {
        match consumer.peek() {
            Ok(Some(record)) => {
                let len = record.length() as usize;
                assert!(record.read_bytes(0, &mut private[..len]));
            }
            Ok(None) => return,
            Err(error) => {
                assert!(error.to_string().contains("corrupt ring"));
                return;
            }
        }
        consumer.pop();
    }
}

#[test]
fn ring_line_reports_each_kind_of_bad_header() {
    let max = LineProducer::new(heap(area_len(LINES)), LINES)
        .expect("geometry")
        .max_record_payload();
    for (word, what) in [
        (1, "kind 0"),
        (header(8, 1, 5), "check field"),
        (header(max + 1, 1, 0), "longer"),
        (header(u32::MAX, 1, 0), "longer"),
        (header(LINES * 8, PAD, 0), "pad"),
        (u64::MAX, "check field"),
    ] {
        let (mem, mut consumer) = consumer();
        put(&mem, 0, word);
        let error = consumer.peek().expect_err("a bad header");
        assert!(error.what.contains(what), "{word:#x}: {error}");
        assert_eq!((error.word, error.position), (word, 0));
        assert!(consumer.peek().is_err(), "it stays bad");
        consumer.reset();
        assert!(consumer.peek().expect("clean").is_none());
    }
}

#[test]
fn ring_line_refuses_records_and_pads_that_leave_the_ring() {
    let (mem, mut consumer) = consumer();
    // Honest records up to the last line but one.
    for index in 0..14 {
        let line = header(0, 1, at(index as u64)) | ENDS_LINE;
        put(&mem, index, line);
        assert!(consumer.peek().expect("fine").is_some());
        consumer.pop();
    }
    put(&mem, 14, header(3 * 64 - 16, 1, at(14)));
    assert!(consumer.peek().is_err(), "three lines, and two are left");
    put(&mem, 14, header(8, PAD, at(14)));
    assert!(consumer.peek().is_err(), "a pad of one line too few");
    put(&mem, 14, header(16, PAD, at(14)));
    put(&mem, 0, header(16 * 8, PAD, at(16)));
    assert!(consumer.peek().is_err(), "a pad behind a pad");
}

#[test]
fn ring_line_refuses_jumps_that_lead_nowhere() {
    let (mem, mut alone) = consumer();
    put(&mem, 0, header(0, PAD, 0));
    assert!(alone.peek().is_err(), "there is no other lap");
    let (mem, _, mut consumer) = two_laps();
    put(&mem, 0, header(0, PAD, 0));
    put(&mem, 4, header(0, PAD, 0));
    put(&mem, 1, header(0, PAD, at(1)));
    assert!(consumer.peek().is_err(), "to and fro without a record");
    let (mem, _, mut consumer) = two_laps();
    put(&mem, 0, header(0, PAD, 0));
    assert!(consumer.peek().expect("nothing yet").is_none());
    put(&mem, 4, header(8, 1, 0));
    assert!(consumer.peek().expect("the record").is_some());
}

/// What was shown is not taken off at the place to which a pad leads.
#[test]
fn ring_line_takes_nothing_off_where_a_record_has_become_a_pad() {
    let record = |position| header(0, 1, position) | ENDS_LINE;
    let (mem, mut alone) = consumer();
    put(&mem, 0, record(0));
    assert!(alone.peek().expect("fine").is_some());
    alone.pop();
    put(&mem, 1, record(at(1)));
    assert!(alone.peek().expect("fine").is_some());
    put(&mem, 0, 0);
    put(&mem, 1, header(15 * 8, PAD, at(1)));
    assert!(alone.peek().expect("nothing yet").is_none());
    alone.pop();
    put(&mem, 0, record(at(16)));
    assert!(alone.peek().expect("the next one").is_some());

    let (mem, _, mut consumer) = two_laps();
    put(&mem, 0, record(0));
    assert!(consumer.peek().expect("fine").is_some());
    put(&mem, 0, header(0, PAD, 0));
    assert!(consumer.peek().expect("nothing yet").is_none());
    consumer.pop();
    put(&mem, 4, record(0));
    assert!(consumer.peek().expect("the next one").is_some());
}

#[test]
fn ring_line_producer_ignores_impossible_credit() {
    let mem = heap(area_len(LINES));
    let mut producer = LineProducer::new(mem.clone(), LINES).expect("geometry");
    let mut sent = 0_u64;
    while let Some(room) = producer.reserve(8) {
        room.publish(1, 0);
        sent += 1;
    }
    for read in [u64::MAX, sent * 4 + 1, 1 << 63] {
        mem.word64(READ[0]).store(read, Ordering::Release);
        assert!(
            producer.reserve(8).is_none(),
            "more words read than written"
        );
    }
    mem.word64(READ[0]).store(at(2), Ordering::Release);
    assert!(producer.reserve(8).is_some());
    mem.word64(READ[0]).store(at(1), Ordering::Release);
    for _ in 0..4 {
        producer.reserve(8).expect("the credit stays").publish(1, 0);
    }
    assert!(producer.reserve(8).is_none());
}

/// Words that are all noise, or a nearly legal header.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (
            0..2000_u32,
            prop::sample::select(vec![0, ENDS_LINE, SAME_TAG, SAME_TAG | ENDS_LINE]),
            any::<u8>(),
            any::<u8>(),
            0..512_u64
        )
            .prop_map(|(len, bits, kind, unused, position)| {
                header(len, kind, position) | bits | u64::from(unused) << 40
            }),
        (0..136_u32, 0..512_u64).prop_map(|(words, position)| header(words, PAD, position)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn ring_line_survives_garbage_in_every_word(
        words in prop::collection::vec((0..area_len(LINES) / 8, word()), 1..if cfg!(miri) { 15 } else { 60 }),
    ) {
        let (mem, mut producer, mut consumer) = two_laps();
        for (at, word) in words {
            mem.word64(at * 8).store(word, Ordering::Release);
            drain(&mut consumer, 64);
            let tag = word % 2;
            let bytes = vec![1; (word % 700) as usize];
            if let Some(mut room) = producer.reserve_tagged(bytes.len() as u32, tag) {
                room.write_bytes(0, &bytes);
                room.publish(1, tag);
            }
            if consumer.peek().is_err() && word % 3 == 0 {
                consumer.reset();
            }
        }
    }

    #[test]
    fn ring_line_survives_garbage_aimed_at_its_position(
        words in prop::collection::vec((0..700_u32, 1..=255_u8, any::<bool>(), any::<bool>()), 1..if cfg!(miri) { 20 } else { 80 }),
    ) {
        let (mem, _, mut consumer) = two_laps();
        for (len, kind, fix_pad, ends_line) in words {
            let (position, lap) = consumer.position();
            let offset = consumer.next_offset();
            // To the other lap, or over the end of this one.
            let pad = if ends_line { 0 } else { (FIRST + [256, 1024][lap] - offset) as u32 / 8 };
            let len = if kind == PAD && fix_pad { pad } else { len };
            let bits = match (ends_line, len % 2) {
                _ if kind == PAD => 0,
                (true, _) => ENDS_LINE,
                (false, 1) => SAME_TAG,
                _ => 0,
            };
            mem.word64(offset)
                .store(header(len, kind, position) | bits, Ordering::Release);
            drain(&mut consumer, 3);
        }
    }
}
