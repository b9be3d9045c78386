//! Which process this is: a fork copies endpoints into the child, and they are not the child's.
//!
//! Two processes would write one ring as its only writer, and take messages from one another. So,
//! when `fork` returns in the child,
//!
//! - mappings that this process can write and its peers can read are replaced by private memory at
//!   the same place: what the child does to rings, loans and flags is seen by nobody. It is zeroes,
//!   but a copy where the program's own data lie, for which the parent's fork waits;
//! - values that remember their [`Process`] find that it is not the current one.
//!
//! A fork by a raw system call is not seen. The C library's locks do not survive one either.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, read, retry_on_intr};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed};
use rustix::pipe::{PipeFlags, pipe_with};

/// Whether this process was forked from one that watched for that.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The process id, as a child learns it when it is forked.
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Whether this process was forked, so that it may have what is another one's.
#[inline(always)]
#[must_use]
pub fn was_forked() -> bool {
    FORKED.load(Relaxed)
}

/// A process that something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        watch_forks();
        Self(std::process::id())
    }

    /// Whether this is the process, and not a child that was forked from it.
    #[inline(always)]
    #[must_use]
    pub fn is_current(self) -> bool {
        !was_forked() || self.0 == CHILD.load(Relaxed)
    }

    /// Its number, to be kept in an atomic.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The process with such a number.
    #[inline(always)]
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// A mapping that this process writes and others read.
struct Shared {
    start: usize,
    len: usize,
    /// The descriptor of what a child gets a copy of, rather than zeroes.
    copied: Option<RawFd>,
}

static SHARED: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a mapping that a child must not write. `copied`: the descriptor behind it, if the child
/// is to have a copy.
pub(crate) fn enter_mapping(start: NonNull<c_void>, len: usize, copied: Option<RawFd>) {
    watch_forks();
    let start = start.as_ptr().addr();
    shared().push(Shared { start, len, copied });
}

/// Takes a mapping out, before it is unmapped.
pub(crate) fn leave_mapping(start: NonNull<c_void>) {
    let start = start.as_ptr().addr();
    let mut shared = shared();
    if let Some(at) = shared.iter().position(|one| one.start == start) {
        shared.swap_remove(at);
    }
}

/// Leaves shared memory to the parent: private memory lies in its place from now on.
fn replace(shared: &[Shared]) {
    for one in shared {
        // SAFETY: the range is a mapping of its `Mapping` alone, which lives as long as its entry;
        // whoever has a view of it takes what is there for another process's to change, and zeroes
        // are one such change. A copy changes nothing.
        let replaced = unsafe {
            match one.copied {
                None => map_private(one.start, one.len, MapFlags::FIXED).map(|_| ()),
                Some(fd) => copy_private(one, fd),
            }
        };
        if replaced.is_err() {
            // To go on means to write into the parent's memory.
            std::process::abort();
        }
    }
}

/// # Safety
/// As `mmap`, if `at` is [`MapFlags::FIXED`].
unsafe fn map_private(start: usize, len: usize, at: MapFlags) -> Result<*mut c_void, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | at;
    let start = core::ptr::without_provenance_mut(start);
    // SAFETY: the caller's promise.
    unsafe { mmap_anonymous(start, len, access, flags) }
}

/// Puts a private copy in the place of a mapping. Pages that nobody has touched are not copied.
///
/// # Safety
/// The mapping may be replaced, and `fd` is the file behind it.
unsafe fn copy_private(mapping: &Shared, fd: RawFd) -> Result<(), Errno> {
    // SAFETY: it is open as long as the mapping has its entry.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let old = core::ptr::without_provenance_mut::<c_void>(mapping.start);
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let new = unsafe { map_private(0, mapping.len, MapFlags::empty()) }?;
    let mut at = 0;
    while let Ok(start) = seek(fd, SeekFrom::Data(at)) {
        let end = seek(fd, SeekFrom::Hole(start))?.min(mapping.len as u64);
        let from = old.wrapping_byte_add(start as usize).cast::<u8>();
        let to = new.wrapping_byte_add(start as usize).cast::<u8>();
        // SAFETY: both mappings have `len` bytes, and the new one is nobody else's.
        unsafe { core::ptr::copy_nonoverlapping(from, to, (end - start) as usize) };
        at = end;
    }
    let flags = MremapFlags::MAYMOVE;
    // SAFETY: the caller's promise; the new mapping moves, and nothing points to where it was.
    unsafe { mremap_fixed(new, mapping.len, mapping.len, flags, old) }.map(|_| ())
}

thread_local! {
    /// The list of mappings, locked by the thread that forks: no other one holds the lock in the
    /// child.
    static LOCKED: Cell<Option<MutexGuard<'static, Vec<Shared>>>> = const { Cell::new(None) };
    /// A pipe of which the child's end closes when the child has its copies: the parent must not
    /// change what is copied.
    static COPIED: Cell<Option<(OwnedFd, OwnedFd)>> = const { Cell::new(None) };
}

extern "C" fn before_fork() {
    // Fails in a thread that ends: then memory stays shared, and only the endpoints' calls see it.
    let _ = LOCKED.try_with(|locked| {
        let shared = shared();
        if shared.iter().any(|one| one.copied.is_some()) {
            // Without a free descriptor the parent goes on, and what it writes meanwhile may show.
            COPIED.set(pipe_with(PipeFlags::CLOEXEC).ok());
        }
        locked.set(Some(shared));
    });
}

extern "C" fn after_fork_in_parent() {
    let _ = LOCKED.try_with(Cell::take);
    if let Ok(Some((until_copied, childs_end))) = COPIED.try_with(Cell::take) {
        drop(childs_end);
        while retry_on_intr(|| read(&until_copied, &mut [0])).is_ok_and(|bytes| bytes > 0) {}
    }
}

extern "C" fn after_fork_in_child() {
    CHILD.store(std::process::id(), Relaxed);
    FORKED.store(true, Relaxed);
    let _ = LOCKED.try_with(|locked| {
        if let Some(mut shared) = locked.take() {
            replace(&shared);
            // They are the child's own from now on, for its children too.
            shared.clear();
        }
    });
    let _ = COPIED.try_with(Cell::take);
}

/// From now on a child that is forked finds out that it is one.
pub fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: three functions that take a lock and map memory; they live as long as this
        // library, with which the C library forgets them. It can only fail for want of memory.
        let failed = unsafe {
            libc::pthread_atfork(
                Some(before_fork),
                Some(after_fork_in_parent),
                Some(after_fork_in_child),
            )
        };
        if failed != 0 {
            tracing::error!("forked children are not found out: {failed}");
        }
    });
}
