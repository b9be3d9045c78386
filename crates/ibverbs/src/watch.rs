//! Notice of memory that the process gives back to the kernel, for registrations that are kept.
//!
//! A registration that pins pages is wrong as soon as they are unmapped: the adapter goes on with
//! the old ones. userfaultfd tells of `munmap`, `mremap`, `madvise` and `brk`, whoever calls them
//! and however; the thread that calls waits until the news was read. So somebody else has to read
//! it: a thread, which is started only if the settings ask for it.
//!
//! How a kept registration is known to be right: the reader takes the lock, reads the news, and
//! marks the ranges, then lets go. A user of a registration takes the same lock, asks the
//! kernel whether a change is under way whose news was not read, and looks at the mark. A change
//! that has begun before is either under way (so it is not used), or was read and marked, both
//! under the lock.
//!
//! The thread neither allocates nor frees, since its own `munmap` would wait for itself; under the
//! lock nobody else does.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use limic_shm::process::{Process, ValueHere, start_thread};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Most ranges that are watched at a time.
const RANGES: usize = 1024;

const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const UFFD_API: u64 = 0xaa;
/// Of whole mappings: remap, remove, unmap.
const FEATURES: u64 = 1 << 2 | 1 << 3 | 1 << 6;
/// Nothing is ever write-protected; it is the mode in which nothing faults.
const MODE_WP: u64 = 1 << 1;
/// Faults of the kernel are not handled, so no privilege is needed.
const USER_MODE_ONLY: i32 = 1;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
/// Bytes of a `struct uffd_msg`.
const MESSAGE: usize = 32;

/// The watch of this process.
#[derive(Debug)]
pub(crate) struct Watch {
    news: OwnedFd,
    process: Process,
    lock: Mutex<()>,
    ranges: [Range; RANGES],
}

/// A watched range; changed under the lock only.
#[derive(Debug)]
struct Range {
    start: AtomicU64,
    /// Behind the last byte; [`FREE`] or [`CHANGED`] otherwise.
    end: AtomicU64,
}

/// Nobody's.
const FREE: u64 = 0;
/// It was unmapped or given back, at least in part.
const CHANGED: u64 = 1;

/// A range under watch, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    watch: &'static Watch,
    place: usize,
}

