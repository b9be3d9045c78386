//! Memory for a message, with other memory around it that nobody may touch.

use limic::raw::RawSliceMut;

use crate::schedule::wrong;
use crate::sim;

/// Bytes before and behind.
const BORDER: usize = 64;
/// What lies there.
const UNTOUCHED: u8 = 0xa5;
/// What lies in the room.
const EMPTY: u8 = 0x5a;

/// Room for one message, into which others may write until it is dropped.
pub(super) struct Room {
    memory: Box<[u8]>,
    /// Where it is cut in two, if it is.
    cut: Option<usize>,
}

impl Room {
    /// For a message of so many bytes: a little more.
    pub(super) fn new(len: usize) -> Self {
        Self::exact(len + sim::with(|sim| sim.rng.usize(0..8)))
    }

    /// So many bytes.
    pub(super) fn exact(len: usize) -> Self {
        let cut = sim::with(|sim| sim.chance(4).then(|| sim.rng.usize(0..=len)));
        let mut memory = vec![UNTOUCHED; len + 2 * BORDER].into_boxed_slice();
        let end = memory.len() - BORDER;
        memory[BORDER..end].fill(EMPTY);
        let room = Self { memory, cut };
        sim::with(|sim| {
            let current = sim.current.expect("a process");
            let rooms = &mut sim.processes[current].rooms;
            rooms.insert(room.start(), end - BORDER);
        });
        room
    }

    fn start(&self) -> usize {
        self.memory.as_ptr().addr() + BORDER
    }

    pub(super) fn slices(&mut self) -> Vec<RawSliceMut> {
        let end = self.memory.len() - BORDER;
        let cut = self.cut.map_or(end, |cut| BORDER + cut);
        let start = self.memory.as_mut_ptr();
        let slice = |from: usize, to: usize| RawSliceMut {
            start: start.wrapping_add(from),
            len: to - from,
        };
        if cut == end {
            vec![slice(BORDER, end)]
        } else {
            vec![slice(BORDER, cut), slice(cut, end)]
        }
    }

    /// All of it, in one piece.
    pub(super) fn whole(&mut self) -> &mut [u8] {
        let end = self.memory.len() - BORDER;
        &mut self.memory[BORDER..end]
    }

    /// The operation is over: gives so many bytes, and sees that no other one was touched.
    pub(super) fn finish(self, len: usize) -> Vec<u8> {
        let end = self.memory.len() - BORDER;
        if len > end - BORDER {
            wrong(format!("{len} bytes came into a room of {}", end - BORDER));
        }
        let message = self.memory[BORDER..BORDER + len].to_vec();
        let others = self.memory[BORDER + len..end].iter();
        if let Some(at) = others.clone().position(|byte| *byte != EMPTY) {
            wrong(format!(
                "a byte {at} behind a message of {len} bytes was written"
            ));
        }
        self.check();
        message
    }

    /// The operation is over, and failed.
    pub(super) fn give_up(self) {
        self.check();
    }

    fn check(&self) {
        let end = self.memory.len() - BORDER;
        let borders = self.memory[..BORDER].iter().chain(&self.memory[end..]);
        if borders.clone().any(|byte| *byte != UNTOUCHED) {
            wrong("a byte outside of the room of a receive was written");
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let start = self.start();
        sim::with(|sim| {
            if let Some(current) = sim.current {
                sim.processes[current].rooms.remove(&start);
            }
        });
    }
}
