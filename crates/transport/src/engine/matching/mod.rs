//! Which message goes to which receive.
//!
//! - `posted`: receives that wait for a message;
//! - `many`: receives that take many messages;
//! - `unexpected`: messages that wait for a receive, in the order of their arrival;
//! - `unexpected_store`: what is there of such a message;
//! - `reserved`: messages of a runtime to itself, which match nothing;
//! - `deaths`: failures of peers that receives from any source have to report.
//!
//! # Invariants
//! - While a receive is in the posted fifo (`request::posted_fifo`), the posted queue is empty.
//! - Each token in the unexpected queue names a message in the store. A message that was claimed is
//!   in the store alone.

pub(crate) mod deaths;
pub(crate) mod many;
pub(crate) mod posted;
pub(crate) mod reserved;
pub(crate) mod unexpected;
pub(crate) mod unexpected_store;

use limic_matching::HeapMatcher;
use limic_policy::UnexpectedBound;

use self::deaths::Deaths;
use self::many::ManyRooms;
use self::reserved::Kept;
use self::unexpected_store::UnexpectedStore;
use crate::engine::peer::table::Peers;
use crate::error::PeerFailure;
use crate::{Error, Peer, Result, Selector};

/// Receives and messages that wait for each other.
pub(crate) struct Matching {
    matcher: HeapMatcher,
    many: ManyRooms,
    unexpected: UnexpectedStore,
    reserved: Kept,
    bound: UnexpectedBound,
    pub(crate) deaths: Deaths,
    /// Messages that found no receive, and news of accesses, wrapping.
    kept: u32,
}

impl Matching {
    /// Empty queues. `seed` is unknown to peers, who could else choose tags that all fall into one
    /// bin.
    pub(crate) fn new(seed: u64, budget: u64) -> Result<Self> {
        let mut matcher = HeapMatcher::with_seed(Default::default(), seed);
        matcher
            .reserve(1024, 1024)
            .map_err(|full| Error::NoMemory(format!("the matching queues: {full}")))?;
        Ok(Self {
            matcher,
            many: ManyRooms::default(),
            unexpected: UnexpectedStore::new(),
            reserved: Kept::default(),
            bound: UnexpectedBound::new(budget),
            deaths: Deaths::default(),
            kept: 0,
        })
    }

    /// The contents of messages that wait for a receive.
    #[inline(always)]
    pub(crate) fn store(&mut self) -> &mut UnexpectedStore {
        &mut self.unexpected
    }

    /// Whether something may arrive that the selector accepts.
    #[inline(always)]
    pub(crate) fn can_arrive(&self, peers: &Peers, selector: &Selector) -> bool {
        let alive = match selector.source {
            Some(peer) => peers.is_alive(peer.0),
            None => self.deaths.is_empty(),
        };
        alive & peers.closed.is_none()
    }

    /// Refuses a selector that nothing can ever match.
    ///
    /// # Errors
    /// [`Error::PeerFailed`], [`Error::UnknownPeer`].
    #[inline(always)]
    pub(crate) fn check(&mut self, peers: &Peers, selector: &Selector) -> Result<()> {
        if self.can_arrive(peers, selector) {
            return Ok(());
        }
        self.refuse(peers, selector)
    }

    #[cold]
    fn refuse(&mut self, peers: &Peers, selector: &Selector) -> Result<()> {
        let (peer, why) = match selector.source {
            Some(peer) => {
                let failure = peers.failure(peer.0)?;
                let failure = failure.or_else(|| peers.closed.clone());
                (peer, failure.unwrap_or(PeerFailure::Closed))
            }
            None => match (&peers.closed, self.deaths.take()) {
                // Nobody can send to a closed endpoint: it names itself as the one that is gone.
                (Some(why), _) => (Peer(peers.me().unwrap_or(u32::MAX)), why.clone()),
                (None, Some((peer, why))) => (Peer(peer), why),
                (None, None) => return Ok(()),
            },
        };
        Err(why.of(peer))
    }
}
