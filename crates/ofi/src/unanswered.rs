//! Operations that peers were asked for, until the answer is here.

use std::collections::VecDeque;

use limic::Peer;
use limic::raw::RawSliceMut;

use crate::node::Node;

/// Most operations that are not answered yet, and most places of one peer's line, where gaps count
/// too. The caller of one more has to make progress first: each has memory here, and its answer has
/// some at the peer until it is taken.
pub(crate) const MOST: usize = 1 << 16;

/// Operations for which a peer's line has memory at any time, once it has had so many.
const FEW: usize = 64;
/// An empty line with room for more than this gives back what is above [`FEW`]. So much more, that
/// a program does not have it allocated again and again.
const MANY: usize = 16 * FEW;

/// Where the results of an operation go.
pub(crate) enum Room {
    /// It has none.
    None,
    One(RawSliceMut),
    Several(Box<[RawSliceMut]>),
}

impl Room {
    pub(crate) fn of(pieces: &[RawSliceMut]) -> Self {
        match pieces {
            [] => Self::None,
            [one] => Self::One(*one),
            several => Self::Several(several.into()),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    fn pieces(&self) -> &[RawSliceMut] {
        match self {
            Self::None => &[],
            Self::One(one) => core::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }

    /// Bytes of all pieces.
    fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len).sum()
    }

    /// Copies results into place. False: they are not as many bytes as there is room for.
    ///
    /// # Safety
    /// The pieces are writable.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, results: &[u8]) -> bool {
        // Mostly there is one piece.
        let Self::One(one) = self else {
            // SAFETY: the caller's promise.
            return unsafe { self.fill_pieces(results) };
        };
        if one.len != results.len() {
            return false;
        }
        if one.len > 0 {
            // SAFETY: the caller's promise; nobody else refers to memory that is lent for results.
            unsafe { core::ptr::copy_nonoverlapping(results.as_ptr(), one.start, one.len) };
        }
        true
    }

    /// # Safety
    /// As [`fill`](Self::fill).
    #[inline(never)]
    unsafe fn fill_pieces(&self, mut results: &[u8]) -> bool {
        if self.len() != results.len() {
            return false;
        }
        for piece in self.pieces().iter().filter(|piece| piece.len > 0) {
            let (part, rest) = results.split_at(piece.len);
            // SAFETY: as in `fill`.
            unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), piece.start, part.len()) };
            results = rest;
        }
        true
    }
}

/// An operation that is not over.
pub(crate) struct Operation {
    pub(crate) node: *mut Node,
    pub(crate) room: Room,
}

/// The operations that one peer was asked for, in this order. They are numbered from 1 on, in 48
/// bits, which no endpoint lives to use up.
struct Line {
    /// Number of the first one.
    first: u64,
    /// Those that are over leave a gap, until all before them are over.
    operations: VecDeque<Option<Operation>>,
    /// A receipt has ended all up to here that have no results.
    received: u64,
    /// Operations without results that are not over: a receipt may end those.
    without_results: usize,
    /// The peer is listed as one whose receipts are looked at: it is, while there are such.
    is_listed: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            first: 1,
            operations: VecDeque::new(),
            received: 0,
            without_results: 0,
            is_listed: false,
        }
    }
}

impl Line {
    fn end(&self) -> u64 {
        self.first + self.operations.len() as u64
    }

    fn take(&mut self, number: u64) -> Option<Operation> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let operation = if at == 0 {
            // Most are answered in their order, and leave no gap.
            let first = self.operations.pop_front()?;
            self.first += 1;
            first?
        } else {
            self.operations.get_mut(at)?.take()?
        };
        self.without_results -= usize::from(operation.room.is_none());
        Some(operation)
    }

    /// The next one without results up to this number is over.
    fn take_received(&mut self, number: u64) -> Option<Operation> {
        let last = number.min(self.end() - 1);
        for next in self.first.max(self.received + 1)..=last {
            self.received = next;
            let operation = &mut self.operations[(next - self.first) as usize];
            if let Some(over) = operation.take_if(|known| known.room.is_none()) {
                self.without_results -= 1;
                return Some(over);
            }
        }
        None
    }

    /// Closes the gap at the front.
    fn close_gap(&mut self) {
        while let Some(None) = self.operations.front() {
            self.operations.pop_front();
            self.first += 1;
        }
        if self.operations.is_empty() && self.operations.capacity() > MANY {
            self.shrink();
        }
    }

    /// Gives back the memory of a burst.
    #[cold]
    fn shrink(&mut self) {
        self.operations.shrink_to(FEW);
    }
}

