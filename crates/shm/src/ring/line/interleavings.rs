//! Line ring under loom: two threads, the smallest ring, several laps.

use loom::thread;

use super::{LineConsumer, LineProducer, area_len};
use crate::ring::memory::modelled::Modelled;

const LINES: u32 = 4;

/// Payload of `len` bytes, whose words all look like headers of some line.
fn pattern(seed: u64, len: u32) -> Vec<u8> {
    let word = super::header(8, 1, 0, seed);
    word.to_ne_bytes()
        .iter()
        .copied()
        .cycle()
        .take(len as usize)
        .collect()
}

/// Sends records of these lengths, and receives them in another thread.
fn transfer(lengths: &'static [u32]) {
    loom::model(move || {
        let mem = Modelled::new(area_len(LINES));
        let mut producer = LineProducer::new(mem.clone(), LINES).expect("geometry");
        let mut consumer = LineConsumer::new(mem, LINES).expect("geometry");
        let sender = thread::spawn(move || {
            for (seed, &len) in lengths.iter().enumerate() {
                loop {
                    if let Some(mut room) = producer.reserve(len) {
                        room.write_bytes(0, &pattern(seed as u64, len));
                        room.publish(1, 0, seed as u64);
                        break;
                    }
                    thread::yield_now();
                }
            }
        });
        for (seed, &len) in lengths.iter().enumerate() {
            loop {
                if let Some(record) = consumer.peek().expect("honest producer") {
                    assert_eq!((record.tag, record.len), (seed as u64, len));
                    let mut payload = vec![0; len as usize];
                    assert!(record.read_bytes(0, &mut payload));
                    assert_eq!(payload, pattern(seed as u64, len));
                    break;
                }
                thread::yield_now();
            }
            consumer.pop();
        }
        assert!(consumer.peek().expect("honest producer").is_none());
        sender.join().expect("sender");
    });
}

#[test]
fn line_ring_wraps_with_short_records() {
    transfer(&[8, 8, 8, 8, 8, 8]);
}

#[test]
fn line_ring_pads_before_a_long_record() {
    // Lines 0, 1, 2; then two lines that do not fit behind line 3.
    transfer(&[8, 8, 8, 112, 8]);
}

#[test]
fn line_ring_never_takes_stale_payload_for_a_header() {
    // Payload over line 1, later the place of a header.
    transfer(&[112, 8, 8, 8, 8, 8]);
}
