//! Waiting for completions: the descriptor of a queue, and waits without one.

use core::ffi::c_int;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::abi::errno::*;
use crate::abi::objects::fid_fabric;
use crate::abi::{class, fid};
use crate::completion_queue::Queue;
use crate::ffi_guard;
use crate::object;

/// What an application polls: readable when one of the queue's endpoints is wanted, or somebody in
/// this process called.
pub(crate) struct WaitObject {
    set: OwnedFd,
    call: OwnedFd,
}

/// The token of the call; endpoints have their numbers.
const CALL: u64 = u64::MAX;

impl WaitObject {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&set, &call, epoll::EventData::new_u64(CALL), readable)?;
        Ok(Self { set, call })
    }

    pub(crate) fn add(&self, endpoint: BorrowedFd<'_>, number: u16) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(number.into());
        epoll::add(&self.set, endpoint, data, epoll::EventFlags::IN)
    }

    pub(crate) fn remove(&self, endpoint: BorrowedFd<'_>) {
        // It is not there if adding it failed, which was reported.
        let _ = epoll::delete(&self.set, endpoint);
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.set.as_fd().as_raw_fd()
    }

    /// Wakes whoever waits: readable until it is [`heard`](Self::heard).
    pub(crate) fn call(&self) {
        // Fails only if the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.call, &1_u64.to_ne_bytes());
    }

    /// Whoever waits from now on waits for the next call.
    pub(crate) fn heard(&self) {
        // Fails if nobody has called.
        let _ = rustix::io::read(&self.call, &mut [0_u8; 8]);
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

/// `fi_trywait`: whether the descriptors of these objects may be polled now. If there is something
/// to do it is `FI_EAGAIN`; else senders ring from now on.
pub(crate) unsafe extern "C" fn trywait(
    _: *mut fid_fabric,
    fids: *mut *mut fid,
    count: c_int,
) -> c_int {
    ffi_guard::status(|| {
        let count = usize::try_from(count).map_err(|_| FI_EINVAL)?;
        let each_queue = |asked: fn(&Queue) -> bool| {
            for number in 0..count {
                // SAFETY: C passes `count` objects of this provider.
                let fid = unsafe { *fids.add(number) };
                // SAFETY: as above.
                match unsafe { (*fid).fclass } {
                    class::CQ => {
                        // SAFETY: as its class says.
                        let queue: &Queue = unsafe { object::object(fid) };
                        let _turn = queue.domain.enter();
                        if !asked(queue) {
                            return Err(FI_EAGAIN);
                        }
                    }
                    class::CNTR | class::EQ => {}
                    _ => return Err(FI_EINVAL),
                }
            }
            Ok(())
        };
        each_queue(Queue::may_sleep)?;
        // What one of them moved may have ended in another one that was looked at before.
        each_queue(|queue| !queue.has_any())
    })
}