impl Watch {
    /// The one of this process, started by the first call.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn of_process() -> Result<&'static Self, String> {
        static WATCH: ValueHere<Result<&'static Watch, String>> = ValueHere::new();
        let watch = WATCH.get_or_make(Self::start).clone()?;
        if watch.process.is_current() {
            Ok(watch)
        } else {
            Err("this process was forked from the one that watches its memory".to_owned())
        }
    }

    fn start() -> Result<&'static Self, String> {
        let failed = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: it only makes a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let fd = i32::try_from(fd)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| failed("userfaultfd"))?;
        // SAFETY: just made, and nobody else's.
        let news = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut api = [UFFD_API, FEATURES, 0];
        // SAFETY: a `struct uffdio_api`, which the call reads and writes.
        if unsafe { libc::ioctl(news.as_raw_fd(), UFFDIO_API as _, api.as_mut_ptr()) } != 0 {
            return Err(failed("UFFDIO_API"));
        }
        // It stays for as long as the process: ranges that it watches refer to it.
        let watch: &'static Self = Box::leak(Box::new(Self {
            news,
            process: Process::current(),
            lock: Mutex::new(()),
            ranges: [const {
                Range {
                    start: AtomicU64::new(0),
                    end: AtomicU64::new(FREE),
                }
            }; RANGES],
        }));
        start_thread("limic-unmap", Some(64 << 10), || watch.read_on())
            .map_err(|why| format!("a thread: {why}"))?;
        Ok(watch)
    }

    /// Watches a range. `None` if it cannot be: not private memory of the process alone (files and
    /// shared memory change in ways of which no news comes), or too many others.
    pub(crate) fn add(&'static self, start: u64, len: usize) -> Option<Watched> {
        let page = rustix::param::page_size() as u64;
        let end = start.checked_add(len as u64)?;
        let (first, behind) = (start / page * page, end.checked_next_multiple_of(page)?);
        let mut register = [first, behind - first, MODE_WP, 0];
        // SAFETY: a `struct uffdio_register`. In this mode no access faults that did not before.
        let done = unsafe {
            libc::ioctl(
                self.news.as_raw_fd(),
                UFFDIO_REGISTER as _,
                register.as_mut_ptr(),
            )
        };
        if done != 0 {
            return None;
        }
        let place = {
            let _lock = self.lock();
            let place = self.ranges.iter().position(|range| range.is(FREE))?;
            self.ranges[place].start.store(first, Ordering::Relaxed);
            self.ranges[place].end.store(behind, Ordering::Relaxed);
            place
        };
        let watched = Watched { watch: self, place };
        // Behind that: whatever is mapped there in its place is noticed.
        is_private(first, behind).then_some(watched)
    }

    /// None in a forked child: the thread that had the lock may not be there, and nobody reads.
    fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = || {
            self.lock
                .lock()
                .unwrap_or_else(|broken| broken.into_inner())
        };
        self.process.is_current().then(lock)
    }

    /// The thread's life.
    fn read_on(&self) {
        loop {
            let mut wanted = [PollFd::from_borrowed_fd(self.news.as_fd(), PollFlags::IN)];
            match poll(&mut wanted, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => std::thread::yield_now(),
            }
            let _lock = self.lock();
            let mut messages = [0_u8; 16 * MESSAGE];
            while let Ok(len) = rustix::io::read(&self.news, &mut messages[..]) {
                for message in messages[..len].chunks_exact(MESSAGE) {
                    self.changed(message);
                }
            }
        }
    }

    fn changed(&self, message: &[u8]) {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&message[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        let (first, behind) = match message[0] {
            EVENT_UNMAP | EVENT_REMOVE => (word(8), word(16)),
            EVENT_REMAP => (word(8), word(8).saturating_add(word(24))),
            _ => return,
        };
        for range in &self.ranges {
            let end = range.end.load(Ordering::Relaxed);
            let watched = end != FREE && end != CHANGED;
            if watched && range.start.load(Ordering::Relaxed) < behind && first < end {
                range.end.store(CHANGED, Ordering::Relaxed);
            }
        }
    }
}

impl Range {
    fn is(&self, end: u64) -> bool {
        self.end.load(Ordering::Relaxed) == end
    }
}

impl Watched {
    /// Whether nothing of the range was unmapped, moved or given back since it is watched. A forked
    /// child cannot tell.
    pub(crate) fn holds(&self) -> bool {
        let Some(_lock) = self.watch.lock() else {
            return false;
        };
        let mut nothing = [0_u64; 3];
        // SAFETY: an empty range, which the kernel refuses, after it has looked for changes under
        // way.
        let answer = unsafe {
            libc::ioctl(
                self.watch.news.as_raw_fd(),
                UFFDIO_WRITEPROTECT as _,
                nothing.as_mut_ptr(),
            )
        };
        // EAGAIN: a change is under way, of whatever memory. (In the kernel: `mmap_changing`, which
        // counts up before a mapping changes, and down when its news was read.)
        let calm = answer != 0
            && Errno::from_io_error(&std::io::Error::last_os_error()) == Some(Errno::INVAL);
        calm && !self.watch.ranges[self.place].is(CHANGED)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _lock = self.watch.lock();
        self.watch.ranges[self.place]
            .end
            .store(FREE, Ordering::Relaxed);
    }
}

