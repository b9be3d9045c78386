//! What peers have said and is not heard yet stands in a line for each of them.

use std::collections::VecDeque;

/// Messages of one peer that have memory here. More than an application has in flight that waits
/// for answers now and then.
const MOST: usize = 32;

/// Messages of a peer that wait: for their own bytes, or for those of an earlier one.
///
/// Few of them have memory here. The others stay with the engine, which counts them with all that
/// the peer has sent and was not received, and holds the peer back.
#[derive(Debug)]
pub(crate) struct Line<C, L> {
    pub(crate) coming: VecDeque<C>,
    pub(crate) later: VecDeque<L>,
}

impl<C, L> Default for Line<C, L> {
    fn default() -> Self {
        Self {
            coming: VecDeque::new(),
            later: VecDeque::new(),
        }
    }
}

impl<C, L> Line<C, L> {
    pub(crate) fn is_empty(&self) -> bool {
        self.coming.is_empty() && self.later.is_empty()
    }

    /// Whether the next one has to wait for memory.
    pub(crate) fn is_full(&self) -> bool {
        self.coming.len() >= MOST || !self.later.is_empty()
    }

    /// The next message that is to have memory, if there is room.
    pub(crate) fn next_to_come(&mut self) -> Option<L> {
        let room = self.coming.len() < MOST;
        room.then(|| self.later.pop_front()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_memory_for_few_messages_and_keeps_their_order() {
        const SENT: usize = 10 * MOST;
        let mut line = Line::default();
        for number in 0..SENT {
            if line.is_full() {
                line.later.push_back(number);
            } else {
                line.coming.push_back(number);
            }
        }
        let mut heard = Vec::new();
        while let Some(first) = line.coming.pop_front() {
            heard.push(first);
            while let Some(next) = line.next_to_come() {
                line.coming.push_back(next);
            }
            assert!(line.coming.len() <= MOST);
        }
        assert!(line.is_empty() && heard.into_iter().eq(0..SENT));
    }
}
