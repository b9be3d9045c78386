//! What the two processes of the floor share, and what each has for itself.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use limic_measure::{MeasureError, content};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::copies::Copies;
use super::loops::Failure;
use crate::perf::buffers::Pool;

/// Room for the largest ring: 64 chunks of 64 KiB.
const RING_BYTES: usize = 4 << 20;

/// Spins between two looks at the clock, and before the first yield.
const PATIENCE: u32 = 1 << 16;

/// Flags that go to and fro. Their lines belong to different slices of the last-level cache, some
/// nearer to the two cores than others, so the time of a single line says little (decision 0014).
const BALLS: usize = 32;
/// Round trips of one flag before the next one's turn: most of them find its line in a cache.
const TURNS_OF_ONE: u64 = 16;

/// A partner that says nothing for so long is taken for dead.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// A counter on cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Flag(AtomicU64);

impl Flag {
    /// Pairs with the acquire in `wait_for`: what was written before is visible after it.
    #[inline(always)]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Pairs with the release in `set`.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Spins until the counter is at least `value`; pairs with the release in `set`.
    #[inline(always)]
    pub(super) fn wait_for(&self, value: u64) -> Result<(), Failure> {
        let mut spins = 0_u32;
        while self.0.load(Ordering::Acquire) < value {
            std::hint::spin_loop();
            spins += 1;
            if spins >= PATIENCE {
                return self.wait_long(value);
            }
        }
        Ok(())
    }

    /// The partner may need this CPU to go on.
    #[cold]
    fn wait_long(&self, value: u64) -> Result<(), Failure> {
        let begin = std::time::Instant::now();
        while self.0.load(Ordering::Acquire) < value {
            std::thread::yield_now();
            if begin.elapsed() > SILENCE {
                return Err(Failure::Silent);
            }
        }
        Ok(())
    }
}

/// The word on which a process sleeps: the number of times that it was woken.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Bed(AtomicU32);

impl Bed {
    /// Pairs with the acquire in `has_come`.
    pub(super) fn store(&self, turn: u64) {
        self.0.store(turn as u32, Ordering::Release);
    }

