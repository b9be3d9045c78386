//! Arenas of a peer, mapped here, and which of this endpoint's the peer has.

use std::os::fd::{AsFd, OwnedFd};

use limic_shm::ring::{Mapped, PackedFlags};
use limic_shm::segment::{PeerArena, SegmentError, UnmappedArena};

use crate::buffer::{ArenaBytes, ReceiveBuffer, Skip};
use crate::engine::arena::quota::{Charge, Quota};
use crate::engine::arena::thread_rc::ThreadRc;
use crate::engine::frame::ArenaMessage;
use crate::single_copy::RemoteBytes;

/// Arenas of one peer that are mapped at a time: each costs this process page tables.
const MOST_ARENAS: usize = 4096;

/// Arenas of one peer that are read without being mapped: each costs this process a descriptor.
const MOST_UNMAPPED: usize = 16;

/// Bytes of such an arena that are read at once.
const STEP: usize = 1 << 16;

/// An arena of a peer, and the flags by which its loans go back. All loans that are held share it.
#[derive(Debug)]
pub(crate) struct MappedArena {
    pub(crate) arena: PeerArena,
    pub(crate) flags: PackedFlags<Mapped>,
    _charge: Charge,
}

/// Why a message cannot be read out of an arena of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// This process had no descriptor or no memory for the arena.
    Missed,
    /// There is no such arena, or the bytes are not all in it.
    Outside,
}

/// The arenas of one peer, as far as it has handed them over, and which of this endpoint's it has.
///
/// # Invariants
/// - A number is mapped once.
/// - The peer has the descriptor of each arena in `sent`, and of no other.
pub(crate) struct PeerArenas {
    /// By number. There are few.
    mapped: Vec<(u32, ThreadRc<MappedArena>)>,
    sent: Vec<u32>,
    /// Arenas that cannot be mapped, as beyond the quota: messages that lie there are read by calls
    /// of the kernel.
    unmapped: Vec<(u32, UnmappedArena)>,
    /// Arenas of the peer for which this process had no descriptor or no memory.
    missed: Vec<u32>,
    /// The flags by which room in the peer's arenas goes back.
    released: PackedFlags<Mapped>,
    quota: Quota,
}

impl PeerArenas {
    /// None yet, of a peer with these release flags.
    pub(crate) fn new(released: PackedFlags<Mapped>) -> Self {
        Self {
            mapped: Vec::new(),
            sent: Vec::new(),
            unmapped: Vec::new(),
            missed: Vec::new(),
            released,
            quota: Quota::of_peer(),
        }
    }

    /// Gives room back to the peer.
    pub(crate) fn release(&self, flag: u32, generation: u32) {
        self.released.release(flag, generation);
    }

    /// The descriptor of an arena cannot be had at the moment, if that is not mapped.
    pub(crate) fn miss(&mut self, number: u32) {
        if !self.is_mapped(number) && !self.was_missed(number) && self.missed.len() < MOST_ARENAS {
            self.missed.push(number);
        }
    }

    /// Whether a message came while its arena could not be mapped here, or had no descriptor.
    fn was_missed(&self, number: u32) -> bool {
        self.missed.contains(&number)
    }

    fn is_mapped(&self, number: u32) -> bool {
        self.mapped.iter().any(|(known, _)| *known == number)
    }

    fn kept(&self, number: u32) -> Option<&UnmappedArena> {
        let mut kept = self.unmapped.iter();
        let (_, arena) = kept.find(|(known, _)| *known == number)?;
        Some(arena)
    }

    /// Whether an arena of the peer has come: it is mapped, or kept to be read without that.
    #[inline(always)]
    pub(crate) fn is_here(&self, number: u32) -> bool {
        self.is_mapped(number) || self.kept(number).is_some()
    }

    /// Maps an arena that came over the channel, or keeps its descriptor. One of which neither can
    /// be is an error at the message that lies in it.
    pub(crate) fn map(&mut self, number: u32, bytes: u64, fd: OwnedFd) {
        self.unmap(number);
        let count = self.mapped.len();
        // The whole of it is mapped at once, and it may be longer than all addresses.
        let charge = (count < MOST_ARENAS).then(|| self.quota.charge(bytes));
        let Some(charge) = charge.flatten() else {
            tracing::warn!(
                "an arena of {bytes} bytes of a peer is too much to map beside {count} others"
            );
            return self.keep_unmapped(number, fd);
        };
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        match PeerArena::attach(fd.as_fd(), most) {
            Ok(arena) => {
                let arena = ThreadRc::new(MappedArena {
                    arena,
                    flags: self.released.clone(),
                    _charge: charge,
                });
                self.mapped.push((number, arena));
            }
            Err(error) => {
                tracing::warn!("an arena of a peer cannot be mapped: {error}");
                // A want of memory here is no fault of the peer's.
                if matches!(error, SegmentError::Map { .. }) {
                    self.keep_unmapped(number, fd);
                }
            }
        }
    }

