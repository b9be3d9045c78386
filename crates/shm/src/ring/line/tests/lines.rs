//! Which lines records take: short ones share them, and a consumer that keeps up sees but the hot
//! lap.

use super::{consumer_memory, receive, ring, send};
use crate::ring::line::{HOT_LINES, INLINE_PAYLOAD, LineConsumer, area_len};
use crate::ring::{Mapped, Memory};
use crate::sync::Ordering::Relaxed;

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
        let first = area_len(HOT_LINES as u32) / 8;
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
    let (records, bursts) = if cfg!(miri) { (60, 1) } else { (5000, 3) };
    keep_up(&mut producer, &mut consumer, records);
    assert!(far_is_untouched(&consumer));
    // A burst has all of the ring, and then it goes on near the start.
    for _ in 0..bursts {
        let mut sent = 0;
        while send(&mut producer, sent, INLINE_PAYLOAD) {
            sent += 1;
        }
        assert!(sent > 1024 - 32 - 32 - 2, "{sent} lines");
        for seed in 0..sent {
            assert_eq!(receive(&mut consumer), Some((seed, INLINE_PAYLOAD)));
        }
        keep_up(&mut producer, &mut consumer, records);
        assert_eq!(consumer.position().1, 0, "back in the hot lap");
    }
}
