//! What travels through the rings: record kinds and their words.
//!
//! A record has a kind, a tag and a payload. Control records carry up to six 64-bit words, which fit
//! the first cache line of a record.

/// A message that is its own payload. Tag: the message's.
pub(crate) const EAGER: u8 = 1;
/// A message that lies in a pool: `[place, extent, immediate]`, the third word only where the extent says so (`told`). Tag: the
/// message's.
pub(crate) const EAGER_CHUNK: u8 = 2;
/// A long message is offered: `[send id, len, address, key, flags, immediate]`, the key that of an exposure, or 0. Tag: the
/// message's.
pub(crate) const READY_TO_SEND: u8 = 3;
/// The receiver wants the bytes through chunks: `[send id, receive id, first byte, end]`.
pub(crate) const CLEAR_TO_SEND: u8 = 4;
/// The receiver reads from the front and asks the sender to write from the back:
/// `[send id, receive id, bytes, meet word, address, key]`.
pub(crate) const BOTH_SIDES: u8 = 5;
/// Bytes of a long message in a pool: `[receive id, offset, place, extent]` (`told`).
pub(crate) const DATA: u8 = 6;
/// The receiver has the message: `[send id, path]`, the path for the counters.
pub(crate) const FINISHED: u8 = 7;
/// The sender's half of a both-sides copy is done: `[receive id, blocks written]`.
pub(crate) const BACK_DONE: u8 = 8;
/// The receiver gives the sender a private ring: `[ring]`.
pub(crate) const GRANT: u8 = 9;
/// The sender's further records come through that ring: `[ring]`.
pub(crate) const SWITCH: u8 = 10;
/// A message that lies in an arena of the sender: `[flag, arena and generation, offset, len]`, the first three in one word of 8, 24 and 32
/// bits, the lowest first. Tag: the message's.
pub(crate) const LOAN: u8 = 11;
/// The sender takes an offer back: `[send id]`.
pub(crate) const RETRACT: u8 = 12;
/// The offer is taken back, nobody had matched it: `[send id]`.
pub(crate) const RETRACTED: u8 = 13;
/// One-sided read through chunks: `[receive id, key, offset, len]`.
pub(crate) const GET: u8 = 14;
/// One-sided write through chunks: `[send id, key, offset, len]`.
pub(crate) const PUT: u8 = 15;
/// A one-sided access is refused, or needs no bytes: `[id, outcome, length of the region]`; tag 0 for a read, 1
/// for a write.
pub(crate) const ANSWERED: u8 = 16;

/// The receiver of this endpoint's messages lags behind, or does no longer (H4): `[1 or 0]`.
pub(crate) const SKEW: u8 = 17;
/// The peer has moved to another cache or package (H3): `[its place]`.
pub(crate) const MOVED: u8 = 18;
/// A message whose first 8 bytes are its immediate word. Tag: the message's.
pub(crate) const EAGER_IMMEDIATE: u8 = 19;

/// A message that went ahead of a receiver that lags (H4), and lies in an arena of the sender: `[arena and flag, offset, len,
/// generation and how many before it are not taken, flags, immediate]`, each pair as the low and the high half of its
/// word. Tag: the message's.
pub(crate) const AHEAD: u8 = 20;
/// Bytes of a long message in the record itself: `[offset]`, then the bytes. Tag: the receive id.
pub(crate) const PIECE: u8 = 21;

/// The peer holds too many unexpected bytes and wants to be asked first, or does no longer (peers over verbs):
/// `[1 or 0]`.
pub(crate) const PRESSED: u8 = 22;

/// Bytes of an immediate word ahead of a payload.
pub(crate) const IMMEDIATE_BYTES: u64 = 8;

/// The receiver lets the sender write, through the kernel module: `[send id, receive id, handle, bytes]`.
pub(crate) const EXPOSED: u8 = 23;
/// The sender has written what it could: `[receive id, bytes]`.
pub(crate) const WRITTEN: u8 = 24;

