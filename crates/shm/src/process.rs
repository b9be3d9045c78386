//! Which process this is: a fork copies endpoints into the child, and they are not the child's.
//!
//! Two processes would write one ring as its only writer, and take messages from one another. So,
//! when `fork` returns in the child,
//!
//! - mappings that this process can write and its peers can read are replaced by private zeroes at
//!   the same place: what the child does to its copies of rings, loans and flags is seen by nobody;
//! - values that remember their [`Process`] find that it is not the current one.
//!
//! A fork by a raw system call is not seen. The C library's locks do not survive one either.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

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
}

static SHARED: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a mapping that a child must not write.
pub(crate) fn enter_mapping(start: NonNull<c_void>, len: usize) {
    watch_forks();
    let start = start.as_ptr().addr();
    shared().push(Shared { start, len });
}

/// Takes a mapping out, before it is unmapped.
pub(crate) fn leave_mapping(start: NonNull<c_void>) {
    let start = start.as_ptr().addr();
    let mut shared = shared();
    if let Some(at) = shared.iter().position(|one| one.start == start) {
        shared.swap_remove(at);
    }
}

/// Leaves shared memory to the parent: private zeroes lie in its place from now on.
fn replace(shared: &[Shared]) {
    for one in shared {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let start = core::ptr::without_provenance_mut(one.start);
        // SAFETY: the range is a mapping of its `Mapping` alone, which lives as long as its entry;
        // whoever has a view of it takes what is there for another process's to change, and zeroes
        // are one such change.
        let replaced = unsafe { mmap_anonymous(start, one.len, access, flags) };
        if replaced.is_err() {
            // To go on means to write into the parent's memory.
            std::process::abort();
        }
    }
}

thread_local! {
    /// The list of mappings, locked by the thread that forks: no other one holds the lock in the
    /// child.
    static LOCKED: Cell<Option<MutexGuard<'static, Vec<Shared>>>> = const { Cell::new(None) };
}

extern "C" fn before_fork() {
    // Fails in a thread that ends: then memory stays shared, and only the endpoints' calls see it.
    let _ = LOCKED.try_with(|locked| locked.set(Some(shared())));
}

extern "C" fn after_fork_in_parent() {
    let _ = LOCKED.try_with(Cell::take);
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
}

fn watch_forks() {
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
