//! Which process this is: a fork copies endpoints into the child, and they are not the child's.
//!
//! Two processes would write one ring as its only writer, and take messages from one another. So,
//! when `fork` returns in the child,
//!
//! - mappings that this process can write and its peers can read are replaced by private memory at
//!   the same place: what the child does to rings, loans and flags is seen by nobody. It is zeroes,
//!   but a copy where the program's own data lie. The thread that forks makes it, before there is a
//!   child: so it waits for nobody, needs no descriptor, and writes nothing meanwhile;
//! - values that remember their [`Process`] find that it is not the current one. A number was drawn
//!   for the child: in a namespace of its own it can have its parent's pid.
//!
//! A fork by a raw system call is not seen. The C library's locks do not survive one either.

#[cfg(all(test, not(miri), not(loom)))]
pub(crate) mod child;
mod file;
mod here;
mod list;
mod threads;

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread, retry_on_intr, write};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};

use self::file::File;
pub(crate) use self::file::OwnFile;
pub use self::here::{LockHere, OnceHere, ValueHere};
use self::list::List;
pub use self::threads::start_thread;

/// Whether this process was forked from one that watched for that.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The number of this process, from the first question on: one that no other process has.
static CURRENT: AtomicU64 = AtomicU64::new(0);

fn draw() -> u64 {
    // Without random numbers a child still differs from its parents.
    let before = CURRENT.load(Relaxed);
    getrandom::u64().unwrap_or(before.wrapping_add(1))
}

/// Whether this process was forked, so that it may have what is another one's.
#[inline(always)]
#[must_use]
pub fn was_forked() -> bool {
    FORKED.load(Relaxed)
}

/// A process that something belongs to. Not its pid: namespaces of processes each have a 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        watch_forks();
        Self(CURRENT.load(Relaxed))
    }

    /// Whether this is the process, and not a child that was forked from it.
    #[inline(always)]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0 == CURRENT.load(Relaxed)
    }

    /// Its number, to be kept in an atomic, or told to others.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The process with such a number.
    #[inline(always)]
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A mapping that this process writes and others read.
struct Shared {
    start: usize,
    len: usize,
    /// The file of what a child gets a copy of, rather than zeroes.
    copied: Option<File>,
    /// The address of that copy during a fork. None also if there is no memory for it.
    copy: Option<usize>,
}

static SHARED: Mutex<List> = Mutex::new(List::new());

