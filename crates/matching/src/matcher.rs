//! The two queues together: what callers see.

use super::error::Full;
use super::label::{Envelope, Selector, Source, Token};
use super::posted::Posted;
use super::posted_node::PostedNode;
use super::queue::Queue;
use super::storage::Storage;
use super::unexpected::Unexpected;
use super::unexpected_node::UnexpectedNode;

/// Names a posted receive until it is matched, cancelled or drained; stale from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedId {
    index: u32,
    generation: u32,
}

impl PostedId {
    /// Names no receive, ever: for who has one in hand that was never queued.
    pub const NONE: Self = Self {
        index: 0,
        generation: 0,
    };
}

/// Names an unexpected message until it is taken or removed; stale from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnexpectedId {
    index: u32,
    generation: u32,
}

/// The posted and the unexpected queue of one endpoint.
///
/// Both sides are in two steps, since the caller has its own work between: a receive is
/// [`take_unexpected`](Self::take_unexpected), then [`post`](Self::post) if there was none; an
/// arrival is [`take_posted`](Self::take_posted), then [`push_unexpected`](Self::push_unexpected)
/// if there was none. A matched probe (`MPI_Mprobe`) is `take_unexpected`: the caller keeps the
/// message. The crate's documentation has labels, order and costs.
#[derive(Debug)]
pub struct Matcher<S> {
    posted: Posted,
    unexpected: Unexpected,
    storage: S,
    seed: u64,
}

impl<S: Storage + Default> Matcher<S> {
    /// A matcher over storage as it starts (nothing, for tables on the heap:
    /// [`reserve`](Self::reserve) first).
    #[must_use]
    pub fn new() -> Self {
        Self::with_storage(S::default())
    }
}

impl<S: Storage + Default> Default for Matcher<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Storage> Matcher<S> {
    /// A matcher over this storage. Its content does not matter.
    #[must_use]
    pub fn with_storage(storage: S) -> Self {
        Self::with_seed(storage, 0xd1b5_4a32_d192_ed03)
    }

    /// A matcher whose hash depends on `seed`.
    ///
    /// With a random one, a peer cannot choose tags that fall into one bucket and make matching
    /// slow.
    #[must_use]
    pub fn with_seed(mut storage: S, seed: u64) -> Self {
        storage.posted().nodes.fill(PostedNode::EMPTY);
        storage.unexpected().nodes.fill(UnexpectedNode::EMPTY);
        let (posted, unexpected) = (Posted::new(), Unexpected::new());
        let mut matcher = Self {
            posted,
            unexpected,
            storage,
            seed,
        };
        matcher.attach();
        matcher
    }

    fn attach(&mut self) {
        self.posted.attach(&mut self.storage.posted(), self.seed);
        self.unexpected
            .attach(&mut self.storage.unexpected(), self.seed);
    }

    /// Receive, first step: removes the oldest unexpected message that fits.
    #[inline(always)]
    pub fn take_unexpected(&mut self, selector: &Selector) -> Option<(Envelope, Token)> {
        if self.unexpected.queue.len == 0 {
            return None;
        }
        self.take_waiting(selector)
    }

    #[inline(never)]
    fn take_waiting(&mut self, selector: &Selector) -> Option<(Envelope, Token)> {
        let mut memory = self.storage.unexpected();
        let id = self.unexpected.find(&mut memory, selector)?;
        self.unexpected.remove(&mut memory, id)
    }

    /// Receive, second step: queues it. The caller has seen
    /// [`take_unexpected`](Self::take_unexpected) find nothing.
    ///
    /// # Errors
    /// [`Full::Posted`]; nothing has changed, [`reserve`](Self::reserve) makes room.
    #[inline(always)]
    pub fn post(&mut self, selector: &Selector, token: Token) -> Result<PostedId, Full> {
        let mut memory = self.storage.posted();
        let pushed = self.posted.push(&mut memory, selector, token);
        self.posted_id(pushed)
    }

