//! What the processes of a run know of each other: a page that they all map.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use limic_module_tests::{Memory, PAGE};

/// Exposures that anybody may look up, per honest process.
const OFFERS: usize = 16;

/// An exposure, as its owner published it. The fields may be of different moments: a reader learns
/// from the module whether the handle is right, and from the bytes whether the rest is.
#[derive(Debug, Default)]
struct Offer {
    handle: AtomicU64,
    seed: AtomicU64,
}

#[derive(Debug)]
#[repr(C)]
struct Page {
    made: AtomicU64,
    refused: AtomicU64,
    checked: AtomicU64,
    starved: AtomicU64,
    /// Rank of the honest process in each place, plus 1; 0 while it is away.
    ranks: [AtomicU64; 2],
    offers: [[Offer; OFFERS]; 2],
}

const _: () = assert!(size_of::<Page>() <= PAGE);

/// The shared page.
#[derive(Debug)]
pub(crate) struct Board {
    memory: Memory,
    pub(crate) token: [u64; 2],
    calls: u64,
}

impl Board {
    pub(crate) fn new(token: [u64; 2], calls: u64) -> Self {
        Self {
            memory: Memory::shared(PAGE),
            token,
            calls,
        }
    }

    fn page(&self) -> &Page {
        #[allow(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
        let page = self.memory.pointer().cast::<Page>();
        // SAFETY: mapped as long as the board lives, zeroes are a valid page, and all of it is
        // atomics.
        unsafe { &*page }
    }

    /// Notes a call.
    pub(crate) fn called(&self, refused: bool) {
        self.page().made.fetch_add(1, Relaxed);
        if refused {
            self.page().refused.fetch_add(1, Relaxed);
        }
    }

    /// Notes a call that failed for want of memory.
    pub(crate) fn starve(&self) {
        self.page().starved.fetch_add(1, Relaxed);
    }

    /// How many there were.
    pub(crate) fn starved(&self) -> u64 {
        self.page().starved.load(Relaxed)
    }

    /// Notes bytes that were right.
    pub(crate) fn checked(&self, bytes: u64) {
        self.page().checked.fetch_add(bytes, Relaxed);
    }

    /// Whether all calls were made.
    pub(crate) fn enough(&self) -> bool {
        self.page().made.load(Relaxed) >= self.calls
    }

    /// Waits until so many calls more were made, or all.
    pub(crate) fn wait_for_calls(&self, more: u64) {
        let enough = self.page().made.load(Relaxed) + more;
        while self.page().made.load(Relaxed) < enough.min(self.calls) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn sums(&self) -> (u64, u64, u64) {
        let page = self.page();
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        (of(&page.made), of(&page.refused), of(&page.checked))
    }

    pub(crate) fn set_rank(&self, place: usize, rank: u32) {
        self.page().ranks[place].store(u64::from(rank) + 1, Relaxed);
    }

    pub(crate) fn rank(&self, place: usize) -> Option<u32> {
        let rank = self.page().ranks[place].load(Relaxed);
        rank.checked_sub(1).map(|rank| rank as u32)
    }

    pub(crate) fn offer(&self, place: usize, at: usize, handle: u64, seed: u64) {
        let offer = &self.page().offers[place][at % OFFERS];
        offer.handle.store(0, Relaxed);
        offer.seed.store(seed, Relaxed);
        offer.handle.store(handle, Relaxed);
    }

    /// Handle and seed of an offer, if there is one. The seed belongs to the handle: each handle is
    /// offered once, with its seed stored before it.
    pub(crate) fn look(&self, place: usize, at: usize) -> Option<(u64, u64)> {
        let offer = &self.page().offers[place % 2][at % OFFERS];
        let handle = offer.handle.load(Relaxed);
        let seed = offer.seed.load(Relaxed);
        // Another one may have come in between.
        let same = offer.handle.load(Relaxed) == handle;
        (handle != 0 && same).then_some((handle, seed))
    }
}
