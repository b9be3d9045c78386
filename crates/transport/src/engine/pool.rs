//! The fixed pool of chunks for pipelined messages (H1). It lies in this endpoint's segment and
//! does not grow with the number of peers.
//!
//! Only the owner hands chunks out; the peer that was named gives a chunk back by its release
//! flag. So a peer that dies takes nothing along: the owner knows what it had lent to whom.

use limic_shm::ring::{Mapped, ReleaseFlags};

struct Lent {
    chunk: u32,
    peer: u32,
}

pub(crate) struct Pool {
    chunks: Vec<Mapped>,
    flags: ReleaseFlags<Mapped>,
    generations: Vec<u32>,
    /// Last released first: its lines are still in the cache.
    free: Vec<u32>,
    lent: Vec<Lent>,
    /// Most chunks that one peer may hold, so that a peer that makes no progress leaves some to others.
    share: usize,
    pub(crate) chunk_bytes: u64,
}

/// A chunk to be filled and named to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Pool {
    pub(crate) fn new(chunks: Vec<Mapped>, flags: ReleaseFlags<Mapped>, chunk_bytes: u32) -> Self {
        let count = chunks.len() as u32;
        Self {
            generations: vec![0; chunks.len()],
            free: (0..count).rev().collect(),
            lent: Vec::with_capacity(chunks.len()),
            share: (chunks.len() * 3 / 4).max(1),
            chunks,
            flags,
            chunk_bytes: u64::from(chunk_bytes),
        }
    }

    /// Takes a chunk for a peer, unless the peer holds `most` already.
    pub(crate) fn take(&mut self, peer: u32, most: usize) -> Option<Chunk> {
        self.reclaim();
        let held = self.lent.iter().filter(|lent| lent.peer == peer).count();
        if held >= most.min(self.share) {
            return None;
        }
        let index = self.free.pop()?;
        self.lent.push(Lent { chunk: index, peer });
        let generation = &mut self.generations[index as usize];
        *generation = generation.wrapping_add(1).max(1);
        Some(Chunk {
            index,
            generation: *generation,
        })
    }

    /// Takes back a chunk that was not named to the peer after all.
    pub(crate) fn put_back(&mut self, chunk: Chunk) {
        self.lent.retain(|lent| lent.chunk != chunk.index);
        self.free.push(chunk.index);
    }

    /// The bytes of a chunk.
    pub(crate) fn memory(&self, chunk: Chunk) -> &Mapped {
        &self.chunks[chunk.index as usize]
    }

    /// Takes back everything that a failed peer held.
    pub(crate) fn forget_peer(&mut self, peer: u32) {
        let Self { lent, free, .. } = self;
        lent.retain(|entry| {
            if entry.peer == peer {
                free.push(entry.chunk);
            }
            entry.peer != peer
        });
    }

    /// Looks which chunks came back. One flag line is read per chunk that is out; the flags of
    /// chunks that are still out stay shared in this core's cache.
    fn reclaim(&mut self) {
        let Self {
            lent,
            free,
            flags,
            generations,
            ..
        } = self;
        lent.retain(|entry| {
            let back = flags.is_released(entry.chunk, generations[entry.chunk as usize]);
            if back {
                free.push(entry.chunk);
            }
            !back
        });
    }
}
