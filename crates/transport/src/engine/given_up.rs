//! Peers that were given up while their processes live: they sent what makes no sense, or a connection with them broke.
//!
//! Such a process may still read and write what it was given here: its private ring, pieces of the pool, meet words, an access slot
//! (for loans, which outlive even a goodbye, see `arenas`). Whoever got them next would read its bytes, or lose their own. So all of it is kept until the process has ended,
//! which its pidfd tells. A peer that has said goodbye is in the middle of nothing, and is not among these.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Core;

/// A peer whose process lives, as far as is known, with what is kept because of that.
struct Outliving {
    peer: u32,
    /// A pidfd.
    process: OwnedFd,
    rings: Vec<u32>,
    meets: Vec<u32>,
}

impl Outliving {
    fn has_ended(&self) -> bool {
        has_ended(&self.process)
    }
}

/// Whether the process of a pidfd has ended.
pub(super) fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// All of them. Mostly there are none.
#[derive(Default)]
pub(crate) struct GivenUp(Vec<Outliving>);

impl GivenUp {
    /// A peer is given up, or will be, and its process (a pidfd) may live on.
    pub(crate) fn enter(&mut self, peer: u32, process: OwnedFd) {
        match self.find(peer) {
            Some(known) => known.process = process,
            None => self.0.push(Outliving {
                peer,
                process,
                rings: Vec::new(),
                meets: Vec::new(),
            }),
        }
    }

    /// A peer has closed in good order after all, or is met again over another connection.
    pub(crate) fn leave(&mut self, peer: u32) {
        self.0.retain(|known| known.peer != peer);
    }

    fn find(&mut self, peer: u32) -> Option<&mut Outliving> {
        self.0.iter_mut().find(|known| known.peer == peer)
    }

    /// Whether a peer that was given up lives, as far as is known.
    pub(crate) fn lives(&self, peer: u32) -> bool {
        let known = self.0.iter().find(|known| known.peer == peer);
        known.is_some_and(|known| !known.has_ended())
    }

    /// Keeps a private ring until the process has ended. False if nobody will tell.
    pub(crate) fn keep_ring(&mut self, peer: u32, ring: u32) -> bool {
        let known = self.find(peer);
        known.map(|known| known.rings.push(ring)).is_some()
    }

    /// Keeps a meet word until the process has ended. False if nobody will tell.
    pub(crate) fn keep_meet(&mut self, peer: u32, word: u32) -> bool {
        let known = self.find(peer);
        known.map(|known| known.meets.push(word)).is_some()
    }
}

impl Core {
    /// Now and then: takes back what peers were left with that were given up, and have ended since.
    pub(crate) fn take_back_from_ended(&mut self) {
        while let Some(at) = self.given_up.0.iter().position(Outliving::has_ended) {
            let ended = self.given_up.0.swap_remove(at);
            self.meets.extend(ended.meets);
            let rings = ended.rings.iter().map(|ring| (ended.peer, Some(*ring)));
            self.dead_links.extend(rings);
            // One that has not failed yet will, and is read first.
            if !self.peers.is_alive(ended.peer) {
                self.pool.forget_peer(ended.peer);
            }
        }
    }
}
