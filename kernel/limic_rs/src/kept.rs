// SPDX-License-Identifier: GPL-2.0

//! Pins that stay when an exposure or a request is over, so that a buffer that comes again is not
//! pinned again.
//!
//! How a kept pin is known to be that of the memory that is there now: the kernel tells (mmu
//! notifier) before it changes or protects any page of an address space, and after it has. What
//! overlaps such a change is struck out at its beginning, under the lock, so no later call finds
//! it. A pin is kept only if no change was under way when the pinning began, and none has begun
//! since: else its pages may be those from before.
//!
//! What is struck out is unpinned a little later by the kernel's worker, since the one who changes
//! memory holds locks under which pages cannot be let go.

use crate::counters::{COUNTERS, Event, count};
use crate::ffi;
use crate::held::{Held, Pins};
use crate::latch::{Latch, Latches};
use crate::pieces::Pieces;
use crate::pinned::{Pinned, pages_of};
use kernel::mm::Mm;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::atomic::Relaxed;
use kernel::{new_spinlock, sync::SpinLock};

/// Buffers that one session keeps pinned at most.
const PLACES: usize = 32;

/// A buffer that is kept pinned.
struct Place {
    pinned: Arc<Pinned>,
    base: u64,
    len: u64,
    /// Whether it was pinned for writing, which serves for reading too.
    write: bool,
    /// Its pages are not, or may not be, those that the process has there now.
    stale: bool,
    /// The clock when it was last used.
    used: u64,
}

impl Place {
    fn pages(&self) -> usize {
        self.pinned.pages()
    }

    fn serves(&self, base: u64, len: u64, write: bool) -> bool {
        let inside = base >= self.base && base + len <= self.base + self.len;
        inside && !self.stale && (self.write || !write)
    }

    /// Whether a page of it is among these addresses.
    fn overlaps(&self, start: u64, end: u64) -> bool {
        overlap(self.base, self.len, start, end)
    }
}

/// Whether a page of a buffer is between two addresses.
pub(crate) fn overlap(base: u64, len: u64, start: u64, end: u64) -> bool {
    let page = PAGE_SIZE as u64;
    let first = base / page * page;
    let behind = (base + len).next_multiple_of(page);
    first < end && start < behind
}

struct Inner {
    places: [Option<Place>; PLACES],
    /// Pages of all places.
    pages: usize,
    clock: u64,
    /// Changes of the address space that are under way.
    under_way: usize,
    /// How many have begun.
    begun: u64,
    /// The session is over.
    closed: bool,
    /// Of a session that has mapped them.
    latches: Option<Arc<Latches>>,
}

impl Inner {
    /// Whether so many pages more may stay pinned.
    fn has_room(&self, pages: usize) -> bool {
        let latched = self.latches.as_ref().map_or(0, |it| it.pages());
        self.pages + latched + pages <= limit()
    }

    /// Takes out one that fits `which`; the caller drops it when the lock is free.
    fn take(&mut self, which: impl Fn(&Place) -> bool) -> Option<Place> {
        let mut places = self.places.iter_mut();
        let place = places.find(|it| it.as_ref().is_some_and(&which))?.take()?;
        self.pages -= place.pages();
        COUNTERS.kept.add(-1, Relaxed);
        Some(place)
    }

    /// Takes out the one that was not used for longest.
    fn take_oldest(&mut self) -> Option<Place> {
        let oldest = self.places.iter().flatten().map(|it| it.used).min()?;
        self.take(|it| it.used == oldest)
    }
}

/// The pins that a session keeps.
#[pin_data]
pub(crate) struct Kept {
    #[pin]
    inner: SpinLock<Inner>,
}

/// Pages that a session keeps at most.
fn limit() -> usize {
    let mebibytes = *crate::module_parameters::kept.value() as usize;
    mebibytes.saturating_mul((1 << 20) / PAGE_SIZE)
}

impl Kept {
    pub(crate) fn new() -> impl PinInit<Self> {
        let inner = Inner {
            places: [const { None }; PLACES],
            pages: 0,
            clock: 0,
            under_way: 0,
            begun: 0,
            closed: false,
            latches: None,
        };
        pin_init!(Self { inner <- new_spinlock!(inner, "limic_kept") })
    }

    /// Pins memory of the calling process, or finds it pinned; with `keep`, it may be found again.
    pub(crate) fn hold(&self, mm: &Mm, pieces: &Pieces, write: bool, keep: bool) -> Result<Held> {
        let piece = match pieces.single() {
            // Lists of several pieces are pinned as they are: a buffer that is used again is hardly
            // ever one.
            Some(piece) if keep && piece.len > 0 => piece,
            _ => return Ok(Held::new(Pins::Own(self.pin(mm, pieces, write)?))),
        };
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        let mut places = inner.places.iter_mut().flatten();
        if let Some(place) = places.find(|it| it.serves(piece.base, piece.len, write)) {
            place.used = clock;
            let skip = piece.base - place.base;
            let pins = Pins::Kept(place.pinned.clone());
            drop(inner);
            count(Event::Reused, 1);
            return Ok(Held::part(pins, skip, piece.len));
        }
        let before = (inner.under_way == 0).then_some(inner.begun);
        drop(inner);
        let pinned = Arc::new(self.pin(mm, pieces, write)?, GFP_KERNEL_ACCOUNT)?;
        if let Some(before) = before {
            let place = Place {
                pinned: pinned.clone(),
                base: piece.base,
                len: piece.len,
                write,
                stale: false,
                used: clock,
            };
            self.keep(place, before);
        }
        Ok(Held::new(Pins::Kept(pinned)))
    }