/// The receiver measures how long a line takes between the two: `[meet word]`, one of its own.
pub(crate) const HAND_OVER: u8 = 25;
/// The peer has done with the word: `[meet word]`.
pub(crate) const HAND_OVER_DONE: u8 = 26;

/// The sender has given an arena's memory back, after all that lay there was taken: `[arena]`.
pub(crate) const ARENA_GONE: u8 = 27;

/// An eager message begins that is longer than a record: `[flags and len, immediate]`, the flags in the highest byte, the second word
/// only with its flag. Tag: the message's. Its bytes follow in [`NEXT_PIECE`] and [`NEXT_BYTES`], and no other message before them.
pub(crate) const BEGINS: u8 = 28;
/// The next bytes of that message, in the record itself.
pub(crate) const NEXT_BYTES: u8 = 29;
/// The next bytes of that message, in a pool: `[place, extent]` (`told`).
pub(crate) const NEXT_PIECE: u8 = 30;

/// Whether a message of the application comes with records of this kind, whose tag is the message's then.
pub(crate) const fn is_message(kind: u8) -> bool {
    matches!(
        kind,
        EAGER | EAGER_CHUNK | EAGER_IMMEDIATE | BEGINS | READY_TO_SEND | LOAN | AHEAD
    )
}

/// Most words of a control record.
pub(crate) const WORDS: usize = 6;

/// Flag of [`READY_TO_SEND`]: the bytes are in several pieces, which single copy cannot name.
pub(crate) const IN_PIECES: u64 = 1;
/// Flag of [`READY_TO_SEND`], [`BEGINS`] and [`AHEAD`]: the message has an immediate word.
pub(crate) const WITH_IMMEDIATE: u64 = 2;

/// Flag of [`BEGINS`]: there was no room for all of the message before this one, and the sender had to
/// wait for the receiver.
pub(crate) const HELD_UP: u64 = 4;

/// Flag of [`READY_TO_SEND`]: the sender waits for [`FINISHED`], also if the bytes come in packets.
pub(crate) const CONFIRM: u64 = 8;

/// The flag and the word of an immediate.
pub(crate) fn immediate_words(immediate: Option<u64>) -> (u64, u64) {
    immediate.map_or((0, 0), |word| (WITH_IMMEDIATE, word))
}

/// The immediate that flags and word stand for.
pub(crate) fn immediate_of(flags: u64, word: u64) -> Option<u64> {
    (flags & WITH_IMMEDIATE != 0).then_some(word)
}

/// Flags and a length in one word.
pub(crate) const fn flagged(flags: u64, len: u64) -> u64 {
    debug_assert!(flags < 1 << 8 && len < 1 << 56);
    flags << 56 | len
}

/// Flags and length of such a word.
pub(crate) const fn parted(word: u64) -> (u64, u64) {
    (word >> 56, word & (u64::MAX >> 8))
}

/// Two halves of a word, the low one first.
#[inline(always)]
pub(crate) fn halves(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Outcome words.
pub(crate) const OK: u64 = 0;
/// No region has this key.
pub(crate) const NO_REGION: u64 = 1;
/// The access reaches outside of the region.
pub(crate) const OUT_OF_REGION: u64 = 2;

/// A control record before it has room in a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    pub(crate) kind: u8,
    pub(crate) tag: u64,
    pub(crate) words: [u64; WORDS],
}

impl Control {
    pub(crate) fn new<const N: usize>(kind: u8, given: [u64; N]) -> Self {
        let mut words = [0; WORDS];
        words[..N].copy_from_slice(&given);
        Self {
            kind,
            tag: 0,
            words,
        }
    }

    pub(crate) fn with_tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_length_share_a_word() {
        for flags in [0, HELD_UP | WITH_IMMEDIATE, 0xFF] {
            for len in [0, 1, (1 << 56) - 1] {
                assert_eq!(parted(flagged(flags, len)), (flags, len));
            }
        }
    }
}
