//! Records that are published, or taken off, in one step: they are those of two steps.

use super::{consumer_memory, pattern, ring};
use crate::ring::line::{LineConsumer, LineProducer};
use crate::ring::{Mapped, Memory};
use crate::sync::Ordering::Relaxed;

/// Sends by two steps.
fn in_two(producer: &mut LineProducer<Mapped>, tag: u64, bytes: &[u8]) -> bool {
    let Some(mut room) = producer.reserve_tagged(bytes.len() as u32, tag) else {
        return false;
    };
    room.write_bytes(0, bytes);
    room.publish(1, tag);
    true
}

/// Sends in one step, where that can be; says whether it was, and whether anything was sent. The
/// first bytes may be a word ahead of the others.
fn in_one(
    producer: &mut LineProducer<Mapped>,
    tag: u64,
    bytes: &[u8],
    has_word: bool,
) -> (bool, bool) {
    let (word, rest) = match bytes.split_first_chunk() {
        Some((word, rest)) if has_word => (Some(u64::from_ne_bytes(*word)), rest),
        _ => (None, bytes),
    };
    // SAFETY: a slice of private memory.
    let sent = unsafe {
        producer.push_same_tag::<1>(1, tag, word, rest.as_ptr(), rest.len())
            || producer.push_same_tag::<2>(1, tag, word, rest.as_ptr(), rest.len())
    };
    (sent, sent || in_two(producer, tag, bytes))
}

/// Kind, tag and payload of a record, and whether words went back meanwhile.
type Taken = Option<(u8, u64, Vec<u8>, bool)>;

fn take_in_two(consumer: &mut LineConsumer<Mapped>) -> Taken {
    let record = consumer.peek().expect("an honest ring")?;
    let mut bytes = vec![0; record.length() as usize];
    assert!(record.read_bytes(0, &mut bytes));
    let (kind, tag) = (record.kind, record.tag);
    Some((kind, tag, bytes, consumer.pop()))
}

fn take_in_one(consumer: &mut LineConsumer<Mapped>) -> Taken {
    let mut taken = (0, 0, Vec::new());
    // Left where it is, it is there the next time.
    assert!(!consumer.take_if(|_| false));
    let found = consumer.take_if(|record| {
        let mut bytes = vec![0; record.length() as usize];
        assert!(record.read_bytes(0, &mut bytes));
        taken = (record.kind, record.tag, bytes);
        true
    });
    let (kind, tag, bytes) = taken;
    if found {
        Some((kind, tag, bytes, consumer.was_credited()))
    } else {
        take_in_two(consumer)
    }
}

fn words(consumer: &LineConsumer<Mapped>) -> Vec<u64> {
    let memory = consumer_memory(consumer);
    (0..memory.len() / 8)
        .map(|word| memory.word64(word * 8).load(Relaxed))
        .collect()
}

#[test]
fn ring_line_is_the_same_whether_records_take_one_step_or_two() {
    let (mut at_once, mut full) = (0, 0);
    // Miri takes its time over each word of a ring, and looks at all of them seldom.
    let (sizes, seldom): (&[u32], _) = match cfg!(miri) {
        true => (&[4, 16], 9),
        false => (&[4, 16, 64], 1),
    };
    for &lines in sizes {
        let ((mut one, mut taking_one), (mut two, mut taking_two)) = (ring(lines), ring(lines));
        for round in 0..if cfg!(miri) { 100 } else { 3000_u64 } {
            // Few tags, so that many repeat; lengths on both sides of what a record without a tag
            // takes.
            let (tag, len) = (
                round / 7 % 3,
                [8, 0, 56, 8, 57, 3, 16, 112, 104, 113, 8][round as usize % 11],
            );
            let bytes = pattern(round, len);
            let (soon, sent) = in_one(&mut one, tag, &bytes, round % 3 == 0);
            assert_eq!(sent, in_two(&mut two, tag, &bytes), "round {round}");
            at_once += u64::from(soon);
            full += u64::from(!sent);
            if round % seldom == 0 {
                assert_eq!(words(&taking_one), words(&taking_two), "round {round}");
            }
            // Sometimes far behind, sometimes close.
            if sent && round % 50 < 25 {
                continue;
            }
            loop {
                let taken = take_in_two(&mut taking_two);
                assert_eq!(take_in_one(&mut taking_one), taken, "round {round}");
                if taken.is_none() {
                    break;
                }
            }
        }
    }
    assert!(at_once > 0 && full > 0, "{at_once} at once, {full} in vain");
}

#[test]
fn ring_line_takes_nothing_out_of_an_empty_ring() {
    let (_producer, mut consumer) = ring(16);
    assert!(!consumer.take_if(|_| true));
    assert!(consumer.peek().expect("an honest ring").is_none());
}

#[test]
fn a_record_that_was_shown_and_then_taken_is_not_taken_off_twice() {
    let (mut producer, mut consumer) = ring(16);
    for tag in [1, 2] {
        assert!(in_two(&mut producer, tag, &[]));
    }
    assert!(consumer.peek().expect("sound").is_some());
    assert!(consumer.take_if(|record| record.tag == 1));
    // Nothing was shown since.
    consumer.pop();
    let next = consumer.peek().expect("sound").expect("a record");
    assert_eq!(next.tag, 2);
}
