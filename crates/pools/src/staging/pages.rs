//! Pages of one part of the pool, by number from its first on: which of them are taken, and how
//! often each began a buffer.

use limic_shm::system::FIRST_GENERATION;

#[derive(Debug)]
pub(crate) struct Pages {
    taken: Vec<bool>,
    generations: Vec<u32>,
    free: u32,
}

impl Pages {
    /// The first generation, and the one behind the last: a flag may still hold it, from long ago.
    pub(crate) const FIRST: u32 = 1;

    pub(crate) fn new(count: u32) -> Self {
        Self {
            taken: vec![false; count as usize],
            generations: vec![FIRST_GENERATION - 1; count as usize],
            free: count,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.taken.len() as u32
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// The last one that is taken of `pages` pages from `start` on.
    pub(crate) fn last_taken(&self, start: u32, pages: u32) -> Option<u32> {
        let those = &self.taken[start as usize..(start + pages) as usize];
        let last = those.iter().rposition(|taken| *taken)?;
        Some(start + last as u32)
    }

    /// Takes free pages for a buffer: its generation.
    pub(crate) fn take(&mut self, start: u32, pages: u32) -> u32 {
        self.taken[start as usize..(start + pages) as usize].fill(true);
        self.free -= pages;
        self.next_generation(start)
    }

    pub(crate) fn give_back(&mut self, start: u32, pages: u32) {
        self.taken[start as usize..(start + pages) as usize].fill(false);
        self.free += pages;
    }

    /// The next generation of buffers that begin with this page: never 0, which a flag begins with.
    #[inline]
    pub(crate) fn next_generation(&mut self, page: u32) -> u32 {
        let generation = &mut self.generations[page as usize];
        *generation = generation.wrapping_add(1).max(Self::FIRST);
        *generation
    }
}

#[cfg(test)]
impl Pages {
    /// As if all generations of a page were used up.
    pub(crate) fn use_up(&mut self, page: u32) {
        self.generations[page as usize] = u32::MAX;
    }
}
