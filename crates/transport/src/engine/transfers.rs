//! Long messages under way that progress has to push, and loans that went as messages.

use std::collections::VecDeque;

use limic_copy::KmodBackend;
use limic_heap::HeapArenas;
use limic_shm::owner::OwnSplits;

use crate::raw::RequestId;

/// Bytes that a sender moves in long fragments, once it has waited so long that it yielded.
const OVERSUBSCRIBED_BYTES: u64 = 1 << 20;

/// Long messages under way.
///
/// # Invariants
/// - A peer stands in `asked_by` or in `resting` once while sends to it wait.
/// - A copy stands in `copies` once. One that ends otherwise, since its peer has failed or has
///   copied all of it, is left there until its turn comes.
/// - A line of `splits` is in use while its copy stands in `copies`, or waits for the other end.
pub(crate) struct Transfers {
    /// Peers that asked for fragments and wait for some (`PeerEntry::asked`), or waited before they
    /// failed.
    pub(crate) asked_by: VecDeque<u32>,
    /// The same where they read regions, and help with that rests.
    pub(crate) resting: Vec<u32>,
    /// Single copies.
    pub(crate) copies: VecDeque<RequestId>,
    /// Where both ends say how far they are with copies of which each does a part.
    pub(crate) splits: OwnSplits<RequestId>,
    /// What peers know of the memory from which messages go without a copy by this side.
    pub(crate) heap: HeapArenas,
    /// Loans that went as ordinary messages, by request.
    pub(crate) loans: Vec<(RequestId, u64)>,
    /// Bytes that still go as if the receiver did not run beside the sender.
    oversubscribed: u64,
    /// The kernel module, if this process may use it.
    pub(crate) kmod: KmodBackend,
}

impl Transfers {
    pub(crate) fn new(kmod: KmodBackend, splits: OwnSplits<RequestId>) -> Self {
        Self {
            asked_by: VecDeque::new(),
            resting: Vec::new(),
            copies: VecDeque::new(),
            splits,
            heap: HeapArenas::default(),
            loans: Vec::new(),
            oversubscribed: 0,
            kmod,
        }
    }

    /// Nothing is moved any more.
    pub(crate) fn leave_to_parent(&mut self) {
        self.asked_by.clear();
        self.resting.clear();
        self.copies.clear();
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.asked_by.is_empty() & self.copies.is_empty()
    }

    /// Help goes on.
    pub(crate) fn go_on(&mut self) {
        self.asked_by.extend(self.resting.drain(..));
    }

    /// The endpoint waits, and nothing comes: the receivers of its fragments do not run beside it.
    pub(crate) fn yielded(&mut self) {
        if !self.asked_by.is_empty() {
            self.oversubscribed = OVERSUBSCRIBED_BYTES;
        }
    }

    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.oversubscribed > 0
    }

    /// Fragments of so many bytes went.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.oversubscribed = self.oversubscribed.saturating_sub(bytes);
    }
}
