//! Arenas of the process's heap, from which messages go without a copy by their sender.
//!
//! The heap is the process's, and peers know its arenas by numbers that this endpoint gives them.

use std::os::fd::OwnedFd;

use crate::raw::RawSlice;

/// Numbers from here on are those of the heap's arenas; others are the endpoint's own.
const FIRST: u32 = 1 << 31;

/// An arena of the heap that peers may have mapped.
struct Known {
    id: u64,
    number: u32,
}

/// The heap's arenas that messages of this endpoint have lain in.
///
/// # Invariants
/// A number is given once.
#[derive(Default)]
pub(crate) struct HeapArenas {
    known: Vec<Known>,
    given: u32,
    /// How many arenas of the heap had ended when `known` was last looked through.
    ended: u64,
}

/// Where a message lies in the heap: the number of the arena, and where it begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapPlace {
    pub(crate) arena: u32,
    pub(crate) offset: u64,
}

/// Where bytes lie in the process's heap, if they are one slice and lie there. Not inlined: short
/// messages share code with long ones, and do not ask.
#[inline(never)]
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
        self.given += 1;
        self.known.push(Known { id, number });
        Some(number)
    }

    /// The descriptor of an arena, and its size.
    pub(crate) fn descriptor(&self, number: u32) -> Option<(OwnedFd, usize)> {
        let known = self.known.iter().find(|known| known.number == number)?;
        limic_heap::descriptor(known.id)
    }

    /// Whether a message has lain in one.
    #[inline(always)]
    pub(crate) fn has_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Forgets the arenas that the heap has no more. Gives their numbers, for the peers that have
    /// mapped them. No message lies there any more: a send is over before its memory is free.
    pub(crate) fn retire(&mut self) -> Vec<u32> {
        let mut gone = Vec::new();
        let ended = limic_heap::ended_arenas();
        if core::mem::replace(&mut self.ended, ended) != ended {
            self.known.retain(|known| {
                let is_there = limic_heap::is_there(known.id);
                if !is_there {
                    gone.push(known.number);
                }
                is_there
            });
        }
        gone
    }
}
