//! Both ends of rings whose memory another process fills with anything, again and again.
#![no_main]

use limic_shm::ring::{
    LineConsumer, LineProducer, Mapped, Memory, SharedConsumer, SharedProducer, heap, line, shared,
};

const LINES: u32 = 16;
const SLOTS: u32 = 4;
/// Records that are read in a row: more than there is room for.
const MOST: usize = 256;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let rings = heap(line::area_len(LINES));
    let mut private = LineConsumer::new(rings.clone(), LINES).expect("a geometry");
    let mut sender = LineProducer::new(rings.clone(), LINES).expect("a geometry");
    let slots = heap(shared::area_len(SLOTS));
    let mut shared = SharedConsumer::new(slots.clone(), SLOTS).expect("a geometry");
    let mut claimer = SharedProducer::new(slots.clone(), SLOTS, 1).expect("a geometry");
    let mut room = [0; 4096];
    // Words that are stored, each behind a byte that says where.
    for stored in bytes.chunks_exact(10) {
        let at = usize::from(u16::from_le_bytes([stored[0], stored[1]]));
        let mut word = [0; 8];
        word.copy_from_slice(&stored[2..]);
        for memory in [&rings, &slots] {
            store(memory, at, word);
        }
        let len = u32::from(stored[2]);
        if let Some(mut record) = sender.reserve(len) {
            record.write_bytes(0, &room[..len as usize]);
            record.publish(1, len.into());
        }
        if let Some(mut record) = claimer.reserve(len.min(shared::MAX_PAYLOAD)) {
            record.write_bytes(0, &room[..len.min(shared::MAX_PAYLOAD) as usize]);
            record.publish(1, len.into());
        }
        for _ in 0..MOST {
            let Ok(Some(record)) = private.peek() else {
                break;
            };
            assert!(record.read_bytes(0, &mut room[..record.length() as usize]));
            private.pop();
        }
        for _ in 0..MOST {
            match shared.peek() {
                Ok(shared::Peek::Empty) => break,
                Ok(shared::Peek::Ready(_, record)) => {
                    assert!(record.read_bytes(0, &mut room[..record.length() as usize]));
                    shared.pop();
                }
                Ok(shared::Peek::Stalled { .. }) => assert!(shared.skip_stalled()),
                Err(_) => assert!(shared.skip_corrupt()),
            }
        }
        shared.repair_head();
    }
});

fn store(memory: &Mapped, at: usize, word: [u8; 8]) {
    let at = at * 8 % memory.len();
    // SAFETY: a whole word of the memory, whose length is a multiple of 64; there is one thread.
    unsafe { memory.write(at, word.as_ptr(), 8) };
}
