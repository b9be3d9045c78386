//! Arenas of a peer, mapped here, and which of this endpoint's the peer has.

use std::os::fd::{AsFd, OwnedFd};

use limic_shm::bytes::ArenaBytes;
use limic_shm::ring::{Mapped, PackedFlags};
use limic_shm::segment::{PeerArena, SegmentError, UnmappedArena};

use super::ArenaMessage;
use super::quota::{Charge, Quota};
use super::thread_rc::{ThreadRc, ThreadRef};

/// Arenas of one peer that are mapped at a time: each costs this process page tables.
const MOST_MAPPED: usize = 4096;

/// Arenas of one peer that are read without being mapped: each costs this process a descriptor.
const MOST_UNMAPPED: usize = 16;
/// Why a message whose arena is at hand cannot be received.
const NO_COPY: &str = "there is no memory for a copy of it; raise ulimit -v here";

/// Bytes of such an arena that are read at once.
const STEP: usize = 1 << 16;

/// An arena of a peer, and the flags by which its loans go back. All loans that are held share it.
#[derive(Debug)]
struct MappedArena {
    arena: PeerArena,
    flags: PackedFlags<Mapped>,
    _charge: Charge,
}

/// Keeps a received loan mapped, and tells its owner when it is dropped.
#[derive(Debug)]
pub struct LoanHold {
    arena: ThreadRef<MappedArena>,
    flag: u32,
    generation: u32,
}

impl Drop for LoanHold {
    #[inline]
    fn drop(&mut self) {
        self.arena.flags.release(self.flag, self.generation);
    }
}

/// What this process has of an arena of the peer.
#[derive(Debug)]
enum Access {
    /// It is mapped.
    Mapped(ThreadRc<MappedArena>),
    /// It cannot be mapped, as beyond the quota: messages that lie there are read by calls of the
    /// kernel.
    Unmapped(UnmappedArena),
    /// This process had no descriptor or no memory for it.
    Missed,
}

/// The arenas of one peer, as far as it has handed them over, and which of this endpoint's it has.
///
/// # Invariants
/// - A number is known once.
/// - The peer has the descriptor of each arena in `sent`, and of no other.
#[derive(Debug)]
pub struct PeerArenas {
    /// By number. There are few.
    known: Vec<(u32, Access)>,
    sent: Vec<u32>,
    /// The flags by which room in the peer's arenas goes back.
    released: PackedFlags<Mapped>,
    quota: Quota,
}

impl PeerArenas {
    /// None yet, of a peer with these release flags.
    #[must_use]
    pub fn new(released: PackedFlags<Mapped>) -> Self {
        Self {
            known: Vec::new(),
            sent: Vec::new(),
            released,
            quota: Quota::of_peer(),
        }
    }

    /// Gives room back to the peer.
    pub fn release(&self, flag: u32, generation: u32) {
        self.released.release(flag, generation);
    }

    fn access(&self, number: u32) -> Option<&Access> {
        let mut known = self.known.iter();
        let (_, access) = known.find(|(known, _)| *known == number)?;
        Some(access)
    }

    fn count(&self, which: impl Fn(&Access) -> bool) -> usize {
        let known = self.known.iter();
        known.filter(|(_, access)| which(access)).count()
    }

    /// Notes an arena that is not known, unless there are too many.
    fn enter(&mut self, number: u32, access: Access) {
        if self.known.len() < 2 * MOST_MAPPED {
            self.known.push((number, access));
        }
    }

    /// The descriptor of an arena cannot be had at the moment, if that is not known.
    pub fn miss(&mut self, number: u32) {
        if self.access(number).is_none() {
            self.enter(number, Access::Missed);
        }
    }

    /// Whether a message came while its arena could not be mapped here, or had no descriptor.
    #[must_use]
    pub fn was_missed(&self, number: u32) -> bool {
        let access = self.access(number);
        matches!(access, Some(Access::Unmapped(_) | Access::Missed))
    }

    /// Whether an arena of the peer has come: it is mapped, or kept to be read without that.
    #[inline(always)]
    #[must_use]
    pub fn is_here(&self, number: u32) -> bool {
        let access = self.access(number);
        matches!(access, Some(Access::Mapped(_) | Access::Unmapped(_)))
    }