/// Whether all of a range is mapped, anonymously and privately.
fn is_private(first: u64, behind: u64) -> bool {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return false;
    };
    let mut at = first;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else {
            return false;
        };
        let inode = words.nth(2);
        let Some((start, end)) = range.split_once('-') else {
            return false;
        };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        let (start, end) = (number(start), number(end));
        if end <= at {
            continue;
        }
        if start > at || !access.ends_with('p') || inode != Some("0") {
            return false;
        }
        at = end;
        if at >= behind {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{beside, holds_in_child};
    use crate::objects::Bytes;
    use crate::objects::StableBytes;

    /// One test at a time: the news of memory that one has unmapped may be read when the same
    /// addresses are another's already. Then that is said to have changed, which does no harm but
    /// to a test that denies it.
    fn watch() -> Option<(MutexGuard<'static, ()>, &'static Watch)> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
        let watch = Watch::of_process().inspect_err(|why| eprintln!("SKIPPED: {why}"));
        Some((alone, watch.ok()?))
    }

    #[test]
    fn what_is_unmapped_or_given_back_is_noticed_at_once() {
        let Some((_alone, watch)) = watch() else {
            return;
        };
        const LEN: usize = 1 << 20;
        for round in 0..200 {
            let memory = Bytes::zeroed(LEN).unwrap();
            let start = memory.start().as_ptr() as u64;
            let watched = watch.add(start + 100, 5000).unwrap();
            let other = watch.add(start + (LEN / 2) as u64, 5000).unwrap();
            while !watched.holds() {
                // Something else may be changing just now.
                assert!(!watched.watch.ranges[watched.place].is(CHANGED), "{round}");
            }
            if round % 2 == 0 {
                let pages = memory.start().as_ptr().cast();
                // SAFETY: the first pages of the test's own memory, which nothing refers to.
                unsafe { rustix::mm::madvise(pages, 8192, rustix::mm::Advice::LinuxDontNeed) }
                    .unwrap();
                assert!(!watched.holds(), "{round}: given back");
                assert!(!other.watch.ranges[other.place].is(CHANGED), "{round}");
            } else {
                drop(memory);
                assert!(!watched.holds() && !other.holds(), "{round}: unmapped");
            }
        }
    }

    #[test]
    fn freed_blocks_are_noticed() {
        let Some((_alone, watch)) = watch() else {
            return;
        };
        for _ in 0..50 {
            let block = vec![1_u8; 1 << 20];
            let watched = watch.add(block.as_ptr() as u64, block.len()).unwrap();
            drop(block);
            // glibc unmaps a block of this size, or keeps it: if it comes back changed, that was
            // noticed.
            let again = vec![0_u8; 1 << 20];
            if watched.holds() {
                assert!(again.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_forked_child_believes_no_watch_of_its_parent_and_waits_for_no_thread_of_it() {
        let Some((_alone, watch)) = watch() else {
            return;
        };
        let memory = Bytes::zeroed(1 << 16).unwrap();
        let start = memory.start().as_ptr() as u64;
        let mut watched = watch.add(start, 1 << 16);
        let reading = |stay: &dyn Fn()| {
            let _lock = watch.lock();
            stay();
        };
        assert!(beside(reading, || holds_in_child(|| {
            let watched = watched.take().unwrap();
            Watch::of_process().is_err() && !watched.holds()
        })));
    }

    #[test]
    fn shared_memory_and_files_are_not_watched() {
        let Some((_alone, watch)) = watch() else {
            return;
        };
        let code = Watch::start as *const () as u64;
        assert!(watch.add(code, 16).is_none());
        assert!(watch.add(4096, 16).is_none(), "not mapped");
    }

    #[test]
    fn threads_that_unmap_wait_for_nobody_for_long() {
        let Some((_alone, watch)) = watch() else {
            return;
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let memory = Bytes::zeroed(1 << 16).unwrap();
                        let start = memory.start().as_ptr() as u64;
                        let watched = watch.add(start, 1 << 16).unwrap();
                        drop(memory);
                        assert!(!watched.holds());
                    }
                });
            }
        });
    }
}