    /// As [`post`](Self::post), for a receive that stays queued whatever finds it, at its place in
    /// the order: room for many messages. [`cancel_posted`](Self::cancel_posted) removes it.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn post_staying(&mut self, selector: &Selector, token: Token) -> Result<PostedId, Full> {
        let mut memory = self.storage.posted();
        let pushed = self.posted.push_staying(&mut memory, selector, token);
        self.posted_id(pushed)
    }

    /// The id of what was queued at this index, in this generation.
    #[inline(always)]
    fn posted_id(&self, queued: Option<(u32, u32)>) -> Result<PostedId, Full> {
        match queued {
            Some((index, generation)) => Ok(PostedId { index, generation }),
            None => Err(Full::Posted {
                capacity: self.posted_capacity(),
            }),
        }
    }

    /// Arrival, first step: removes the oldest posted receive that the message fits, unless that
    /// one stays.
    #[inline(always)]
    pub fn take_posted(&mut self, envelope: &Envelope) -> Option<Token> {
        if self.posted.queue.len == 0 {
            return None;
        }
        self.posted.take(&mut self.storage.posted(), envelope)
    }

    /// Arrival, second step: queues the message. The caller has seen
    /// [`take_posted`](Self::take_posted) find nothing.
    ///
    /// # Errors
    /// [`Full::Unexpected`]; nothing has changed, [`reserve`](Self::reserve) makes room.
    #[inline]
    pub fn push_unexpected(
        &mut self,
        envelope: &Envelope,
        token: Token,
    ) -> Result<UnexpectedId, Full> {
        match self
            .unexpected
            .push(&mut self.storage.unexpected(), envelope, token)
        {
            Some((index, generation)) => Ok(UnexpectedId { index, generation }),
            None => Err(Full::Unexpected {
                capacity: self.unexpected_capacity(),
            }),
        }
    }

    /// The oldest unexpected message that fits; it stays.
    #[inline(always)]
    pub fn probe(&mut self, selector: &Selector) -> Option<(Envelope, Token)> {
        if self.unexpected.queue.len == 0 {
            return None;
        }
        self.probe_waiting(selector)
    }

    #[inline(never)]
    fn probe_waiting(&mut self, selector: &Selector) -> Option<(Envelope, Token)> {
        let mut memory = self.storage.unexpected();
        let id = self.unexpected.find(&mut memory, selector)?;
        let node = memory.nodes.get(id as usize)?;
        Some((node.envelope(), node.token()))
    }

    /// What a posted receive asks for, with its tag under its mask; `None` if it is gone already.
    /// O(1).
    #[must_use]
    pub fn posted_selector(&mut self, id: PostedId) -> Option<Selector> {
        let memory = self.storage.posted();
        if !Queue::holds(memory.nodes, id.index, id.generation) {
            return None;
        }
        let node = memory.nodes.get(id.index as usize);
        node.map(PostedNode::selector)
    }

    /// Removes a posted receive, `None` if it is gone already. O(1).
    pub fn cancel_posted(&mut self, id: PostedId) -> Option<Token> {
        let mut memory = self.storage.posted();
        if !Queue::holds(memory.nodes, id.index, id.generation) {
            return None;
        }
        self.posted.remove(&mut memory, id.index)
    }

    /// Removes an unexpected message, `None` if it is gone already. O(1).
    pub fn remove_unexpected(&mut self, id: UnexpectedId) -> Option<Token> {
        let mut memory = self.storage.unexpected();
        if !Queue::holds(memory.nodes, id.index, id.generation) {
            return None;
        }
        self.unexpected
            .remove(&mut memory, id.index)
            .map(|(_, token)| token)
    }

    /// Removes every posted receive with exactly this source, in the order of posting.
    ///
    /// For a peer that failed: `Source::Is(peer)` are the receives that cannot be fulfilled any
    /// more; `Source::Any` are those (of any source, not of all sources) that may not be. Linear in
    /// the queue.
    pub fn drain_posted(&mut self, source: Source, each: impl FnMut(Selector, Token)) {
        self.drain_posted_if(|selector| selector.source == source, each);
    }

    /// Removes every posted receive that `which` picks, in the order of posting. Linear in the
    /// queue.
    ///
    /// The tag that it sees is the one of the receive under its mask.
    pub fn drain_posted_if(
        &mut self,
        which: impl FnMut(&Selector) -> bool,
        each: impl FnMut(Selector, Token),
    ) {
        self.posted.drain(&mut self.storage.posted(), which, each);
    }

    /// Makes room for at least this many receives and messages more than are queued now. Ids stay
    /// valid.
    ///
    /// The slow path: it may allocate, and puts everything into its bins again. Does nothing if
    /// there is room.
    ///
    /// # Errors
    /// [`Full`] with the table that cannot grow: no memory, or storage of fixed size. All that was
    /// queued still is.
    pub fn reserve(&mut self, posted: usize, unexpected: usize) -> Result<(), Full> {
        let wanted = (
            self.posted_len().saturating_add(posted),
            self.unexpected_len().saturating_add(unexpected),
        );
        let roomy = |matcher: &Self| {
            if wanted.0 > matcher.posted_capacity() {
                return Err(Full::Posted {
                    capacity: matcher.posted_capacity(),
                });
            }
            if wanted.1 > matcher.unexpected_capacity() {
                return Err(Full::Unexpected {
                    capacity: matcher.unexpected_capacity(),
                });
            }
            Ok(())
        };
        if roomy(self).is_ok() {
            return Ok(());
        }
        let grown = self.storage.grow(wanted.0, wanted.1);
        self.attach();
        grown?;
        // What the storage gave may be more than the ids can name.
        roomy(self)
    }

    /// Whether nothing is queued, on neither side.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.posted.queue.len | self.unexpected.queue.len == 0
    }

    /// Receives in the posted queue.
    #[inline(always)]
    #[must_use]
    pub const fn posted_len(&self) -> usize {
        self.posted.queue.len as usize
    }

    /// Messages in the unexpected queue.
    #[must_use]
    pub const fn unexpected_len(&self) -> usize {
        self.unexpected.queue.len as usize
    }

    /// Receives that the posted queue holds at most before [`reserve`](Self::reserve).
    #[must_use]
    pub const fn posted_capacity(&self) -> usize {
        self.posted.queue.capacity as usize
    }

    /// Messages that the unexpected queue holds at most before [`reserve`](Self::reserve).
    #[must_use]
    pub const fn unexpected_capacity(&self) -> usize {
        self.unexpected.queue.capacity as usize
    }
}
