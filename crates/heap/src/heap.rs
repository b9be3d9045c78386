//! The heap of this process: arenas, and blocks in them.

use core::cell::Cell;
use core::ptr::null_mut;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use limic_shm::process;
use limic_shm::ring::Memory;
use limic_shm::segment::Arena;

use crate::runs::Runs;
use crate::table::{self, Found, MOST};

/// Blocks begin on a page and have whole pages.
pub(crate) const PAGE: usize = 4096;
/// An arena for many blocks. Its pages cost nothing before they are touched.
const SHARED_BYTES: usize = 128 << 20;
/// Longer blocks have arenas of their own, and their memory goes back to the system with them.
const LONGEST_SHARED: usize = 32 << 20;

struct HeapArena {
    arena: Arena,
    id: u64,
    start: *mut u8,
    /// `None`: one block has all of it.
    runs: Option<Runs>,
}

// SAFETY: the pointer is to the arena's mapping, which belongs to the process and not to a thread.
unsafe impl Send for HeapArena {}

struct Heap {
    arenas: Vec<Option<HeapArena>>,
    last_id: u64,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap {
    arenas: Vec::new(),
    last_id: 0,
});

thread_local! {
    /// This thread is in the heap: what it allocates there is other memory.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    /// The heap, locked by the thread that forks.
    static LOCKED: Cell<Option<MutexGuard<'static, Heap>>> = const { Cell::new(None) };
}

/// Uses the heap. `None` in a thread that is in it already, or ends.
fn with_heap<R>(use_it: impl FnOnce(&mut Heap) -> R) -> Option<R> {
    if BUSY.try_with(|busy| busy.replace(true)).unwrap_or(true) {
        return None;
    }
    watch_forks();
    let result = use_it(&mut HEAP.lock().unwrap_or_else(PoisonError::into_inner));
    BUSY.set(false);
    Some(result)
}

/// A fork has to find the heap as no call has left it halfway, and nobody else in the child would
/// unlock it.
fn watch_forks() {
    extern "C" fn before() {
        let _ = LOCKED.try_with(|locked| {
            // What this thread allocates until the fork is over is other memory.
            if !BUSY.replace(true) {
                locked.set(Some(HEAP.lock().unwrap_or_else(PoisonError::into_inner)));
            }
        });
    }
    extern "C" fn after() {
        let _ = LOCKED.try_with(|locked| {
            if locked.take().is_some() {
                BUSY.set(false);
            }
        });
    }
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // First, so that the heap is locked before the list of mappings, as when an arena is made.
        process::watch_forks();
        // SAFETY: functions that take a lock and leave it; they live as long as this library, with
        // which the C library forgets them.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
}

/// Whole pages for so many bytes; `None` if no address space has as many.
fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(PAGE)
}

/// Allocates a block. Null: there is no room for more arenas, or no memory.
pub(crate) fn allocate(bytes: usize, align: usize, zeroed: bool) -> *mut u8 {
    let Some(bytes) = whole_pages(bytes).filter(|_| align <= PAGE) else {
        return null_mut();
    };
    let block = with_heap(|heap| heap.allocate(bytes)).flatten();
    let Some((start, untouched)) = block else {
        return null_mut();
    };
    if zeroed && !untouched {
        // SAFETY: the block has as many bytes, and nobody else has it.
        unsafe { start.write_bytes(0, bytes) };
    }
    start
}

/// Gives a block back.
///
/// # Safety
/// It was found at the first byte of a block that nobody uses any more.
pub(crate) unsafe fn free(found: Found) {
    // A thread that ends, or is in the heap, has no blocks but from before: they stay in use.
    let emptied = with_heap(|heap| heap.free(found)).flatten();
    drop(emptied);
}

/// Makes a block longer or shorter where it lies. False: that cannot be.
///
/// # Safety
/// It was found at the first byte of a block, and nobody uses what is behind `bytes`.
pub(crate) unsafe fn resize(found: Found, bytes: usize) -> bool {
    let Some(bytes) = whole_pages(bytes) else {
        return false;
    };
    with_heap(|heap| heap.resize(found, bytes)).unwrap_or(false)
}

