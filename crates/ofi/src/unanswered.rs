//! Operations that peers were asked for, by number, until the answer is here.

use limic::Peer;
use limic::raw::RawSliceMut;
use limic_ffi::Slab;

use crate::call::slice_mut;
use crate::node::Node;

/// Most operations that are not answered yet. The caller of one more has to make progress first:
/// each has memory here, and its answer has some at the peer until it is taken. Their places have
/// 16 bits.
pub(crate) const MOST: usize = 1 << 16;

/// Where the results of an operation go.
pub(crate) enum Room {
    One(RawSliceMut),
    Several(Box<[RawSliceMut]>),
}

impl Room {
    pub(crate) fn of(pieces: &[RawSliceMut]) -> Self {
        match pieces {
            [] => Self::One(slice_mut(core::ptr::null_mut(), 0)),
            [one] => Self::One(*one),
            several => Self::Several(several.into()),
        }
    }

    fn pieces(&self) -> &[RawSliceMut] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }

    /// Bytes of all pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len).sum()
    }

    /// Copies results into place.
    ///
    /// # Safety
    /// The pieces are writable, and there are as many bytes as they have room for.
    pub(crate) unsafe fn fill(&self, mut results: &[u8]) {
        for piece in self.pieces().iter().filter(|piece| piece.len > 0) {
            let (part, rest) = results.split_at(piece.len);
            // SAFETY: the caller's promise; nobody else refers to memory that is lent for results.
            unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), piece.start, part.len()) };
            results = rest;
        }
    }
}

/// An operation that is not over.
pub(crate) struct Operation {
    pub(crate) node: *mut Node,
    pub(crate) room: Room,
}

/// The operations, each with the peer that was asked. Peers are told of a number in 48 bits, of
/// which the lower 16 are a place.
#[derive(Default)]
pub(crate) struct Unanswered(Slab<(Peer, Operation)>);

impl Unanswered {
    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// Adds an operation, and gives its number. `None`: there is no room for it.
    pub(crate) fn add(&mut self, peer: Peer, operation: Operation) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let number = self.0.insert((peer, operation));
        Some(number >> 32 << 16 | number & 0xffff)
    }

    /// Takes out the operation of this number that this peer was asked for.
    pub(crate) fn take(&mut self, peer: Peer, number: u64) -> Option<Operation> {
        let number = number >> 16 << 32 | number & 0xffff;
        self.0.get(number).filter(|(asked, _)| *asked == peer)?;
        self.0.take(number).map(|(_, operation)| operation)
    }

    /// Takes out all operations that this peer was asked for. Linear: for failures only.
    pub(crate) fn take_all_of(&mut self, peer: Peer) -> Vec<Operation> {
        let of_peer = self.0.extract(|(asked, _)| *asked == peer);
        of_peer.map(|(_, operation)| operation).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer::from_index(3);

    fn operation(room: &mut [u8]) -> Operation {
        Operation {
            node: core::ptr::null_mut(),
            room: Room::of(&[RawSliceMut::from(room)]),
        }
    }

    #[test]
    fn an_answer_counts_once_and_from_the_peer_that_was_asked() {
        let mut unanswered = Unanswered::default();
        let first = unanswered.add(PEER, operation(&mut [])).expect("room");
        assert!(unanswered.take(Peer::from_index(4), first).is_none());
        assert!(unanswered.take(PEER, first + 1).is_none());
        assert!(unanswered.take(PEER, first).is_some());
        assert!(unanswered.take(PEER, first).is_none());
        let second = unanswered.add(PEER, operation(&mut [])).expect("room");
        assert!(first != second && unanswered.take(PEER, first).is_none());
        assert_eq!(unanswered.take_all_of(PEER).len(), 1);
        assert!(unanswered.take(PEER, second).is_none());
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut unanswered = Unanswered::default();
        for _ in 0..MOST {
            assert!(!unanswered.is_full());
            assert!(unanswered.add(PEER, operation(&mut [])).is_some());
        }
        assert!(unanswered.is_full() && unanswered.add(PEER, operation(&mut [])).is_none());
        assert_eq!(unanswered.take_all_of(PEER).len(), MOST);
        assert!(!unanswered.is_full());
    }

    #[test]
    fn results_fill_the_pieces_in_their_order() {
        let (mut first, mut second) = ([0; 2], [0; 3]);
        let pieces = [
            RawSliceMut::from(&mut first[..]),
            RawSliceMut::from(&mut [][..]),
            RawSliceMut::from(&mut second[..]),
        ];
        let room = Room::of(&pieces);
        assert_eq!(room.len(), 5);
        // SAFETY: the arrays live, and have room for five bytes.
        unsafe { room.fill(&[1, 2, 3, 4, 5]) };
        assert_eq!((first, second), ([1, 2], [3, 4, 5]));
    }
}
