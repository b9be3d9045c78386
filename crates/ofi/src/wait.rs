//! Waiting for completions: the descriptor of a queue, and waits without one.

use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use limic::raw::Runtime;
use limic_shm::process::Process;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::completion_queue::Queue;
use crate::counter::Counter;
use crate::endpoint::Endpoint;
use crate::event_queue::EventQueue;
use crate::ffi_guard;
use crate::object;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::fid_fabric;
use limic_ofi_abi::*;

/// What an application polls: readable when one of the queue's endpoints is wanted, or somebody in
/// this process called.
pub(crate) struct WaitObject {
    set: OwnedFd,
    call: OwnedFd,
    /// A forked child has copies of descriptors that are its parent's.
    process: Process,
}

/// The token of the call; endpoints have their numbers.
const CALL: u64 = u64::MAX;

/// The longest sleep without looking around.
pub(crate) const LONGEST: Duration = Duration::from_millis(250);

impl WaitObject {
    /// What counters and event queues have: a descriptor only for those who ask for one.
    pub(crate) fn asked(kind: u32) -> Result<Option<Self>, i32> {
        match kind {
            FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD => Ok(None),
            FI_WAIT_FD => Self::new().map(Some).map_err(|errno| errno.raw_os_error()),
            _ => Err(FI_ENOSYS),
        }
    }

    pub(crate) fn new() -> rustix::io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&set, &call, epoll::EventData::new_u64(CALL), readable)?;
        Ok(Self {
            set,
            call,
            process: Process::current(),
        })
    }

    pub(crate) fn add(&self, endpoint: BorrowedFd<'_>, number: u16) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(number.into());
        epoll::add(&self.set, endpoint, data, epoll::EventFlags::IN)
    }

    pub(crate) fn remove(&self, endpoint: BorrowedFd<'_>) {
        if self.process.is_current() {
            // It is not there if adding it failed, which was reported.
            let _ = epoll::delete(&self.set, endpoint);
        }
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.set.as_fd().as_raw_fd()
    }

    /// Wakes whoever waits: readable until it is [`heard`](Self::heard).
    pub(crate) fn call(&self) {
        if self.process.is_current() {
            // Fails only if the counter is full: then it is readable already.
            let _ = rustix::io::write(&self.call, &1_u64.to_ne_bytes());
        }
    }

    /// Whoever waits from now on waits for the next call.
    pub(crate) fn heard(&self) {
        if self.process.is_current() {
            // Fails if nobody has called.
            let _ = rustix::io::read(&self.call, &mut [0_u8; 8]);
        }
    }

    /// Sleeps until the descriptor is readable, at most so long.
    pub(crate) fn sleep(&self, longest: Duration) {
        let fd = rustix::event::PollFd::new(&self.set, rustix::event::PollFlags::IN);
        let time = rustix::event::Timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: longest.subsec_nanos().into(),
        };
        // An interrupted sleep is a short one: callers look again.
        let _ = rustix::event::poll(&mut [fd], Some(&time));
    }
}

/// When a wait of so many ms is over; never, if they are negative.
pub(crate) fn deadline(ms: c_int) -> Option<Instant> {
    let ms = u64::try_from(ms).ok()?;
    Some(Instant::now() + Duration::from_millis(ms))
}

/// A wait without a descriptor: polls, then gives way, then sleeps for short times.
pub(crate) struct Patience {
    polls: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { polls: 0 }
    }

    pub(crate) fn step(&mut self) {
        const POLLS: u32 = 1000;
        const YIELDS: u32 = 10_000;
        self.polls = self.polls.saturating_add(1);
        match self.polls {
            ..POLLS => core::hint::spin_loop(),
            POLLS..YIELDS => rustix::thread::sched_yield(),
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// A call that waits for long says once what it waits for, as limic's own do.
pub(crate) struct Told {
    since: Instant,
    over: bool,
}

impl Told {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            over: false,
        }
    }

    /// The call of this name is about to sleep, for what ends at one of the endpoints.
    ///
    /// # Safety
    /// The endpoints are alive, and the caller has a turn of them.
    pub(crate) unsafe fn look(&mut self, call: &'static str, endpoints: &[*const Endpoint]) {
        if self.over {
            return;
        }
        for endpoint in endpoints {
            // SAFETY: the caller's promise.
            let endpoint = unsafe { &**endpoint };
            let patience = endpoint.limic.patience();
            if !patience.is_zero() && self.since.elapsed() >= patience {
                self.over = true;
                endpoint.limic.say_under_way(call);
            }
        }
    }
}

/// `fi_control` of what can be waited for: its descriptor, and of what kind that is.
///
/// # Safety
/// `argument` is null, or room for what the command gives.
pub(crate) unsafe fn control(
    wait: Option<&WaitObject>,
    kind: u32,
    what: c_int,
    argument: *mut c_void,
) -> Result<(), i32> {
    if argument.is_null() {
        return Err(FI_EINVAL);
    }
    match (what, wait) {
        // SAFETY: the caller's promise.
        (command::GETWAIT, Some(wait)) => unsafe {
            *argument.cast::<c_int>() = wait.descriptor();
        },
        // SAFETY: the caller's promise.
        (command::GETWAITOBJ, _) => unsafe {
            *argument.cast::<u32>() = wait.map_or(kind, |_| FI_WAIT_FD);
        },
        _ => return Err(FI_ENOSYS),
    }
    Ok(())
}

/// `fi_trywait`: whether the descriptors of these objects may be polled now. If there is something
/// to do it is `FI_EAGAIN`; else senders ring from now on.
pub(crate) unsafe extern "C" fn trywait(
    _: *mut fid_fabric,
    fids: *mut *mut fid,
    count: c_int,
) -> c_int {
    ffi_guard::status(|| {
        let count = usize::try_from(count).map_err(|_| FI_EINVAL)?;
        // What one of them moved may have ended in another one that was looked at before.
        for again in [false, true] {
            for number in 0..count {
                // SAFETY: C passes `count` objects of this provider.
                if !unsafe { is_quiet(*fids.add(number), again)? } {
                    return Err(FI_EAGAIN);
                }
            }
        }
        Ok(())
    })
}

/// Whether there is nothing to do for an object; `again`: it was asked before, and nobody need be
/// told to ring.
///
/// # Safety
/// `fid` is an object of this provider.
unsafe fn is_quiet(fid: *mut fid, again: bool) -> Result<bool, i32> {
    // SAFETY: the caller's promise; each is what its class says.
    unsafe {
        match (*fid).fclass {
            class::CQ => {
                let queue: &Queue = object::object(fid);
                let turn = queue.turns.data();
                turn.found_nothing();
                Ok(if again {
                    !queue.has_any()
                } else {
                    queue.may_sleep()
                })
            }
            class::CNTR => {
                let counter: &Counter = object::object(fid);
                if !counter.bound.has_descriptor() {
                    return Ok(true);
                }
                let turn = counter.turns.data();
                turn.found_nothing();
                Ok(if again {
                    !counter.has_news()
                } else {
                    counter.may_be_polled()
                })
            }
            class::EQ => {
                let events: &EventQueue = object::object(fid);
                Ok(events.is_empty())
            }
            _ => Err(FI_EINVAL),
        }
    }
}