/// Bytes of the block that begins there.
pub(crate) fn length(found: Found) -> usize {
    with_heap(|heap| heap.length(found)).unwrap_or(0)
}

/// The descriptor of an arena, for a peer, and its size.
pub(crate) fn descriptor(id: u64) -> Option<(OwnedFd, usize)> {
    with_heap(|heap| {
        let arena = heap.arenas.iter().flatten().find(|arena| arena.id == id)?;
        let fd = arena.arena.fd().try_clone_to_owned().ok()?;
        Some((fd, arena.arena.bytes()))
    })
    .flatten()
}

impl Heap {
    /// A block of whole pages, and whether they are zero because nobody has touched them.
    fn allocate(&mut self, bytes: usize) -> Option<(*mut u8, bool)> {
        if bytes > LONGEST_SHARED {
            let arena = self.grow(bytes, false)?;
            return Some((arena.start, true));
        }
        let block = self
            .arenas
            .iter_mut()
            .flatten()
            .find_map(|arena| arena.take(bytes));
        block.or_else(|| self.grow(SHARED_BYTES, true)?.take(bytes))
    }

    fn grow(&mut self, bytes: usize, is_for_many: bool) -> Option<&mut HeapArena> {
        let place = self.arenas.iter().position(Option::is_none);
        let index = place.unwrap_or(self.arenas.len());
        if index >= MOST {
            return None;
        }
        let runs = match is_for_many {
            true => Some(Runs::new((bytes / PAGE) as u32)?),
            false => None,
        };
        let arena = Arena::create_lazy(bytes).ok()?;
        let start = arena.view().pointer(0);
        self.last_id += 1;
        let id = self.last_id;
        table::enter(index, id, start.expose_provenance(), bytes);
        let arena = HeapArena {
            arena,
            id,
            start,
            runs,
        };
        if index == self.arenas.len() {
            self.arenas.push(None);
        }
        Some(self.arenas[index].insert(arena))
    }

    /// Gives the arena if it is of no use any more, to be dropped without the lock.
    fn free(&mut self, found: Found) -> Option<HeapArena> {
        let arena = self.arenas[found.index].as_mut()?;
        if let Some(runs) = &mut arena.runs {
            runs.give_back((found.offset / PAGE) as u32);
            // One without blocks stays, for the next ones.
            if !runs.is_unused() || self.unused() < 2 {
                return None;
            }
        }
        table::leave(found.index);
        self.arenas[found.index].take()
    }

    fn length(&self, found: Found) -> usize {
        let arena = self.arenas[found.index].as_ref();
        arena.map_or(0, |arena| arena.length(found.offset))
    }

    fn unused(&self) -> usize {
        let runs = self
            .arenas
            .iter()
            .flatten()
            .filter_map(|arena| arena.runs.as_ref());
        runs.filter(|runs| runs.is_unused()).count()
    }

    fn resize(&mut self, found: Found, bytes: usize) -> bool {
        let Some(arena) = self.arenas[found.index].as_mut() else {
            return false;
        };
        match &mut arena.runs {
            Some(runs) => runs.resize((found.offset / PAGE) as u32, (bytes / PAGE) as u32),
            // What is left over of a long block stays with it, unless that is much.
            None => bytes <= arena.arena.bytes() && bytes > arena.arena.bytes() / 2,
        }
    }
}

impl HeapArena {
    fn length(&self, offset: usize) -> usize {
        match &self.runs {
            Some(runs) => runs.pages_at((offset / PAGE) as u32) as usize * PAGE,
            None => self.arena.bytes(),
        }
    }

    fn take(&mut self, bytes: usize) -> Option<(*mut u8, bool)> {
        let taken = self.runs.as_mut()?.take((bytes / PAGE) as u32)?;
        let start = self.start.wrapping_add(taken.page as usize * PAGE);
        Some((start, taken.untouched))
    }
}