    /// Keeps an arena to be read without being mapped, or notes that it was missed.
    fn keep_unmapped(&mut self, number: u32, fd: OwnedFd) {
        self.miss(number);
        if self.unmapped.len() < MOST_UNMAPPED && self.was_missed(number) {
            if let Ok(arena) = UnmappedArena::new(fd) {
                self.unmapped.push((number, arena));
            }
        }
    }

    #[inline(always)]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut ThreadRc<MappedArena>> {
        let mut mapped = self.mapped.iter_mut();
        let (_, arena) = mapped.find(|(known, _)| *known == number)?;
        Some(arena)
    }

    /// The bytes of a message that lies in an arena of the peer.
    pub(crate) fn bytes(&mut self, number: u32, offset: u64, len: u64) -> Option<ArenaBytes<'_>> {
        ArenaBytes::new(&self.get(number)?.arena, offset, len)
    }

    /// Why a message in an arena that was missed cannot be received, and what helps. `None`: the
    /// numbers of its sender are wrong.
    pub(crate) fn why_missed(&self, message: &ArenaMessage) -> Option<String> {
        let kept = self.kept(message.arena);
        let lies_there = kept.is_none_or(|arena| arena.contains(message.offset, message.len));
        (self.was_missed(message.arena) && lies_there).then(|| {
            if kept.is_some() {
                "there is no memory for a copy of it; raise ulimit -v here".into()
            } else if self.unmapped.len() >= MOST_UNMAPPED {
                format!(
                    "{MOST_UNMAPPED} other arenas of that peer cannot be mapped already; raise \
                     ulimit -v here, or have it use fewer arenas"
                )
            } else {
                "no descriptor is free for the arena in which it lies; raise ulimit -n here".into()
            }
        })
    }

    /// Hands out the first `len` bytes of a message in an arena that is not mapped, part by part,
    /// with the offset of each. False if not all of them can be had.
    pub(crate) fn read_unmapped(
        &self,
        message: &ArenaMessage,
        len: u64,
        mut take: impl FnMut(u64, &[u8]),
    ) -> bool {
        let lies_there = |arena: &&UnmappedArena| arena.contains(message.offset, message.len);
        let Some(arena) = self.kept(message.arena).filter(lies_there) else {
            return false;
        };
        let mut part = [0; STEP];
        let mut at = 0;
        while at < len {
            let part = &mut part[..(len - at).min(STEP as u64) as usize];
            if !arena.read(message.offset + at, part) {
                return false;
            }
            take(at, part);
            at += part.len() as u64;
        }
        true
    }

    /// Copies up to `most` bytes from byte `at` of a message on that lies in an arena of the peer.
    pub(crate) fn read(
        &mut self,
        message: RemoteBytes,
        into: &ReceiveBuffer,
        at: u64,
        most: u64,
    ) -> Result<u64, Unreadable> {
        let number = message.key as u32;
        let Some(bytes) = self.bytes(number, message.address, message.len) else {
            return Err(if self.was_missed(number) {
                Unreadable::Missed
            } else {
                Unreadable::Outside
            });
        };
        let part = most.min(message.len.saturating_sub(at));
        let source = Skip {
            inner: &bytes,
            skip: at,
        };
        into.copy_part(at, part, &source, message.len);
        Ok(part)
    }

    /// The peer uses an arena no longer. Loans that are held there keep it mapped.
    pub(crate) fn unmap(&mut self, number: u32) {
        self.mapped.retain(|(known, _)| *known != number);
        self.missed.retain(|missed| *missed != number);
        self.unmapped.retain(|(unmapped, _)| *unmapped != number);
    }

    /// No arena can be mapped from now on.
    #[cfg(test)]
    pub(crate) fn map_none(&mut self) {
        self.quota = Quota::of_nothing();
    }

    /// An arena is no more. Says whether the peer has it.
    pub(crate) fn forget_sent(&mut self, number: u32) -> bool {
        let before = self.sent.len();
        self.sent.retain(|sent| *sent != number);
        self.sent.len() != before
    }

    #[inline(always)]
    pub(crate) fn was_sent(&self, number: u32) -> bool {
        self.sent.contains(&number)
    }

    pub(crate) fn mark_sent(&mut self, number: u32) {
        self.sent.push(number);
    }
}