/// The operations, by peer.
#[derive(Default)]
pub(crate) struct Unanswered {
    lines: Vec<Line>,
    /// Of all lines, without their gaps.
    count: usize,
    /// Peers that were asked for something without results. Not all of them give receipts.
    listed: Vec<Peer>,
}

impl Unanswered {
    fn line(&mut self, peer: Peer) -> Option<&mut Line> {
        self.lines.get_mut(peer.index() as usize)
    }

    /// Whether a peer may be asked for nothing more now. Gaps take room in its line too, but hold
    /// up no other peer.
    #[inline]
    pub(crate) fn is_full(&self, peer: Peer) -> bool {
        let line = self.lines.get(peer.index() as usize);
        self.count >= MOST || line.is_some_and(|line| line.operations.len() >= MOST)
    }

    /// Whether this peer was asked for anything that is not over.
    pub(crate) fn has_any(&self, peer: Peer) -> bool {
        let line = self.lines.get(peer.index() as usize);
        line.is_some_and(|line| !line.operations.is_empty())
    }

    /// Adds an operation, for which there is room, and gives its number.
    pub(crate) fn add(&mut self, peer: Peer, operation: Operation) -> u64 {
        let place = peer.index() as usize;
        if place >= self.lines.len() {
            self.lines.resize_with(place + 1, Line::default);
        }
        let line = &mut self.lines[place];
        if operation.room.is_none() {
            line.without_results += 1;
            if !line.is_listed {
                line.is_listed = true;
                self.listed.push(peer);
            }
        }
        let number = line.end();
        line.operations.push_back(Some(operation));
        self.count += 1;
        number
    }

    /// Takes out the operation of this number that this peer was asked for.
    pub(crate) fn take(&mut self, peer: Peer, number: u64) -> Option<Operation> {
        self.take_by(peer, |line| line.take(number))
    }

    /// Takes out the next operation without results up to this number. A peer says it, so it may be
    /// any number.
    pub(crate) fn take_received(&mut self, peer: Peer, number: u64) -> Option<Operation> {
        self.take_by(peer, |line| line.take_received(number))
    }

    #[inline(always)]
    fn take_by(
        &mut self,
        peer: Peer,
        take: impl FnOnce(&mut Line) -> Option<Operation>,
    ) -> Option<Operation> {
        let line = self.line(peer)?;
        let operation = take(line)?;
        line.close_gap();
        self.count -= 1;
        Some(operation)
    }

    /// Takes out all operations that this peer was asked for, with the memory of their line.
    pub(crate) fn take_all_of(&mut self, peer: Peer) -> Vec<Operation> {
        let Some(line) = self.line(peer) else {
            return Vec::new();
        };
        line.first = line.end();
        line.without_results = 0;
        let line = core::mem::take(&mut line.operations);
        let ended: Vec<_> = line.into_iter().flatten().collect();
        self.count -= ended.len();
        ended
    }

    /// A peer whose receipt is to be looked at.
    pub(crate) fn listed(&self, at: usize) -> Option<Peer> {
        self.listed.get(at).copied()
    }

    /// Takes a peer off the list whose receipts end nothing any more. True if it was one.
    pub(crate) fn unlist(&mut self, at: usize) -> bool {
        let peer = self.listed[at];
        let line = &mut self.lines[peer.index() as usize];
        line.is_listed = line.without_results > 0;
        if !line.is_listed {
            self.listed.swap_remove(at);
        }
        !line.is_listed
    }
}

#[cfg(test)]
mod tests;
