//! The kernel's own wake-up: one process sleeps in the kernel, the other one wakes it. The time
//! runs from before the call that wakes until the sleeper runs, on the clock that both have; the
//! sleeper reads it.

use std::os::fd::{AsFd, OwnedFd};

use limic_measure::MeasureError;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

use super::Spread;
use super::loops::{Failure, Kind, Order};
use super::memory::Memory;
use super::partner::Partner;

/// From the sleeper's last sign until it is woken: by then it sleeps.
pub(in crate::perf) const PAUSE_NS: u64 = 50_000;

/// Wake-ups in a row, where nothing else is asked for; the median counts.
pub(in crate::perf) const WAKES: u64 = 200;

/// Nanoseconds on the clock that all processes of the machine share.
pub(in crate::perf) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Leaves the other process the time to fall asleep.
pub(in crate::perf) fn pause() {
    let begin = now_ns();
    while now_ns() - begin < PAUSE_NS {
        std::hint::spin_loop();
    }
}

/// An eventfd, by which the sleeper is woken out of its epoll set: the least that the kernel
/// takes.
pub(super) fn bell() -> Result<OwnedFd, MeasureError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
        MeasureError::System {
            step: "making an eventfd",
            source: errno.into(),
        }
    })
}

/// The half of the process that wakes the other.
pub(super) fn lead(order: &Order, memory: &Memory) -> Result<(), Failure> {
    let flags = memory.flags();
    for turn in 1..=order.iterations {
        pause();
        flags.woken_ns.set(now_ns());
        flags.bed.store(turn);
        match order.kind {
            Kind::FutexWake => {
                futex::wake(flags.bed.word(), futex::Flags::empty(), 1).map_err(system)?;
            }
            _ => {
                rustix::io::write(&memory.bell, &1_u64.to_ne_bytes()).map_err(system)?;
            }
        }
        flags.done.wait_for(turn)?;
    }
    Ok(())
}

/// The sleeper's half. It leaves the median with the flags.
pub(super) fn follow(order: &Order, memory: &Memory) -> Result<(), Failure> {
    let flags = memory.flags();
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(
        &set,
        memory.bell.as_fd(),
        epoll::EventData::new_u64(0),
        edge,
    )
    .map_err(system)?;
    let mut took = Vec::new();
    for turn in 1..=order.iterations {
        let slept = sleep(order.kind, memory, &set, turn)?;
        let now = now_ns();
        // Who was woken before it slept tells nothing.
        if slept {
            took.push(now.saturating_sub(flags.woken_ns.get()) as f64);
        }
        flags.done.set(turn);
    }
    flags.median_ns.set(Spread::of(&took).median as u64);
    Ok(())
}

/// Sleeps until it is woken. False if it was already.
fn sleep(kind: Kind, memory: &Memory, set: &OwnedFd, turn: u64) -> Result<bool, Failure> {
    let bed = &memory.flags().bed;
    let mut slept = false;
    while !bed.has_come(turn) {
        slept = true;
        if kind == Kind::FutexWake {
            let before = (turn - 1) as u32;
            match futex::wait(bed.word(), futex::Flags::empty(), before, None) {
                Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(system(errno)),
            }
        } else {
            let mut event = [const { core::mem::MaybeUninit::uninit() }; 1];
            match epoll::wait(set, &mut event, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(system(errno)),
            }
        }
    }
    Ok(slept)
}

fn system(errno: rustix::io::Errno) -> Failure {
    Failure::System(errno.into())
}

/// Wakes a process of its own again and again, between other measurements.
#[derive(Debug)]
pub(in crate::perf) struct KernelWake {
    memory: Memory,
    partner: Partner,
}

impl KernelWake {
    /// The sleeper is pinned to this CPU. The process must have one thread.
    pub(in crate::perf) fn start(cpu: Option<usize>) -> Result<Self, MeasureError> {
        let mut memory = Memory::map(8)?;
        let partner = Partner::start(&mut memory, cpu.map(|cpu| (cpu, cpu)))?;
        Ok(Self { memory, partner })
    }

    /// Microseconds of a wake-up out of an epoll set.
    pub(in crate::perf) fn measure(&mut self) -> Result<f64, MeasureError> {
        let order = Order::without_ring(Kind::EpollWake, 0, WAKES);
        let time = super::timed(&order, &mut self.memory, &mut self.partner);
        let time = time.map_err(super::into_error)?.as_secs_f64();
        Ok(time * 1e6 / WAKES as f64)
    }

    pub(in crate::perf) fn stop(self) -> Result<(), MeasureError> {
        self.partner.stop()
    }
}
