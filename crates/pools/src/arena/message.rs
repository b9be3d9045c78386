//! What a peer is told of room that is lent to it.

use limic_shm::bytes::{flagged, halves, unflagged};
use limic_shm::segment::LOAN_FLAGS;

/// Where a message lies in an arena of its sender: a loan, or a message that was sent ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaMessage {
    /// The number of the arena, below [`MOST_ARENAS`].
    pub arena: u32,
    /// Its first byte there.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// The release flag by which the room goes back.
    pub flag: u32,
    /// The generation under which it does.
    pub generation: u32,
    /// For a message that was sent ahead of a slow receiver: how many before it were not taken yet,
    /// by its sender's count.
    pub send_ahead: Option<u32>,
}

/// Bits of a flag's number, in the word that names the room.
const FLAG_BITS: u32 = LOAN_FLAGS.ilog2();
const _: () = assert!(LOAN_FLAGS.is_power_of_two());

/// Numbers of arenas that such a word can have.
pub const MOST_ARENAS: usize = 1 << (u32::BITS - FLAG_BITS);

impl ArenaMessage {
    /// What a record says of it.
    #[inline(always)]
    #[must_use]
    pub fn encode(&self) -> [u64; 3] {
        let ahead = self.send_ahead.map_or(0, |before| 1 + u64::from(before));
        [
            halves(self.arena << FLAG_BITS | self.flag, self.generation),
            self.offset,
            flagged(ahead, self.len),
        ]
    }

    /// What a record says, as it was read.
    #[inline(always)]
    #[must_use]
    pub fn decode([name, offset, len]: [u64; 3]) -> Self {
        let (ahead, len) = unflagged(len);
        Self {
            arena: name as u32 >> FLAG_BITS,
            offset,
            len,
            flag: name as u32 & (LOAN_FLAGS - 1),
            generation: (name >> 32) as u32,
            send_ahead: (ahead as u32).checked_sub(1),
        }
    }
}