    /// Pairs with the release in `store`.
    pub(super) fn has_come(&self, turn: u64) -> bool {
        self.0.load(Ordering::Acquire) == turn as u32
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

/// The counters of both directions.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Flags {
    /// The partner is awake and has its order.
    pub(super) ready: Flag,
    /// Go to and fro, one after the other.
    balls: [Flag; BALLS],
    /// What the other process waits for is done, so many times.
    pub(super) done: Flag,
    /// Chunks that were put into each ring, and taken out of it.
    pub(super) filled: [Flag; 2],
    pub(super) emptied: [Flag; 2],
    /// When the sleeper was woken, and the median of what its wake-ups took.
    pub(super) woken_ns: Flag,
    pub(super) median_ns: Flag,
    pub(super) bed: Bed,
}

impl Flags {
    /// What goes to and fro in this turn.
    #[inline(always)]
    pub(super) fn ball(&self, turn: u64) -> &Flag {
        &self.balls[(turn / TURNS_OF_ONE) as usize % BALLS]
    }
}

/// A process's view of all memory. After the fork both have the same addresses; what is shared
/// stays shared, what is private is copied when it is written.
#[derive(Debug)]
pub(super) struct Memory {
    shared: *mut std::ffi::c_void,
    shared_bytes: usize,
    /// Bytes of a message at most.
    longest: usize,
    pub(super) source: Pool,
    pub(super) target: Pool,
    /// Wakes the other process.
    pub(super) bell: OwnedFd,
}

impl Memory {
    /// Maps and touches everything.
    pub(super) fn map(longest: usize) -> Result<Self, MeasureError> {
        let no_memory = |_| MeasureError::System {
            step: "taking memory for the longest message",
            source: std::io::ErrorKind::OutOfMemory.into(),
        };
        let (mut source, mut target) = (Pool::private(), Pool::private());
        source.take(longest).map_err(no_memory)?;
        target.take(longest).map_err(no_memory)?;
        let bell = super::wake::bell()?;
        let shared_bytes = size_of::<Flags>() + RING_BYTES + longest;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                shared_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            )
        };
        let shared = mapped.map_err(|errno| MeasureError::System {
            step: "mapping shared memory",
            source: errno.into(),
        })?;
        Ok(Self {
            shared,
            shared_bytes,
            longest,
            source,
            target,
            bell,
        })
    }

    /// The counters.
    pub(super) fn flags(&self) -> &Flags {
        // SAFETY: the mapping begins with them, on a page; they are atomics, zeroed by the kernel,
        // and live as long as `self`.
        unsafe { &*self.shared.cast::<Flags>() }
    }

    /// Sets the counters back, while the other process does nothing.
    pub(super) fn rewind(&self) {
        let flags = self.flags();
        let rings = flags.filled.iter().chain(&flags.emptied);
        rings
            .chain(&flags.balls)
            .chain([&flags.ready, &flags.done])
            .for_each(|flag| flag.set(0));
        flags.bed.store(0);
    }

    /// A chunk of the ring. A ping-pong fills it in both directions, one after the other: the
    /// answer goes into the chunks that were just emptied, as limic's recycled buffers do.
    pub(super) fn fragment(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= RING_BYTES, "in the ring");
        let start = size_of::<Flags>() + offset;
        // SAFETY: checked just above: within the mapping.
        unsafe { self.shared.cast::<u8>().add(start) }
    }

    /// The buffer that both have mapped, of the longest size.
    fn buffer(&self) -> *mut u8 {
        let start = size_of::<Flags>() + RING_BYTES;
        // SAFETY: the mapping is `longest` bytes longer than this.
        unsafe { self.shared.cast::<u8>().add(start) }
    }

    /// Copies part of the private source into shared memory.
    ///
    /// # Safety
    /// `to` comes from [`fragment`](Self::fragment) for at least `len` bytes, and the other process
    /// leaves that chunk alone.
    #[inline(always)]
    pub(super) unsafe fn copy_in(&self, copies: Copies, at: usize, len: usize, to: *mut u8) {
        let from = &self.source.bytes(at + len)[at..];
        // SAFETY: the caller's promise; private memory and the mapping do not overlap.
        unsafe { copies.copy(from.as_ptr(), to, len) }
    }

    /// Copies from shared memory into the private target.
    ///
    /// # Safety
    /// As [`copy_in`](Self::copy_in).
    #[inline(always)]
    pub(super) unsafe fn copy_out(
        &mut self,
        copies: Copies,
        from: *const u8,
        at: usize,
        len: usize,
    ) {
        let to = &mut self.target.bytes_mut(at + len)[at..];
        // SAFETY: the caller's promise; private memory and the mapping do not overlap.
        unsafe { copies.copy_from_peer(from, to.as_mut_ptr(), len) }
    }

    /// Writes a word of each cache line of the shared buffer.
    pub(super) fn rewrite_shared(&mut self, len: usize, seed: u64) {
        assert!(len <= self.longest, "in the buffer");
        // SAFETY: within the buffer, and the other process leaves it alone until it is told.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.buffer(), len) };
        content::rewrite(buffer, seed);
    }

    /// Copies out of the shared buffer.
    pub(super) fn copy_shared(&mut self, len: usize) {
        assert!(len <= self.longest, "in the buffer");
        let from = self.buffer();
        // SAFETY: within the buffer; the other process wrote it before, and now leaves it alone.
        unsafe { self.copy_out(Copies::Libc, from, 0, len) }
    }

    /// Writes the shared buffer and the private source, so that they are this process's own.
    pub(super) fn touch(&mut self) {
        let len = self.longest;
        self.source.bytes_mut(len).fill(3);
        self.target.bytes_mut(len).fill(4);
        // SAFETY: the whole buffer; the other process waits until this one says that it is ready.
        unsafe { std::ptr::write_bytes(self.buffer(), 5, len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; no reference outlives `self`. Nothing can be
        // done if it fails, and the process ends soon.
        let _ended_anyway = unsafe { munmap(self.shared, self.shared_bytes) };
    }
}
