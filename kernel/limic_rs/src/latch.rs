// SPDX-License-Identifier: GPL-2.0

//! Latches: exposures that stay for many messages, and that peers reach only while their owner says
//! so, which costs it no call.
//!
//! A latch is two words of memory that the owner's process maps. In one it counts for how many
//! messages the exposure is open; in the other the module counts who is inside. Either side changes
//! its own word and then looks at the other's, so a copier that the owner does not see inside finds
//! the latch shut.
//!
//! The owner may write whatever it likes into both. It can only harm itself: what keeps the pages
//! in place, and the gate, do not depend on them, and nobody here waits for them.
//!
//! When memory behind an exposure is about to change, its latch is struck: it can be shut, but not
//! opened again, since its pages are not those of the process any more. What is struck and shut is
//! ended by the kernel's worker.

use crate::abi;
use crate::area::Area;
use crate::ffi;
use crate::pinned::pages_of;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::{new_spinlock, sync::SpinLock};

/// In `open`: it must not be opened any more. Set here, or by the owner of a latch that is shut,
/// and cleared where an exposure takes the latch.
const STRUCK: u32 = 1 << 31;

/// `struct limic_latch`
#[repr(C)]
struct Words {
    /// Counted by the owner, beside [`STRUCK`].
    open: Atomic<u32>,
    /// Counted here.
    inside: Atomic<u32>,
    reserved: [Atomic<u32>; 14],
}

const _: () = assert!(size_of::<Words>() == 64);

/// What one latch is in front of.
struct Place {
    base: u64,
    len: u64,
    pages: usize,
    /// The exposure, or 0 if it is not to be ended from here.
    handle: u64,
    struck: bool,
}

struct Inner {
    places: KVec<Option<Place>>,
    pages: usize,
}

/// The latches of one session.
///
/// # Invariants
/// `area` has room for [`abi::LATCHES`] latches, and `places` has as many entries.
#[pin_data]
pub(crate) struct Latches {
    area: Area,
    #[pin]
    inner: SpinLock<Inner>,
}

impl Latches {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut places = KVec::with_capacity(abi::LATCHES, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..abi::LATCHES {
            places.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        let area = Area::new(abi::LATCHES * size_of::<Words>())?;
        let inner = Inner { places, pages: 0 };
        // INVARIANT: made so above.
        let latches = pin_init!(Self { area, inner <- new_spinlock!(inner, "limic_latches") });
        Arc::pin_init(latches, GFP_KERNEL_ACCOUNT)
    }

    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        self.area.map(vma)
    }

    /// Pages behind all latches.
    pub(crate) fn pages(&self) -> usize {
        self.inner.lock().pages
    }

    /// Takes a latch for memory that is about to be pinned; it is shut. EBUSY if it is in use.
    pub(crate) fn take(self: &Arc<Self>, index: u32, base: u64, len: u64) -> Result<Latch> {
        let pages = pages_of(base, len);
        let mut inner = self.inner.lock();
        let place = inner.places.get_mut(index as usize).ok_or(EINVAL)?;
        if place.is_some() {
            return Err(EBUSY);
        }
        *place = Some(Place {
            base,
            len,
            pages,
            handle: 0,
            struck: false,
        });
        inner.pages += pages;
        // INVARIANT: `places` has such an entry, which is taken until the drop.
        let latch = Latch {
            latches: self.clone(),
            index,
        };
        latch.words().open.store(0, Relaxed);
        Ok(latch)
    }

    /// Strikes those in front of memory between these addresses, which is about to change. True if
    /// there was one. Does not sleep.
    pub(crate) fn strike(&self, start: u64, end: u64) -> bool {
        let mut some = false;
        for (index, place) in self.inner.lock().places.iter_mut().enumerate() {
            let Some(place) = place else {
                continue;
            };
            if !place.struck && super::kept::overlap(place.base, place.len, start, end) {
                place.struck = true;
                some = true;
                // The owner may have set it too, or set it just now. Fully ordered: before the
                // memory changes.
                ffi::set_bits(&self.words(index).open, STRUCK);
            }
        }
        some
    }

    /// The handle of an exposure that is struck and shut, and that nobody else was told of here.
    pub(crate) fn struck(&self) -> Option<u64> {
        let mut inner = self.inner.lock();
        for (index, place) in inner.places.iter_mut().enumerate() {
            let Some(place) = place else {
                continue;
            };
            let shut = self.words(index).open.load(Relaxed) & !STRUCK == 0;
            if place.struck && place.handle != 0 && shut {
                return Some(core::mem::take(&mut place.handle));
            }
        }
        None
    }

    /// The words of a latch, of which there are [`abi::LATCHES`]; of the first one for other
    /// numbers.
    fn words(&self, index: usize) -> &Words {
        let index = if index < abi::LATCHES { index } else { 0 };
        // SAFETY: by the invariant they are there; any bytes are atomics, and these may be shared.
        unsafe { self.area.base().cast::<Words>().add(index).as_ref() }
    }
}

/// The latch in front of one exposure. It is free again when this is dropped.
///
/// # Invariants
/// Entry `index` of the places is this latch's, and is there.
pub(crate) struct Latch {
    latches: Arc<Latches>,
    index: u32,
}

impl Latch {
    fn words(&self) -> &Words {
        self.latches.words(self.index as usize)
    }

    /// Names the exposure that the latch is in front of, so that it is ended when it was struck.
    /// False if it was struck already.
    pub(crate) fn name(&self, handle: u64) -> bool {
        let mut inner = self.latches.inner.lock();
        match inner.places.get_mut(self.index as usize) {
            Some(Some(place)) if !place.struck => {
                place.handle = handle;
                true
            }
            _ => false,
        }
    }

    /// Goes in. `None` if the latch is shut.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let words = self.words();
        // Full: pairs with the owner, who counts itself out of `open` and then looks at `inside`.
        // Either it sees this count, or `open` is 0 here.
        words.inside.fetch_add(1, Full);
        let inside = Inside(words);
        // Acquire: pairs with the owner's opening, before which it wrote the message.
        (words.open.load(Acquire) & !STRUCK != 0).then_some(inside)
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        let mut inner = self.latches.inner.lock();
        let place = inner.places.get_mut(self.index as usize);
        if let Some(place) = place.and_then(Option::take) {
            inner.pages -= place.pages;
        }
    }
}

/// Somebody who is inside; leaves when dropped.
pub(crate) struct Inside<'a>(&'a Words);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire of the owner, whose memory it is again.
        self.0.inside.fetch_sub(1, Release);
    }
}
