//! Arenas of the heap by the numbers that an endpoint gives them, for its peers.

use std::os::fd::OwnedFd;

use limic_shm::bytes::RawSlice;

use crate::{Place, descriptor, ended_arenas, is_there, place};

/// Numbers from here on are those of the heap's arenas; others are the endpoint's own.
const FIRST: u32 = 1 << 31;

/// An arena of the heap that peers may have mapped.
#[derive(Debug)]
struct Known {
    id: u64,
    number: u32,
}

/// The heap's arenas that messages of an endpoint have lain in.
///
/// # Invariants
/// A number is given once.
#[derive(Debug, Default)]
pub struct HeapArenas {
    known: Vec<Known>,
    given: u32,
    /// How many arenas of the heap had ended when `known` was last looked through.
    ended: u64,
}

/// Where a message lies in the heap: the number of the arena, and where it begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapPlace {
    /// The arena, as peers know it.
    pub arena: u32,
    /// Where it begins there.
    pub offset: u64,
}

/// Where bytes lie in the process's heap, if they are one slice and lie there. Not inlined: short
/// messages share code with long ones, and do not ask.
#[inline(never)]
#[must_use]
pub fn place_of(data: &[RawSlice]) -> Option<Place> {
    match data {
        [one] => place(one.start, one.len),
        _ => None,
    }
}

impl HeapArenas {
    /// Where bytes lie, as a peer is told. `None`: they lie elsewhere, or no descriptor is free.
    pub fn place(&mut self, data: &[RawSlice]) -> Option<HeapPlace> {
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
    #[must_use]
    pub fn descriptor(&self, number: u32) -> Option<(OwnedFd, usize)> {
        let known = self.known.iter().find(|known| known.number == number)?;
        descriptor(known.id)
    }

    /// Whether a message has lain in one.
    #[inline(always)]
    #[must_use]
    pub fn has_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Forgets the arenas that the heap has no more. Gives their numbers, for the peers that have
    /// mapped them. No message lies there any more: a send is over before its memory is free.
    pub fn retire(&mut self) -> Vec<u32> {
        let mut gone = Vec::new();
        let ended = ended_arenas();
        if core::mem::replace(&mut self.ended, ended) != ended {
            self.known.retain(|known| {
                let is_there = is_there(known.id);
                if !is_there {
                    gone.push(known.number);
                }
                is_there
            });
        }
        gone
    }
}
