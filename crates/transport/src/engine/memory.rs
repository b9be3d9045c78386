//! This endpoint's own segment, and what of it peers have: private rings and probe words.
//!
//! # Invariants
//! A ring or a word is in one place: free here, with a peer, with an operation, or in quarantine.

use limic_shm::owner::region::Accessing;
use limic_shm::owner::status::OwnStatus;
use limic_shm::ring::line::LineConsumer;
use limic_shm::ring::{LINE, Mapped};
use limic_shm::segment::OwnSegment;

/// A sender stands between claim and publication in the shared ring.
const STALLED: usize = 1;
/// Some rings are read apart (`progress::apart`), and not all of them rest.
const APART: usize = 2;
/// Peers have switched to private rings that are not read yet.
const SWITCHED: usize = 4;

/// The segment that peers write to.
pub(crate) struct OwnMemory {
    pub(crate) segment: OwnSegment,
    /// Where this endpoint says how it is.
    pub(crate) status: OwnStatus<Mapped>,
    free_rings: Vec<u32>,
    /// Private rings that their peers have switched to, and that are not read yet.
    switched: Vec<(u32, u32)>,
    free_words: Vec<u32>,
    /// Where this endpoint says which region of a peer it accesses.
    access: Accessing<Mapped>,
    /// Which rings hold records that wait: [`SWITCHED`], [`STALLED`], [`APART`]. As wide as the
    /// lengths that progress looks at with it, so that one comparison serves for all.
    waiting: usize,
}

impl OwnMemory {
    pub(crate) fn new(segment: OwnSegment) -> Self {
        let shape = segment.shape();
        Self {
            free_rings: (0..shape.private_rings).rev().collect(),
            switched: Vec::new(),
            free_words: (0..shape.probe_words).rev().collect(),
            status: OwnStatus::new(segment.status()),
            access: Accessing::new(segment.access()),
            waiting: 0,
            segment,
        }
    }

    /// A private ring for a peer, if one is free.
    pub(crate) fn take_ring(&mut self) -> Option<u32> {
        self.free_rings.pop()
    }

    pub(crate) fn return_ring(&mut self, ring: u32) {
        self.free_rings.push(ring);
    }

    /// The receiver's end of a private ring.
    pub(crate) fn consumer(&self, ring: u32) -> Option<LineConsumer<Mapped>> {
        let lines = self.segment.shape().ring_bytes / LINE as u32;
        // The shape of the own segment was checked when the segment was made.
        LineConsumer::new(self.segment.private_ring(ring)?, lines).ok()
    }

    /// The peer's further records come through its private ring.
    pub(crate) fn ring_switched(&mut self, ring: u32, peer: u32) {
        self.switched.push((ring, peer));
        self.waiting |= SWITCHED;
    }

    pub(crate) fn take_switched(&mut self) -> Vec<(u32, u32)> {
        self.waiting &= !SWITCHED;
        core::mem::take(&mut self.switched)
    }

    /// A probe word that nobody uses.
    pub(crate) fn take_word(&mut self) -> Option<u32> {
        self.free_words.pop()
    }

    pub(crate) fn return_word(&mut self, word: u32) {
        self.free_words.push(word);
    }

    pub(crate) fn return_words(&mut self, words: impl IntoIterator<Item = u32>) {
        self.free_words.extend(words);
    }

    /// The word in which this endpoint says which region of a peer it accesses, by its key.
    pub(crate) fn access(&self) -> &Accessing<Mapped> {
        &self.access
    }

    #[cfg(test)]
    pub(crate) fn is_free_word(&self, word: u32) -> bool {
        self.free_words.contains(&word)
    }

    /// The shared ring waits for a sender that has begun a record.
    pub(crate) fn stall(&mut self) {
        self.waiting |= STALLED;
    }

    pub(crate) fn take_stalled(&mut self) -> bool {
        let stalled = self.waiting & STALLED != 0;
        self.waiting &= !STALLED;
        stalled
    }

    /// Some rings are to be read apart, or none is.
    pub(crate) fn set_apart(&mut self, any: bool) {
        self.waiting = (self.waiting & !APART) | (usize::from(any) * APART);
    }

    pub(crate) fn has_apart(&self) -> bool {
        self.waiting & APART != 0
    }

    /// Whether progress has to look at rings that wait.
    #[inline(always)]
    pub(crate) fn has_waiting_ring(&self) -> bool {
        self.waiting != 0
    }
}
