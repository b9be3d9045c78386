//! Line ring under loom: two threads, several laps of the smallest ring, and shared lines.

use loom::thread;

use super::{LineConsumer, LineProducer, Shape, area_len};
use crate::ring::Record;
use crate::ring::memory::{Memory, modelled::Modelled};

/// Too few lines for records to share them.
const LINES: u32 = 4;
/// Enough.
const PACKED: u32 = 8;

/// Payload of `len` bytes, whose words all look like headers of some line.
fn pattern(seed: u64, len: u32) -> Vec<u8> {
    let word = super::header(8, 1, seed);
    word.to_ne_bytes()
        .iter()
        .copied()
        .cycle()
        .take(len as usize)
        .collect()
}

/// Sends records of these lengths, and receives them in another thread.
fn transfer(lines: u32, hot: u64, lengths: &'static [u32]) {
    transfer_tagged(lines, hot, lengths, |seed| seed);
}

/// The same with these tags.
fn transfer_tagged(lines: u32, hot: u64, lengths: &'static [u32], tag: fn(u64) -> u64) {
    loom::model(move || {
        let mem = Modelled::new(area_len(lines));
        let shape = Shape::with_hot(&mem, lines, hot).expect("geometry");
        let mut producer = LineProducer::of(mem.clone(), shape);
        let mut consumer = LineConsumer::of(mem, shape);
        let sender = thread::spawn(move || {
            for (seed, &len) in lengths.iter().enumerate() {
                let bytes = pattern(seed as u64, len);
                loop {
                    // Every second one in one step, where that can be.
                    // SAFETY: private memory.
                    if seed % 2 == 1
                        && unsafe {
                            producer.push_same_tag::<2>(
                                1,
                                tag(seed as u64),
                                None,
                                bytes.as_ptr(),
                                bytes.len(),
                            )
                        }
                    {
                        break;
                    }
                    if let Some(mut room) = producer.reserve_tagged(len, tag(seed as u64)) {
                        room.write_bytes(0, &bytes);
                        room.publish(1, tag(seed as u64));
                        break;
                    }
                    thread::yield_now();
                }
            }
        });
        for (seed, &len) in lengths.iter().enumerate() {
            let check = |record: &Record<'_, Modelled>| {
                assert_eq!((record.tag, record.length()), (tag(seed as u64), len));
                let mut payload = vec![0; len as usize];
                assert!(record.read_bytes(0, &mut payload));
                assert_eq!(payload, pattern(seed as u64, len));
                true
            };
            loop {
                if seed % 2 == 1 && consumer.take_if(check) {
                    break;
                }
                if let Some(record) = consumer.peek().expect("honest producer") {
                    check(&record);
                    consumer.pop();
                    break;
                }
                thread::yield_now();
            }
        }
        assert!(consumer.peek().expect("honest producer").is_none());
        sender.join().expect("sender");
    });
}

#[test]
fn line_ring_wraps_with_records_of_one_tag() {
    transfer_tagged(LINES, LINES.into(), &[8, 0, 8, 56, 8, 8], |_| 7);
}

#[test]
fn line_ring_wraps_with_records_of_one_tag_and_two_lines() {
    transfer_tagged(PACKED, PACKED.into(), &[104, 104, 8, 104, 112], |_| 7);
    // Terminators are stored ahead where headers of the lap before lie.
    transfer_tagged(PACKED, PACKED.into(), &[104; 6], |_| 7);
}

#[test]
fn line_ring_shares_lines_between_records_of_one_tag() {
    transfer_tagged(PACKED, PACKED.into(), &[8, 8, 0, 8, 8], |seed| seed / 3);
}

#[test]
fn line_ring_wraps_with_short_records() {
    transfer(LINES, LINES.into(), &[8, 8, 8, 8, 8, 8]);
}

#[test]
fn line_ring_pads_before_a_long_record() {
    // Lines 0, 1, 2; then two lines that do not fit behind line 3.
    transfer(LINES, LINES.into(), &[8, 8, 8, 112, 8]);
}

#[test]
fn line_ring_never_takes_stale_payload_for_a_header() {
    // Payload over line 1, later the place of a header.
    transfer(LINES, LINES.into(), &[112, 8, 8, 8, 8, 8]);
}

#[test]
fn line_ring_appends_to_a_line_that_is_being_read() {
    transfer(PACKED, PACKED.into(), &[8, 8, 0, 8]);
}

#[test]
fn line_ring_wraps_with_records_that_share_lines() {
    // Three records of two lines less a word, from the middle of a line on; the last one of all
    // goes over the end, behind a pad that begins in a line.
    transfer(PACKED, PACKED.into(), &[8, 104, 8, 104, 8, 8, 104]);
}

#[test]
fn line_ring_jumps_to_the_far_lap_and_back() {
    // Three lines of the hot lap if the consumer does not read meanwhile, the cold lap, and the hot
    // one again.
    transfer(2 * LINES, LINES.into(), &[8, 8, 8, 8, 8, 112, 8]);
}

#[test]
fn line_ring_orders_what_the_consumer_did_before_its_receipt() {
    loom::model(|| {
        let mem = Modelled::new(area_len(LINES));
        let producer = LineProducer::new(mem.clone(), LINES).expect("geometry");
        let consumer = LineConsumer::new(mem, LINES).expect("geometry");
        let done = Modelled::new(64);
        let seen = done.clone();
        let executes = thread::spawn(move || {
            // SAFETY: 64 bytes on both sides; loom checks the order.
            unsafe { done.write(0, [7; 64].as_ptr(), 64) };
            consumer.give_receipt(3);
        });
        while producer.receipt() != 3 {
            thread::yield_now();
        }
        let mut copy = [0; 64];
        // SAFETY: as above.
        unsafe { seen.read(0, copy.as_mut_ptr(), 64) };
        assert_eq!(copy, [7; 64]);
        executes.join().expect("no panic");
    });
}
