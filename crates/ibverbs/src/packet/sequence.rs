//! Order across streams: packets may come by any queue pair, and a packet of a queue pair that
//! failed may come twice.

use std::collections::BTreeMap;

use super::Malformed;

/// What to do with a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is its turn.
    Now,
    /// Keep it: its turn comes.
    Early,
    /// It came before.
    Again,
}

/// Packets that a peer may be ahead: more than any number of streams has under way.
const AHEAD: u32 = 4096;

/// The order of one connection, at its receiver.
#[derive(Debug, Default)]
pub struct Sequence {
    next: u32,
    early: BTreeMap<u32, Vec<u8>>,
}

impl Sequence {
    /// A packet came.
    ///
    /// # Errors
    /// [`Malformed::TooFarAhead`].
    #[inline]
    pub fn arrive(&mut self, sequence: u32) -> Result<Arrival, Malformed> {
        let ahead = sequence.wrapping_sub(self.next);
        if ahead == 0 {
            self.next = self.next.wrapping_add(1);
            return Ok(Arrival::Now);
        }
        if ahead > u32::MAX / 2 {
            return Ok(Arrival::Again);
        }
        if ahead > AHEAD {
            return Err(Malformed::TooFarAhead {
                came: sequence,
                expected: self.next,
            });
        }
        Ok(if self.early.contains_key(&sequence) {
            Arrival::Again
        } else {
            Arrival::Early
        })
    }

    /// The packet whose turn is next.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Keeps a packet whose turn comes later.
    pub fn keep(&mut self, sequence: u32, packet: Vec<u8>) {
        self.early.insert(sequence, packet);
    }

    /// A kept packet whose turn it is now.
    pub fn take_next(&mut self) -> Option<Vec<u8>> {
        if self.early.is_empty() {
            return None;
        }
        let packet = self.early.remove(&self.next)?;
        self.next = self.next.wrapping_add(1);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order and the repetitions, each packet is read once and in order, also past
        /// the end of the numbers.
        #[test]
        fn packets_are_read_once_and_in_order(
            order in Just((0..40_u32).collect::<Vec<_>>()).prop_shuffle(),
            again in proptest::collection::vec(0..40_usize, 0..40),
            start in prop_oneof![Just(0), Just(u32::MAX - 13), any::<u32>()],
        ) {
            let mut sequence = Sequence { next: start, early: BTreeMap::new() };
            let mut read = Vec::new();
            let again = again.iter().map(|at| order[*at]);
            let all: Vec<u32> = order.iter().copied().chain(again).collect();
            for offset in all {
                let number = start.wrapping_add(offset);
                match sequence.arrive(number).unwrap() {
                    Arrival::Now => read.push(offset),
                    Arrival::Early => sequence.keep(number, vec![offset as u8]),
                    Arrival::Again => {}
                }
                while let Some(packet) = sequence.take_next() {
                    read.push(u32::from(packet[0]));
                }
            }
            prop_assert_eq!(read, (0..40).collect::<Vec<_>>());
        }
    }

    #[test]
    fn far_ahead_is_refused() {
        let mut sequence = Sequence::default();
        assert!(sequence.arrive(AHEAD + 1).is_err());
        assert_eq!(sequence.arrive(AHEAD), Ok(Arrival::Early));
        assert_eq!(sequence.arrive(u32::MAX), Ok(Arrival::Again));
    }
}
