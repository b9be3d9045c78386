// SPDX-License-Identifier: GPL-2.0

//! What a session's owner can see without a trap, and how it sleeps when there is nothing to see.

use crate::abi;
use crate::area::Area;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed, Release};
use kernel::sync::poll::PollCondVar;
use kernel::{new_mutex, new_poll_condvar, sync::Mutex};

/// `struct limic_status_header`
#[repr(C)]
struct Header {
    version: Atomic<u32>,
    slots: Atomic<u32>,
    completions: Atomic<u32>,
    arrivals: Atomic<u32>,
    departures: Atomic<u32>,
    ended: Atomic<u32>,
    reserved: [Atomic<u32>; 10],
}

/// `struct limic_status`
#[repr(C)]
struct Status {
    state: Atomic<u32>,
    error: Atomic<i32>,
    len: Atomic<u64>,
    full_len: Atomic<u64>,
    tag: Atomic<u64>,
    cookie: Atomic<u64>,
    source: Atomic<u32>,
    flags: Atomic<u32>,
    immediate: Atomic<u64>,
    reserved: Atomic<u64>,
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<Status>() == 64);

/// How a request ended.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) error: i32,
    pub(crate) len: u64,
    pub(crate) full_len: u64,
    pub(crate) tag: u64,
    pub(crate) source: u32,
    /// The word beside the bytes.
    pub(crate) immediate: Option<u64>,
}

/// The memory that user space maps, read-only.
///
/// # Invariants
/// `area` has room for a header and `slots` statuses. User space cannot write to it: the mapping is
/// shared and has no permission to become writable.
struct Shown {
    area: Area,
    slots: u32,
}

impl Shown {
    fn new(slots: u32) -> Result<Self> {
        // INVARIANT: just allocated, with this size.
        let area = Area::new(size_of::<Header>() + slots as usize * size_of::<Status>())?;
        Ok(Self { area, slots })
    }

    fn header(&self) -> &Header {
        // SAFETY: by the invariant; zeroed memory is a valid header, and atomics may be shared.
        unsafe { self.area.base().cast().as_ref() }
    }

    fn status(&self, slot: u32) -> Option<&Status> {
        if slot >= self.slots {
            return None;
        }
        let first = self.area.base().cast::<Status>();
        // SAFETY: by the invariant there is room for it; zeroed memory is a valid status, and
        // atomics may be shared.
        Some(unsafe { first.add(1 + slot as usize).as_ref() })
    }
}

/// The events of one session.
#[pin_data]
pub(crate) struct Events {
    shown: Shown,
    /// Whoever waits holds it between looking and sleeping.
    #[pin]
    lock: Mutex<()>,
    #[pin]
    wake: PollCondVar,
    /// Threads in LIMIC_IOC_WAIT that may sleep.
    sleepers: Atomic<u32>,
    /// Whether poll() was ever called, so that somebody may sleep there.
    polled: Atomic<bool>,
    /// Whether something happened since the last LIMIC_IOC_WAIT.
    news: Atomic<bool>,
}