fn shared() -> MutexGuard<'static, List> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a mapping that a child must not write. `copied`: the file behind it, if the child is to
/// have a copy.
///
/// # Errors
/// There is no memory for it: a child would write the mapping.
pub(crate) fn enter_mapping(
    start: NonNull<c_void>,
    len: usize,
    copied: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    watch_forks();
    let entry = Shared {
        start: start.as_ptr().expose_provenance(),
        len,
        copied: copied.map(File::of),
        copy: None,
    };
    shared().push(entry)
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
fn replace(shared: &mut [Shared]) {
    for one in shared {
        // SAFETY: the range is a mapping of its `Mapping` alone, which lives as long as its entry;
        // whoever has a view of it takes what is there for another process's to change, and zeroes
        // are one such change. A copy changes nothing.
        let replaced = unsafe {
            match (&one.copied, one.copy.take()) {
                (None, _) => map_private(one.start, one.len, MapFlags::FIXED).map(|_| ()),
                (Some(_), Some(copy)) => move_mapping(copy, one.len, one.start),
                (Some(_), None) => Err(Errno::NOMEM),
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

/// # Safety
/// Both are mappings of that length that nobody uses by what is there, and `to` may be replaced.
unsafe fn move_mapping(from: usize, len: usize, to: usize) -> Result<(), Errno> {
    let [from, to] = [from, to].map(core::ptr::with_exposed_provenance_mut::<c_void>);
    // SAFETY: the caller's promise.
    unsafe { mremap_fixed(from, len, len, MremapFlags::MAYMOVE, to) }.map(|_| ())
}

/// A private copy of a mapping. Pages that nobody has touched are not copied.
fn copy_private(mapping: &Shared, file: File) -> Result<usize, Errno> {
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let new = unsafe { map_private(0, mapping.len, MapFlags::empty()) }?;
    // SAFETY: the new mapping has `len` bytes, and is nobody else's.
    let bytes = unsafe { core::slice::from_raw_parts_mut(new.cast::<u8>(), mapping.len) };
    let copied = match file.get() {
        Some(fd) => read_data(fd, bytes),
        None => {
            let old = core::ptr::with_exposed_provenance::<u8>(mapping.start);
            // SAFETY: both have `len` bytes. The program has taken the descriptor away.
            unsafe { core::ptr::copy_nonoverlapping(old, bytes.as_mut_ptr(), mapping.len) };
            Ok(())
        }
    };
    let copy = new.expose_provenance();
    copied.inspect_err(|_| unmap(copy, mapping.len))?;
    Ok(copy)
}

fn unmap(start: usize, len: usize) {
    let start = core::ptr::with_exposed_provenance_mut(start);
    // SAFETY: a mapping that this module made, and nobody uses. It fails only where the kernel has
    // no memory to take one out: then it stays.
    let _ = unsafe { munmap(start, len) };
}

/// Reads what a file has, whatever access its mapping allows. Where it has no pages, nothing is
/// read.
fn read_data(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(), Errno> {
    let mut at = 0;
    loop {
        let start = match seek(fd, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is nothing behind it.
            Err(Errno::NXIO) => return Ok(()),
            Err(why) => return Err(why),
        };
        at = seek(fd, SeekFrom::Hole(start))?;
        let end = bytes.len().min(at as usize);
        let mut room = bytes.get_mut(start as usize..end).unwrap_or_default();
        let mut from = start;
        while !room.is_empty() {
            let read = retry_on_intr(|| pread(fd, &mut *room, from))?;
            if read == 0 {
                return Err(Errno::IO);
            }
            room = room.get_mut(read..).unwrap_or_default();
            from += read as u64;
        }
    }
}

thread_local! {
    // Without destructors, so that they are there in a thread that ends too.
    /// The list of mappings, locked by the thread that forks: no other one holds the lock in the
    /// child.
    static LOCKED: Cell<Option<ManuallyDrop<MutexGuard<'static, List>>>> =
        const { Cell::new(None) };
}

extern "C" fn before_fork() {
    if let Some(list) = LOCKED.take() {
        // A child may have entered these functions again: see `OnceHere`.
        return LOCKED.set(Some(list));
    }
    let mut list = shared();
    let here = core::ptr::from_ref(&list).addr();
    let copied = |one: &&Shared| one.copied.is_some();
    if list
        .iter()
        .filter(copied)
        .any(|one| here.wrapping_sub(one.start) < one.len)
    {
        // Parent and child would run on one stack.
        let text = b"limic: a fork on a stack in peer-readable memory: ended\n";
        let _ = write(std::io::stderr(), text);
        std::process::abort();
    }
    for one in list.iter_mut() {
        one.copy = one.copied.and_then(|file| copy_private(one, file).ok());
    }
    LOCKED.set(Some(ManuallyDrop::new(list)));
}

extern "C" fn after_fork_in_parent() {
    if let Some(mut list) = LOCKED.take().map(ManuallyDrop::into_inner) {
        for one in list.iter_mut() {
            if let Some(copy) = one.copy.take() {
                unmap(copy, one.len);
            }
        }
    }
}

extern "C" fn after_fork_in_child() {
    CURRENT.store(draw(), Relaxed);
    FORKED.store(true, Relaxed);
    if let Some(mut list) = LOCKED.take().map(ManuallyDrop::into_inner) {
        replace(&mut list);
        // The child keeps no memory that its parent gives back. Nobody asks for the descriptor of
        // what is a copy, and its owner closes no number that is another file's.
        list.iter()
            .filter_map(|one| one.copied)
            .for_each(|file| file.close());
        // They are the child's own from now on, for its children too.
        list.clear();
    }
}

/// From now on a child that is forked finds out that it is one.
pub fn watch_forks() {
    static WATCHED: OnceHere = OnceHere::new();
    WATCHED.call_by_pid(|| {
        CURRENT.store(draw(), Relaxed);
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
