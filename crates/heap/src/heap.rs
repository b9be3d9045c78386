//! The heap of this process: arenas, and blocks in them.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use limic_shm::process::{self, OnceHere, Process};
use limic_shm::ring::Memory;
use limic_shm::segment::Arena;
use rustix::process::{Resource, getrlimit};

use crate::runs::Runs;
use crate::table::{self, Entered, Found, MOST};

/// Blocks begin on a page and have whole pages.
pub(crate) const PAGE: usize = 4096;
/// An arena for many blocks. Its pages cost nothing before they are touched.
const SHARED_BYTES: usize = 128 << 20;
/// Longer blocks have arenas of their own, and their memory goes back to the system with them.
const LONGEST_SHARED: usize = 32 << 20;
/// After the system has refused an arena, so many blocks pass before it is asked again: it takes
/// long to ask.
const PAUSE: u64 = 256;

struct HeapArena {
    arena: Arena,
    id: u64,
    start: *mut u8,
    /// The process that made it: a child has a copy, which peers cannot read.
    process: Process,
    purpose: Use,
}

/// What an arena is used for.
enum Use {
    /// Many blocks.
    Shared(Runs),
    /// One block of so many bytes. There is room behind it to grow.
    Own(usize),
}

// SAFETY: the pointer is to the arena's mapping, which belongs to the process and not to a thread.
unsafe impl Send for HeapArena {}

struct Heap {
    arenas: Vec<Option<HeapArena>>,
    last_id: u64,
    /// So many blocks pass before another arena is asked for.
    pause: u64,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap {
    arenas: Vec::new(),
    last_id: 0,
    pause: 0,
});

thread_local! {
    /// This thread is in the heap, or forks: what it allocates then is other memory, since it can
    /// make no mapping, and end none.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    /// The heap, locked by the thread that forks. Without a destructor, so that it is there in a
    /// thread that ends too.
    static LOCKED: Cell<Option<ManuallyDrop<MutexGuard<'static, Heap>>>> =
        const { Cell::new(None) };
}

/// Uses the heap. `None` in a thread that is in it already.
fn with_heap<R>(use_it: impl FnOnce(&mut Heap) -> R) -> Option<R> {
    if BUSY.replace(true) {
        // What other libraries ask during a fork, while this thread has the lock.
        let mut locked = LOCKED.take()?;
        let result = use_it(&mut locked);
        LOCKED.set(Some(locked));
        return Some(result);
    }
    watch_forks();
    let result = use_it(&mut HEAP.lock().unwrap_or_else(PoisonError::into_inner));
    BUSY.set(false);
    Some(result)
}

/// [`watch_forks`] at once. A thread that is in the heap, or at this already, has nothing to do.
pub(crate) fn prepare() {
    if !BUSY.replace(true) {
        watch_forks();
        BUSY.set(false);
    }
}

