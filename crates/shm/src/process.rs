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
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::{Errno, pread, read, retry_on_intr, write};
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
    /// The file of what a child gets a copy of, rather than zeroes.
    copied: Option<File>,
}

/// An open file, and what tells whether its descriptor is still its own: a program may close any
/// number, or put another file there.
#[derive(Clone, Copy)]
struct File {
    fd: RawFd,
    device: u64,
    inode: u64,
}

impl File {
    fn of(fd: BorrowedFd<'_>) -> Self {
        // Without an answer it is taken for closed, and the copy is made through the mapping.
        let (device, inode) = fstat(fd).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
        Self {
            fd: fd.as_raw_fd(),
            device,
            inode,
        }
    }

    /// Puts another file in the place of this one.
    fn replace_by(self, other: &OwnedFd) {
        if self.get().is_some() {
            // SAFETY: the number is this file's, and its owner only closes it from now on: nobody
            // asks a child for the descriptor of what it has a copy of.
            let _ = unsafe { libc::dup3(other.as_raw_fd(), self.fd, libc::O_CLOEXEC) };
        }
    }

    /// The descriptor, if it is still this file's.
    fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: used for nothing but to ask what it is, before that is known.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let stat = fstat(fd).ok()?;
        ((stat.st_dev, stat.st_ino) == (self.device, self.inode)).then_some(fd)
    }
}

static SHARED: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a mapping that a child must not write. `copied`: the file behind it, if the child is to
/// have a copy.
pub(crate) fn enter_mapping(start: NonNull<c_void>, len: usize, copied: Option<BorrowedFd<'_>>) {
    watch_forks();
    let entry = Shared {
        start: start.as_ptr().expose_provenance(),
        len,
        copied: copied.map(File::of),
    };
    loop {
        let mut list = shared();
        if list.len() < list.capacity() {
            return list.push(entry);
        }
        let wanted = 2 * list.capacity() + 16;
        drop(list);
        // Without the lock: the allocator may be one that makes a mapping for this.
        let mut longer = Vec::with_capacity(wanted);
        let mut list = shared();
        if list.capacity() < wanted {
            longer.append(&mut list);
            core::mem::swap(&mut *list, &mut longer);
        }
        drop(list);
    }
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
            match &one.copied {
                None => map_private(one.start, one.len, MapFlags::FIXED).map(|_| ()),
                Some(file) => copy_private(one, file),
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
/// The mapping may be replaced, and `file` is what lies behind it.
unsafe fn copy_private(mapping: &Shared, file: &File) -> Result<(), Errno> {
    let old = core::ptr::with_exposed_provenance_mut::<c_void>(mapping.start);
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let new = unsafe { map_private(0, mapping.len, MapFlags::empty()) }?;
    // SAFETY: the new mapping has `len` bytes, and is nobody else's.
    let bytes = unsafe { core::slice::from_raw_parts_mut(new.cast::<u8>(), mapping.len) };
    match file.get() {
        Some(fd) => read_data(fd, bytes)?,
        // SAFETY: both have `len` bytes. The program has taken the descriptor away.
        None => unsafe {
            core::ptr::copy_nonoverlapping(old.cast::<u8>(), bytes.as_mut_ptr(), mapping.len);
        },
    }
    let flags = MremapFlags::MAYMOVE;
    // SAFETY: the caller's promise; the new mapping moves, and nothing points to where it was.
    unsafe { mremap_fixed(new, mapping.len, mapping.len, flags, old) }.map(|_| ())
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
    static LOCKED: Cell<Option<ManuallyDrop<MutexGuard<'static, Vec<Shared>>>>> =
        const { Cell::new(None) };
    /// A pipe, to be read and to be written. The child closes its end when it has its copies: until
    /// then the thread that forks must not change what is copied.
    static COPIED: Cell<Option<ManuallyDrop<(OwnedFd, OwnedFd)>>> = const { Cell::new(None) };
}

extern "C" fn before_fork() {
    let list = shared();
    let here = core::ptr::from_ref(&list).addr();
    let copied = || list.iter().filter(|one| one.copied.is_some());
    if copied().any(|one| here.wrapping_sub(one.start) < one.len) {
        // Parent and child would run on one stack.
        let text = b"limic: a fork on a stack in peer-readable memory: ended\n";
        let _ = write(std::io::stderr(), text);
        std::process::abort();
    }
    if copied().next().is_some() {
        // Without a free descriptor the parent goes on, and what it writes meanwhile may show.
        COPIED.set(pipe_with(PipeFlags::CLOEXEC).ok().map(ManuallyDrop::new));
    }
    LOCKED.set(Some(ManuallyDrop::new(list)));
}

extern "C" fn after_fork_in_parent() {
    if let Some(pipe) = COPIED.take() {
        let (until_copied, childs_end) = ManuallyDrop::into_inner(pipe);
        drop(childs_end);
        while retry_on_intr(|| read(&until_copied, &mut [0])).is_ok_and(|bytes| bytes > 0) {}
    }
    drop(LOCKED.take().map(ManuallyDrop::into_inner));
}

extern "C" fn after_fork_in_child() {
    CHILD.store(std::process::id(), Relaxed);
    FORKED.store(true, Relaxed);
    let pipe = COPIED.take().map(ManuallyDrop::into_inner);
    if let Some(mut list) = LOCKED.take().map(ManuallyDrop::into_inner) {
        replace(&list);
        if let Some((other, _)) = &pipe {
            // The child keeps no memory that its parent gives back.
            list.iter()
                .filter_map(|one| one.copied)
                .for_each(|file| file.replace_by(other));
        }
        // They are the child's own from now on, for its children too.
        list.clear();
    }
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
