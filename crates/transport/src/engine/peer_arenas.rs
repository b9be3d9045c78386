//! Arenas of a peer, mapped here, and which of this endpoint's the peer has.

use std::os::fd::OwnedFd;

use limic_shm::ring::{Mapped, PackedFlags};
use limic_shm::segment::PeerArena;

use super::lender::Keeper;

/// An arena of a peer, and the flags by which its loans go back. All loans that are held share it.
#[derive(Debug)]
pub(crate) struct Lender {
    pub(crate) arena: PeerArena,
    pub(crate) flags: PackedFlags<Mapped>,
}

/// The arenas of one peer, as far as it has handed them over, and which of ours it has.
#[derive(Default)]
pub(crate) struct PeerArenas {
    /// By number. There are few.
    theirs: Vec<(u32, Keeper<Lender>)>,
    given: Vec<u32>,
}

impl PeerArenas {
    /// Maps an arena that came over the channel. One that cannot be mapped is an error at the message that
    /// lies in it.
    pub(crate) fn enter(
        &mut self,
        number: u32,
        bytes: u64,
        fd: OwnedFd,
        flags: &PackedFlags<Mapped>,
    ) {
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        match PeerArena::attach(fd, most) {
            Ok(arena) => {
                self.leave(number);
                let flags = flags.clone();
                let lender = Keeper::new(Lender { arena, flags });
                self.theirs.push((number, lender));
            }
            Err(error) => tracing::warn!("an arena for loans cannot be mapped: {error}"),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Keeper<Lender>> {
        let mut theirs = self.theirs.iter_mut();
        let (_, lender) = theirs.find(|(known, _)| *known == number)?;
        Some(lender)
    }

    /// The peer uses an arena no longer. Loans that are held there keep it mapped.
    pub(crate) fn leave(&mut self, number: u32) {
        self.theirs.retain(|(known, _)| *known != number);
    }

    /// An arena is no more. Says whether the peer has it.
    pub(crate) fn take_given(&mut self, number: u32) -> bool {
        let before = self.given.len();
        self.given.retain(|given| *given != number);
        self.given.len() != before
    }

    #[inline(always)]
    pub(crate) fn given(&self, number: u32) -> bool {
        self.given.contains(&number)
    }

    pub(crate) fn mark_given(&mut self, number: u32) {
        self.given.push(number);
    }
}