impl Events {
    pub(crate) fn new(slots: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            shown: {
                let shown = Shown::new(slots)?;
                shown.header().version.store(abi::VERSION, Relaxed);
                shown.header().slots.store(slots, Relaxed);
                shown
            },
            lock <- new_mutex!((), "limic_events"),
            wake <- new_poll_condvar!("limic_wake"),
            sleepers: Atomic::new(0),
            polled: Atomic::new(false),
            news: Atomic::new(false),
        })
    }

    /// Bytes to be mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.shown.area.bytes()
    }

    /// Maps the area, read-only for good.
    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        if vma.writable() {
            return Err(EACCES);
        }
        vma.try_clear_maywrite()?;
        self.shown.area.map(vma)
    }

    /// Shows a request as posted. Its slot is locked.
    pub(crate) fn show_pending(&self, slot: u32, cookie: u64) {
        if let Some(status) = self.shown.status(slot) {
            status.cookie.store(cookie, Relaxed);
            status.state.store(abi::PENDING, Release);
        }
    }

    /// Shows how a request ended. Its slot is locked.
    pub(crate) fn show_done(&self, slot: u32, cookie: u64, outcome: &Outcome) {
        if let Some(status) = self.shown.status(slot) {
            status.error.store(outcome.error, Relaxed);
            status.len.store(outcome.len, Relaxed);
            status.full_len.store(outcome.full_len, Relaxed);
            status.tag.store(outcome.tag, Relaxed);
            status.source.store(outcome.source, Relaxed);
            let flags = outcome.immediate.map_or(0, |_| abi::STATUS_IMMEDIATE);
            status.flags.store(flags, Relaxed);
            let word = outcome.immediate.unwrap_or(0);
            status.immediate.store(word, Relaxed);
            status.cookie.store(cookie, Relaxed);
            // Release: pairs with the acquire of user space, which reads the rest afterwards.
            status.state.store(abi::DONE, Release);
        }
    }

    /// A request was completed by somebody else's call.
    pub(crate) fn completed(&self) {
        self.tell(&self.shown.header().completions);
    }

    /// A slot is free by a call of its own session, which need not be told; but other threads may
    /// sleep until then. The caller has changed the slot under its lock, and holds no lock now.
    pub(crate) fn freed(&self) {
        // Relaxed: who sleeps is counted before it looks at the slot, under the same lock. It sees
        // the change there, or had the lock before us, and its count shows here.
        if self.sleepers.load(Relaxed) > 0 {
            self.wake_all();
        }
    }

    /// A message joined the unexpected queue.
    pub(crate) fn arrived(&self) {
        self.tell(&self.shown.header().arrivals);
    }

    /// A member of the group left.
    pub(crate) fn departed(&self) {
        self.tell(&self.shown.header().departures);
    }

    /// The session is over.
    pub(crate) fn end(&self) {
        self.tell(&self.shown.header().ended);
    }

    pub(crate) fn arrivals(&self) -> u32 {
        self.shown.header().arrivals.load(Relaxed)
    }

    pub(crate) fn departures(&self) -> u32 {
        self.shown.header().departures.load(Relaxed)
    }

    pub(crate) fn ended(&self) -> bool {
        self.shown.header().ended.load(Relaxed) != 0
    }

    fn tell(&self, counter: &Atomic<u32>) {
        // Full: pairs with the one in `sleep` and `poll_wake`. Either the sleeper sees this count,
        // or we see the sleeper. Also release: pairs with the acquire of user space.
        counter.fetch_add(1, Full);
        self.news.store(true, Relaxed);
        kernel::sync::barrier::smp_mb();
        if self.sleepers.load(Relaxed) > 0 || self.polled.load(Relaxed) {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        // Who looked before us sleeps by the time we have the lock.
        drop(self.lock.lock());
        self.wake.notify_all();
    }

    /// What happened until now is known.
    pub(crate) fn clear_news(&self) {
        self.news.xchg(false, Full);
    }

    /// Readiness for poll(), whose table the caller has registered with [`wake`](Self::wake).
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Relaxed)
    }

    /// What poll() waits on.
    pub(crate) fn poll_wake(&self) -> &PollCondVar {
        self.polled.xchg(true, Full);
        &self.wake
    }

    /// Sleeps until `ready` gives something, `jiffies` are over, or a signal comes.
    ///
    /// `ready` must not sleep nor take a lock under which anybody calls the methods above.
    pub(crate) fn sleep<R>(
        &self,
        mut jiffies: Option<kernel::time::Jiffies>,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>> {
        use kernel::sync::CondVarTimeoutResult::{Signal, Timeout, Woken};
        self.sleepers.fetch_add(1, Full);
        let mut guard = self.lock.lock();
        let result = loop {
            if let Some(result) = ready() {
                break Ok(Some(result));
            }
            match jiffies {
                Some(0) => break Ok(None),
                Some(left) => match self.wake.wait_interruptible_timeout(&mut guard, left) {
                    Woken { jiffies: left } => jiffies = Some(left),
                    Timeout => jiffies = Some(0),
                    Signal { .. } => break Err(EINTR),
                },
                None => {
                    if self.wake.wait_interruptible(&mut guard) {
                        break Err(ERESTARTSYS);
                    }
                }
            }
        };
        drop(guard);
        self.sleepers.fetch_sub(1, Full);
        result
    }
}
