//! Arenas of the process's heap, from which messages go without a copy by their sender.
//!
//! The heap is the process's, and peers know its arenas by numbers that this endpoint gives them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::raw::RawSlice;

/// Numbers from here on are those of the heap's arenas; others are the endpoint's own.
const FIRST: u32 = 1 << 31;

/// An arena of the heap that peers may have mapped.
struct Known {
    id: u64,
    number: u32,
    fd: OwnedFd,
    bytes: usize,
}

/// The heap's arenas that messages of this endpoint have lain in.
///
/// # Invariants
/// A number is given once.
#[derive(Default)]
pub(crate) struct HeapArenas {
    known: Vec<Known>,
    given: u32,
}

/// Where a message lies in the heap: the number of the arena, and where it begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapPlace {
    pub(crate) arena: u32,
    pub(crate) offset: u64,
}

/// Where bytes lie in the process's heap, if they lie there in one piece.
pub(crate) fn place_of(data: &[RawSlice]) -> Option<limic_heap::Place> {
    match data {
        [one] => limic_heap::place(one.start, one.len),
        _ => None,
    }
}

impl HeapArenas {
    /// Where bytes lie, as a peer is told. `None`: they lie elsewhere, or no descriptor is free.
    pub(crate) fn place(&mut self, data: &[RawSlice]) -> Option<HeapPlace> {
        let place = place_of(data)?;
        let known = self.known.iter().find(|known| known.id == place.arena);
        let arena = match known {
            Some(known) => known.number,
            None => self.enter(place.arena)?,
        };
        Some(HeapPlace {
            arena,
            offset: place.offset,
        })
    }

    #[cold]
    fn enter(&mut self, id: u64) -> Option<u32> {
        let number = FIRST.checked_add(self.given)?;
        let (fd, bytes) = limic_heap::descriptor(id)?;
        self.given += 1;
        self.known.push(Known {
            id,
            number,
            fd,
            bytes,
        });
        Some(number)
    }

    /// The descriptor of an arena, and its size.
    pub(super) fn descriptor(&self, number: u32) -> Option<(BorrowedFd<'_>, usize)> {
        let known = self.known.iter().find(|known| known.number == number)?;
        Some((known.fd.as_fd(), known.bytes))
    }

    /// Forgets the arenas that the heap has no more. Gives their numbers, for the peers that have
    /// mapped them.
    pub(crate) fn retire(&mut self) -> Vec<u32> {
        let is_there = |known: &Known| limic_heap::is_there(known.id);
        let gone = self.known.iter().filter(|known| !is_there(known));
        let gone = gone.map(|known| known.number).collect();
        self.known.retain(is_there);
        gone
    }
}
