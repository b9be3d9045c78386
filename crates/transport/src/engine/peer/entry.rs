//! One peer: how it is reached, how this endpoint stands with it, and what waits for it.

use std::collections::VecDeque;

use limic_records::ControlRecord;
use limic_shm::system::FIRST_GENERATION;

use super::pair::ShmPair;
use crate::Address;
use crate::counters::Row;
use crate::engine::fabric::Link;
use crate::engine::request::Slot;
use crate::error::PeerFailure;
use crate::raw::RequestId;

/// Something that waits for its turn to go to a peer.
#[derive(Clone, Copy)]
pub(crate) enum BacklogEntry {
    /// A send whose turn has not come.
    Message(RequestId),
    Control(ControlRecord),
    /// As `Control`, and counted: `PeerEntry::answers`.
    Answer(ControlRecord),
}

/// How a peer is reached.
pub(crate) enum Channel {
    /// Through shared memory.
    Shm(Box<ShmPair>),
    /// Over the fabric, by this connection.
    Fabric(Link),
    /// It is this endpoint itself.
    Loopback,
}

impl Channel {
    /// Whether what was sent arrives though this process ends: memory is shared, packets are not.
    pub(crate) fn outlives_sender(&self) -> bool {
        !matches!(self, Self::Fabric(_))
    }
}

/// How this endpoint stands with a peer.
pub(crate) enum PeerState {
    /// They have not met. What is sent waits.
    Unmet {
        /// A first contact was made, and not answered.
        connecting: bool,
    },
    Up(Channel),
    /// Boxed, so that one compare tells a channel of shared memory from all else.
    Failed(Box<PeerFailure>),
}

/// One peer.
pub(crate) struct PeerEntry {
    pub(crate) address: Address,
    pub(crate) state: PeerState,
    /// What could not be pushed yet, in order. While it is not empty, everything queues behind it.
    pub(crate) backlog: VecDeque<BacklogEntry>,
    /// Answers in the backlog.
    pub(crate) answers: u16,
    /// Sends of which the peer asked for fragments, and that wait for room, oldest first. While
    /// there are some, it stands in `Transfers::asked_by`.
    pub(crate) asked: VecDeque<Slot>,
    /// The peer stands in the list of peers with a backlog.
    pub(super) listed: bool,
    /// Records that came through the shared ring; decides who gets a private one.
    pub(crate) shared_records: u32,
    /// The private ring, in this endpoint's segment, that the peer was given.
    pub(crate) ring: Option<u32>,
    /// Its records come through that ring.
    pub(crate) has_switched: bool,
    /// It has failed and was met anew. It may come and go without end, so the log says no more of
    /// it.
    pub(crate) has_returned: bool,
    /// It was reached over a network until it failed.
    pub(crate) was_remote: bool,
    /// Over a network: it holds too many unexpected bytes, and is asked before it is sent to.
    pub(crate) asks_first: bool,
    /// One-sided accesses of the peer that this endpoint is at work on.
    pub(crate) served: u16,
    /// What was sent to it and received from it.
    pub(crate) counts: Row,
}

impl PeerEntry {
    /// A peer that has sent nothing, and for which nothing waits.
    pub(super) fn new(address: Address, state: PeerState, counts: Row) -> Self {
        Self {
            address,
            state,
            backlog: VecDeque::new(),
            answers: 0,
            asked: VecDeque::new(),
            listed: false,
            shared_records: 0,
            ring: None,
            has_switched: false,
            has_returned: false,
            was_remote: false,
            asks_first: false,
            served: 0,
            counts,
        }
    }

    #[inline(always)]
    pub(crate) fn pair(&self) -> Option<&ShmPair> {
        match &self.state {
            PeerState::Up(Channel::Shm(pair)) => Some(pair),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn pair_mut(&mut self) -> Option<&mut ShmPair> {
        match &mut self.state {
            PeerState::Up(Channel::Shm(pair)) => Some(pair),
            _ => None,
        }
    }

    /// The first of what waits has gone to the peer.
    pub(crate) fn pop_backlog(&mut self) {
        if let Some(BacklogEntry::Answer(_)) = self.backlog.pop_front() {
            self.answers -= 1;
        }
    }

    /// Nothing of what waits is to go to the peer.
    pub(crate) fn clear_backlog(&mut self) {
        self.backlog.clear();
        self.answers = 0;
    }

    pub(crate) fn channel(&self) -> Option<&Channel> {
        match &self.state {
            PeerState::Up(channel) => Some(channel),
            _ => None,
        }
    }

    pub(crate) fn failure(&self) -> Option<&PeerFailure> {
        match &self.state {
            PeerState::Failed(why) => Some(why),
            _ => None,
        }
    }
}

/// Questions that a peer was asked, and up to which one it has answered (`peer::inquiry`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Questions {
    pub(crate) last: u32,
    pub(crate) answered: u32,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            last: FIRST_GENERATION - 1,
            answered: FIRST_GENERATION - 1,
        }
    }
}