    /// Pins; if the process may not pin more, what is only kept makes way.
    fn pin(&self, mm: &Mm, pieces: &Pieces, write: bool) -> Result<Pinned> {
        match Pinned::new(mm, pieces, write) {
            Err(error) if error == EAGAIN && self.clear() => Pinned::new(mm, pieces, write),
            result => result,
        }
    }

    /// Keeps a pin, unless the address space has changed since `before` changes had begun in it.
    fn keep(&self, place: Place, before: u64) {
        let pages = place.pages();
        if pages > limit() {
            return;
        }
        loop {
            let mut inner = self.inner.lock();
            if inner.closed || inner.begun != before {
                return;
            }
            if inner.has_room(pages) {
                if let Some(free) = inner.places.iter_mut().find(|it| it.is_none()) {
                    *free = Some(place);
                    inner.pages += pages;
                    COUNTERS.kept.add(1, Relaxed);
                    return;
                }
            }
            let oldest = inner.take_oldest();
            drop(inner);
            if oldest.is_none() {
                return;
            }
            // Unpinned here, outside of the lock, if nothing uses it.
            drop(oldest);
        }
    }

    /// The watch begins, while so many changes are under way. Does not sleep.
    pub(crate) fn watch_begins(&self, under_way: usize) {
        self.inner.lock().under_way = under_way;
    }

    /// Memory between these addresses is about to change. True if something was struck out, for
    /// which [`sweep`](Self::sweep) is to be called. Does not sleep.
    pub(crate) fn change_begins(&self, start: u64, end: u64) -> bool {
        let mut inner = self.inner.lock();
        inner.under_way += 1;
        inner.begun += 1;
        let mut struck = false;
        for place in inner.places.iter_mut().flatten() {
            if place.overlaps(start, end) {
                place.stale = true;
                struck = true;
            }
        }
        if let Some(latches) = &inner.latches {
            struck |= latches.strike(start, end);
        }
        struck
    }

    /// A change is over. Does not sleep.
    pub(crate) fn change_ends(&self) {
        self.inner.lock().under_way -= 1;
    }

    /// Lets go what was struck out.
    pub(crate) fn sweep(&self) {
        self.let_go(|it| it.stale);
    }

    /// The session's latches, made now if it has none.
    pub(crate) fn latches(&self) -> Result<Arc<Latches>> {
        if let Some(latches) = self.inner.lock().latches.clone() {
            return Ok(latches);
        }
        let made = Latches::new()?;
        let mut inner = self.inner.lock();
        let latches = match &inner.latches {
            // Another thread was faster; what was made goes outside of the lock.
            Some(first) => first.clone(),
            None => {
                inner.latches = Some(made.clone());
                made.clone()
            }
        };
        drop(inner);
        Ok(latches)
    }

    /// A latch for one buffer, which the caller pins next: from here on, a change of this memory
    /// strikes it.
    pub(crate) fn latch(&self, index: u32, pieces: &Pieces) -> Result<Latch> {
        let piece = pieces.single().ok_or(EINVAL)?;
        let pages = pages_of(piece.base, piece.len);
        loop {
            let mut inner = self.inner.lock();
            let latches = inner.latches.as_ref().ok_or(EINVAL)?;
            if inner.under_way > 0 {
                // It may be a change of this memory.
                return Err(EBUSY);
            }
            if inner.has_room(pages) {
                return latches.take(index, piece.base, piece.len);
            }
            if pages > limit() {
                return Err(ENOSPC);
            }
            let oldest = inner.take_oldest();
            drop(inner);
            if oldest.is_none() {
                return Err(ENOSPC);
            }
            drop(oldest);
        }
    }

    /// The handle of an exposure whose latch is struck and shut.
    pub(crate) fn struck(&self) -> Option<u64> {
        let latches = self.inner.lock().latches.clone()?;
        latches.struck()
    }

    /// Lets all of it go; true if there was something.
    fn clear(&self) -> bool {
        self.let_go(|_| true)
    }

    /// Lets all of it go, and keeps nothing from now on.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.clear();
    }

    fn let_go(&self, which: impl Fn(&Place) -> bool) -> bool {
        let mut some = false;
        loop {
            let place = self.inner.lock().take(&which);
            if place.is_none() {
                return some;
            }
            some = true;
            // Unpins, outside of the lock.
            drop(place);
            ffi::resched();
        }
    }
}
