//! What two endpoints say in their own parts, under loom. The bytes that they move because of it
//! are in a model too, and loom reports those that both access at once.

mod regions;
mod splits;

use super::Words;
use crate::ring::Memory;
use crate::ring::memory::modelled::Modelled;
use crate::sync::Ordering;

impl Words for Modelled {
    fn load(&self, offset: usize) -> u64 {
        self.word64(offset).load(Ordering::Relaxed)
    }
}

fn write(buffer: &Modelled, bytes: u8) {
    // SAFETY: 8 bytes on both sides; loom checks the order.
    unsafe { buffer.write(0, [bytes; 8].as_ptr(), 8) };
}

fn read(buffer: &Modelled) -> [u8; 8] {
    let mut found = [0; 8];
    // SAFETY: as above.
    unsafe { buffer.read(0, found.as_mut_ptr(), 8) };
    found
}