/// A fork has to find the heap as no call has left it halfway, and nobody else in the child would
/// unlock it.
///
/// The C library calls these before those of [`process::watch_forks`], and after them when the fork
/// is done. So the heap is locked first, as when an arena is made, and unlocked when the child has
/// its copies. In between, this thread allocates other memory, and what it gives back stays in use.
///
/// Called by a thread that is [`BUSY`]: to ask the C library for it may allocate, and may come to
/// [`prepare`].
fn watch_forks() {
    extern "C" fn before() {
        if !BUSY.replace(true) {
            let heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
            LOCKED.set(Some(ManuallyDrop::new(heap)));
        }
    }
    extern "C" fn after() {
        if let Some(heap) = LOCKED.take() {
            drop(ManuallyDrop::into_inner(heap));
            BUSY.set(false);
        }
    }
    static WATCHED: OnceHere = OnceHere::new();
    WATCHED.call(|| {
        process::watch_forks();
        // SAFETY: functions that take a lock and leave it; they live as long as this library, with
        // which the C library forgets them.
        let failed = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
        if failed != 0 {
            // Then there is nothing for a fork to find.
            HEAP.lock().unwrap_or_else(PoisonError::into_inner).pause = u64::MAX;
        }
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
    if BUSY.get() {
        return null_mut();
    }
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
    // What other libraries give back during a fork stays in use.
    if !BUSY.get() {
        let emptied = with_heap(|heap| heap.free(found)).flatten();
        drop(emptied);
    }
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

/// Bytes of the block that begins there. `None` in a thread that is in the heap already.
pub(crate) fn length(found: Found) -> Option<usize> {
    with_heap(|heap| heap.length(found))
}

/// A descriptor of an arena, for a peer, and its size.
pub(crate) fn descriptor(id: u64) -> Option<(OwnedFd, usize)> {
    with_heap(|heap| {
        let arena = heap.arenas.iter().flatten().find(|arena| arena.id == id)?;
        Some((arena.arena.descriptor()?, arena.arena.bytes()))
    })
    .flatten()
}

impl Heap {
    /// A block of whole pages, and whether they are zero because nobody has touched them.
    fn allocate(&mut self, bytes: usize) -> Option<(*mut u8, bool)> {
        if bytes > LONGEST_SHARED {
            // Room to grow costs nothing before it is touched.
            let room = whole_pages(bytes.checked_add(bytes / 2)?)?;
            let arena = self.grow(room, Use::Own(bytes))?;
            return Some((arena.start, true));
        }
        let mut arenas = self.arenas.iter_mut().flatten();
        let block = arenas.find_map(|arena| arena.take(bytes));
        block.or_else(|| {
            let runs = Runs::new((SHARED_BYTES / PAGE) as u32)?;
            self.grow(SHARED_BYTES, Use::Shared(runs))?.take(bytes)
        })
    }

    fn grow(&mut self, bytes: usize, purpose: Use) -> Option<&mut HeapArena> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let index = self.arenas.iter().position(Option::is_none);
        let index = index.unwrap_or(self.arenas.len());
        let arena = if index < most_arenas() {
            Arena::create_lazy(bytes).ok()
        } else {
            None
        };
        let Some(arena) = arena else {
            self.pause = PAUSE;
            return None;
        };
        let start = arena.view().pointer(0);
        self.last_id += 1;
        let arena = HeapArena {
            id: self.last_id,
            start,
            process: Process::current(),
            purpose,
            arena,
        };
        table::enter(index, &arena.entry());
        if index == self.arenas.len() {
            self.arenas.push(None);
        }
        Some(self.arenas[index].insert(arena))
    }

    /// Gives the arena if it is of no use any more, to be dropped without the lock.
    fn free(&mut self, found: Found) -> Option<HeapArena> {
        let arena = self.arenas[found.index].as_mut()?;
        if let Use::Shared(runs) = &mut arena.purpose {
            runs.give_back((found.offset / PAGE) as u32);
            // One without blocks stays, for the next ones.
            let stays = arena.process.is_current() && self.unused() < 2;
            if stays || !self.arenas[found.index].as_ref()?.is_unused() {
                return None;
            }
        }
        table::leave(found.index);
        self.arenas[found.index].take()
    }

    /// Arenas without blocks that serve the next ones.
    fn unused(&self) -> usize {
        let arenas = self.arenas.iter().flatten();
        let unused = arenas.filter(|arena| arena.is_unused() && arena.process.is_current());
        unused.count()
    }

    fn resize(&mut self, found: Found, bytes: usize) -> bool {
        let Some(arena) = self.arenas[found.index].as_mut() else {
            return false;
        };
        match &mut arena.purpose {
            Use::Shared(runs) => u32::try_from(bytes / PAGE)
                .is_ok_and(|pages| runs.resize((found.offset / PAGE) as u32, pages)),
            // What is left over of a long block stays with it, unless that is much.
            Use::Own(has) => {
                let room = arena.arena.bytes();
                let fits = bytes <= room && bytes > room / 2;
                if fits {
                    *has = bytes;
                }
                fits
            }
        }
    }

    fn length(&self, found: Found) -> usize {
        let arena = self.arenas[found.index].as_ref();
        arena.map_or(0, |arena| match &arena.purpose {
            Use::Shared(runs) => runs.pages_at((found.offset / PAGE) as u32) as usize * PAGE,
            Use::Own(bytes) => *bytes,
        })
    }
}

impl HeapArena {
    fn entry(&self) -> Entered {
        Entered {
            id: self.id,
            start: self.start.expose_provenance(),
            len: self.arena.bytes(),
            process: self.process,
        }
    }

    fn is_unused(&self) -> bool {
        matches!(&self.purpose, Use::Shared(runs) if runs.is_unused())
    }

    /// A new block, if this arena has room for it and peers may read it.
    fn take(&mut self, bytes: usize) -> Option<(*mut u8, bool)> {
        let Use::Shared(runs) = &mut self.purpose else {
            return None;
        };
        if !self.process.is_current() {
            return None;
        }
        let taken = runs.take((bytes / PAGE) as u32)?;
        let start = self.start.wrapping_add(taken.page as usize * PAGE);
        Some((start, taken.untouched))
    }
}

/// Arenas that there may be: each has a descriptor, and the program needs most of them itself.
fn most_arenas() -> usize {
    // `None`: there is no limit.
    let files = getrlimit(Resource::Nofile).current;
    files.map_or(MOST, |files| MOST.min((files / 8) as usize))
}