    /// Maps an arena that came over the channel, or keeps its descriptor. One of which neither can
    /// be is an error at the message that lies in it.
    pub fn map(&mut self, number: u32, bytes: u64, fd: OwnedFd) {
        self.unmap(number);
        let count = self.count(|access| matches!(access, Access::Mapped(_)));
        // The whole of it is mapped at once, and it may be longer than all addresses.
        let charge = (count < MOST_MAPPED).then(|| self.quota.charge(bytes));
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
                self.enter(number, Access::Mapped(arena));
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
        let arena = if self.can_keep_more() {
            UnmappedArena::new(fd).ok()
        } else {
            None
        };
        self.enter(number, arena.map_or(Access::Missed, Access::Unmapped));
    }

    fn can_keep_more(&self) -> bool {
        self.count(|access| matches!(access, Access::Unmapped(_))) < MOST_UNMAPPED
    }

    /// Takes a message where it lies: its first byte, and what keeps it there. `None`: it does not
    /// lie in an arena that is mapped here.
    #[inline(always)]
    pub fn hold(&mut self, message: &ArenaMessage) -> Option<(*const u8, LoanHold)> {
        let mut known = self.known.iter_mut();
        let (_, access) = known.find(|(known, _)| *known == message.arena)?;
        let Access::Mapped(mapped) = access else {
            return None;
        };
        let start = mapped.arena.pointer(message.offset, message.len)?;
        mapped.flags.expect_release(message.flag);
        let hold = LoanHold {
            arena: mapped.share(),
            flag: message.flag,
            generation: message.generation,
        };
        Some((start, hold))
    }

    /// The bytes of a message that lies in an arena of the peer, if that is mapped here.
    #[must_use]
    pub fn bytes(&self, number: u32, offset: u64, len: u64) -> Option<ArenaBytes<'_>> {
        match self.access(number)? {
            Access::Mapped(mapped) => ArenaBytes::new(&mapped.arena, offset, len),
            _ => None,
        }
    }

    /// Why a message in an arena cannot be received, and what helps. `None`: the
    /// numbers of its sender are wrong.
    #[must_use]
    pub fn why_missed(&self, message: &ArenaMessage) -> Option<String> {
        match self.access(message.arena)? {
            Access::Mapped(mapped) => mapped
                .arena
                .pointer(message.offset, message.len)
                .map(|_| NO_COPY.into()),
            Access::Unmapped(arena) => arena
                .contains(message.offset, message.len)
                .then(|| NO_COPY.into()),
            Access::Missed if self.can_keep_more() => Some(
                "no descriptor is free for the arena in which it lies; raise ulimit -n here".into(),
            ),
            Access::Missed => Some(format!(
                "{MOST_UNMAPPED} other arenas of that peer cannot be mapped already; raise ulimit \
                 -v here, or have it use fewer arenas"
            )),
        }
    }

    /// Hands out the first `len` bytes of a message in an arena that is not mapped, part by part,
    /// with the offset of each. False if not all of them can be had.
    pub fn read_unmapped(
        &self,
        message: &ArenaMessage,
        len: u64,
        mut take: impl FnMut(u64, &[u8]),
    ) -> bool {
        let Some(Access::Unmapped(arena)) = self.access(message.arena) else {
            return false;
        };
        if !arena.contains(message.offset, message.len) {
            return false;
        }
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

    /// The peer uses an arena no longer. Loans that are held there keep it mapped.
    pub fn unmap(&mut self, number: u32) {
        self.known.retain(|(known, _)| *known != number);
    }

    /// No arena can be mapped from now on.
    #[doc(hidden)]
    pub fn map_none(&mut self) {
        self.quota = Quota::of_nothing();
    }

    /// An arena is no more. Says whether the peer has it.
    pub fn forget_sent(&mut self, number: u32) -> bool {
        let before = self.sent.len();
        self.sent.retain(|sent| *sent != number);
        self.sent.len() != before
    }

    /// Whether the peer has the descriptor of an arena of this endpoint.
    #[inline(always)]
    #[must_use]
    pub fn was_sent(&self, number: u32) -> bool {
        self.sent.contains(&number)
    }

    /// The peer has the descriptor of an arena.
    pub fn mark_sent(&mut self, number: u32) {
        self.sent.push(number);
    }
}
