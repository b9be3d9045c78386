//! What messages contain, so that a wrong, torn or misplaced one is noticed.

/// The words of a message follow from its seed and their position: a message that was overtaken,
/// repeated, shifted or mixed with another one differs.
fn word(seed: u64, position: u64) -> [u8; 8] {
    let mixed = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(position.wrapping_mul(0xd1b5_4a32_d192_ed03));
    (mixed ^ (mixed >> 29)).to_le_bytes()
}

/// The seed of a message: who sends it, in which window, and where in the window.
pub fn seed(rank: u32, window: u64, index: usize) -> u64 {
    (u64::from(rank) << 48) ^ (window << 8) ^ index as u64
}

/// Writes the content that belongs to `seed`.
pub fn fill(message: &mut [u8], seed: u64) {
    let mut words = message.chunks_exact_mut(8);
    let mut position = 0;
    for to in &mut words {
        to.copy_from_slice(&word(seed, position));
        position += 1;
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&word(seed, position)[..rest.len()]);
}

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Writes the first word of each cache line, as [`fill`] would. The message begins a line.
pub fn rewrite(message: &mut [u8], seed: u64) {
    let mut position = 0;
    let mut lines = message.chunks_exact_mut(LINE);
    for line in &mut lines {
        line[..8].copy_from_slice(&word(seed, position));
        position += LINE as u64 / 8;
    }
    let rest = lines.into_remainder();
    let len = rest.len().min(8);
    rest[..len].copy_from_slice(&word(seed, position)[..len]);
}

/// Received bytes are not those that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A byte is another one.
    #[error(
        "wrong data from rank {from}: byte {at} of {len} is {found:#04x} instead of {expected:#04x}"
    )]
    Byte {
        /// The rank that sent it.
        from: u32,
        /// Where it lies in the message.
        at: usize,
        /// Bytes of the message.
        len: usize,
        /// What was received.
        found: u8,
        /// What was sent.
        expected: u8,
    },
    /// There are more bytes, or fewer.
    #[error("wrong length from rank {from}: {found} bytes instead of {expected}")]
    Length {
        /// The rank that sent them.
        from: u32,
        /// Bytes that were received.
        found: u64,
        /// Bytes that were sent.
        expected: usize,
    },
}

/// Checks that a message holds what `from` filled in for `seed`.
///
/// # Errors
/// It does not.
pub fn verify(message: &[u8], from: u32, seed: u64) -> Result<(), Wrong> {
    for (position, found) in message.chunks(8).enumerate() {
        let expected = &word(seed, position as u64)[..found.len()];
        if found != expected {
            let offset = found.iter().zip(expected).take_while(|(a, b)| a == b);
            let offset = offset.count();
            return Err(Wrong::Byte {
                from,
                at: position * 8 + offset,
                len: message.len(),
                found: found[offset],
                expected: expected[offset],
            });
        }
    }
    Ok(())
}

/// Checks the length that a receive reports.
///
/// # Errors
/// It is another one.
pub fn verify_length(found: u64, from: u32, expected: usize) -> Result<(), Wrong> {
    if found == expected as u64 {
        return Ok(());
    }
    Err(Wrong::Length {
        from,
        found,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_found_at_its_place() {
        for len in [0, 1, 7, 8, 9, 1000] {
            let mut message = vec![0; len];
            let right = seed(1, 7, 3);
            fill(&mut message, right);
            assert_eq!(verify(&message, 1, right), Ok(()));
            for at in 0..len {
                message[at] ^= 0x10;
                let wrong = verify(&message, 1, right).unwrap_err();
                assert!(matches!(wrong, Wrong::Byte { at: found, .. } if found == at));
                message[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn what_is_written_anew_is_a_word_of_each_line_with_the_right_content() {
        for len in [0, 5, 8, 63, 64, 67, 1000] {
            let mut message = vec![0; len];
            fill(&mut message, seed(1, 8, 3));
            let mut expected = message.clone();
            fill(&mut expected, seed(1, 7, 3));
            for at in (0..len).filter(|at| at % LINE >= 8) {
                expected[at] = message[at];
            }
            rewrite(&mut message, seed(1, 7, 3));
            assert_eq!(message, expected, "{len} bytes");
        }
    }

    #[test]
    fn other_messages_differ() {
        let mut message = [0; 8];
        fill(&mut message, seed(0, 1, 2));
        for other in [seed(1, 1, 2), seed(0, 2, 2), seed(0, 1, 1)] {
            assert!(verify(&message, 0, other).is_err());
        }
        assert!(verify_length(3, 0, 4).is_err());
    }
}
