//! The heap of this process: arenas, and blocks in them.

use core::cell::Cell;
use core::ptr::null_mut;
use std::os::fd::OwnedFd;

use limic_shm::process::{self, OnceHere, Process};
use limic_shm::ring::Memory;
use limic_shm::segment::Arena;
use rustix::process::{Resource, getrlimit};

use crate::later;
use crate::lock::ForkLock;
use crate::runs::Runs;
use crate::table::{self, Entered, Found, MOST};
use crate::uncancelled::Uncancelled;

/// Blocks begin on a page and have whole pages.
pub(crate) const PAGE: usize = 4096;
/// An arena for many blocks. Its pages cost nothing before they are touched.
const SHARED_BYTES: usize = 128 << 20;
/// Longer blocks have arenas of their own, and their memory goes back to the system with them.
const LONGEST_SHARED: usize = 32 << 20;
/// After the system has refused an arena that is no longer than usual, so many blocks pass before
/// it is asked again: it takes long to ask.
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
// SAFETY: as above; whoever writes there has a block.
unsafe impl Sync for HeapArena {}

struct Heap {
    arenas: Vec<Option<HeapArena>>,
    last_id: u64,
    /// So many blocks pass before another arena is asked for.
    pause: u64,
    /// Arenas that were taken out and are still being dropped. A fork waits for that: it finds
    /// their mappings entered, and waits for no thread after it has begun.
    ending: usize,
}

static HEAP: ForkLock<Heap> = ForkLock::new(Heap {
    arenas: Vec::new(),
    last_id: 0,
    pause: 0,
    ending: 0,
});

thread_local! {
    // Without destructors, so that they are there in a thread that ends too.
    /// This thread is in the heap: what it allocates then is other memory, since it can make no
    /// mapping, and end none.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    /// This thread forks, and the heap waits for that.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// This thread is in the heap.
struct Inside;

impl Inside {
    /// `None`: it is so already.
    fn enter() -> Option<Self> {
        (!BUSY.replace(true)).then(|| Self)
    }

    /// Uses the heap. `None`: a thread forks, this one or another.
    fn with_heap<R>(&self, use_it: impl FnOnce(&mut Heap) -> R) -> Option<R> {
        watch_forks();
        let mut heap = HEAP.lock()?;
        heap.free_later_ones();
        Some(use_it(&mut heap))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// Uses the heap. `None` in a thread that is in it already, and while one forks.
fn with_heap<R>(use_it: impl FnOnce(&mut Heap) -> R) -> Option<R> {
    Inside::enter()?.with_heap(use_it)
}

/// Reads the heap, also while a thread forks. `None` in a thread that is in it already.
fn read_heap<R>(read: impl FnOnce(&Heap) -> R) -> Option<R> {
    let _inside = Inside::enter()?;
    Some(HEAP.read(read))
}

/// [`watch_forks`] at once. A thread that is in the heap, or at this already, has nothing to do.
pub(crate) fn prepare() {
    if let Some(_inside) = Inside::enter() {
        watch_forks();
    }
}

/// A fork has to find the heap as no call has left it halfway, and nobody else in the child would
/// unlock it.
///
/// The C library calls these before those of [`process::watch_forks`], and after them when the fork
/// is done. So nobody changes the heap any more when its arenas are copied, until the child has its
/// copies. Meanwhile all threads allocate other memory, and what they give back is free later. No
/// thread waits for the one that forks: it may have a lock for which the fork waits.
///
/// Called by a thread that is [`BUSY`]: to ask the C library for it may allocate, and may come to
/// [`prepare`].
fn watch_forks() {
    extern "C" fn before() {
        // A signal's handler forks in the middle of the heap: it is this thread's in the child too.
        let Some(_inside) = Inside::enter().filter(|_| !FORKS.get()) else {
            return;
        };
        loop {
            match HEAP.lock() {
                Some(mut heap) => {
                    heap.free_later_ones();
                    if heap.ending == 0 {
                        heap.fork();
                        return FORKS.set(true);
                    }
                    drop(heap);
                    std::thread::yield_now();
                }
                None => HEAP.wait_for_fork(),
            }
        }
    }
    extern "C" fn in_parent() {
        if FORKS.replace(false) {
            HEAP.end_fork();
            // What was given back meanwhile.
            with_heap(|_| ());
        }
    }
    extern "C" fn in_child() {
        if FORKS.replace(false) {
            later::forget();
            HEAP.end_fork_in_child();
        }
    }
    static WATCHED: OnceHere = OnceHere::new();
    WATCHED.call(|| {
        let _uncancelled = Uncancelled::new();
        process::watch_forks();
        // SAFETY: functions that set a flag and take it back; they live as long as this library,
        // with which the C library forgets them.
        let failed = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        if failed != 0 {
            // Then there is nothing for a fork to find. This library hears of no fork, so that none
            // keeps the lock from it.
            if let Some(mut heap) = HEAP.lock() {
                heap.pause = u64::MAX;
            }
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
pub(crate) unsafe fn free(block: *mut u8, found: Found) {
    if let Some(inside) = Inside::enter() {
        match inside.with_heap(|heap| heap.free(found)) {
            Some(None) => return,
            Some(Some(emptied)) => {
                end(emptied);
                // A fork would have waited for it.
                inside.with_heap(|heap| heap.ending -= 1);
                return;
            }
            None => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe { later::push(block) };
    // If the fork is over by now. A thread that is in the heap leaves it to the next call.
    with_heap(|_| ());
}

/// Gives the memory of an arena back to the system.
fn end(emptied: HeapArena) {
    let _uncancelled = Uncancelled::new();
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

/// Bytes of the block that begins there. `None` in a thread that is in the heap already.
pub(crate) fn length(found: Found) -> Option<usize> {
    read_heap(|heap| heap.length(found))
}

/// A descriptor of an arena, for a peer, and its size.
pub(crate) fn descriptor(id: u64) -> Option<(OwnedFd, usize)> {
    read_heap(|heap| {
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
        let _uncancelled = Uncancelled::new();
        let arena = if index < most_arenas() {
            Arena::create_lazy(bytes).ok()
        } else {
            None
        };
        let Some(arena) = arena else {
            // What is too much for the machine says nothing of usual blocks.
            if bytes <= SHARED_BYTES {
                self.pause = PAUSE;
            }
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

    /// Frees what was given back when that could not be. There is seldom any, so other threads may
    /// wait for the lock meanwhile.
    fn free_later_ones(&mut self) {
        for block in later::take_all() {
            if let Some(emptied) = table::find(block.addr()).and_then(|found| self.free(found)) {
                end(emptied);
                self.ending -= 1;
            }
        }
    }

    /// Gives the arena if it is of no use any more, to be dropped without the lock. It is
    /// [`ending`](Self::ending) until then.
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
        self.ending += 1;
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
