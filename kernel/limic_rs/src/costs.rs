// SPDX-License-Identifier: GPL-2.0

//! What each step of a call costs: off by default, and then one load and branch per step.
//!
//! The trap is not among the steps, since the kernel does not see its beginning: user space times
//! `LIMIC_IOC_PING`.

use kernel::fmt;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::time::{Instant, Monotonic};

/// What a call did.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// A send or receive that met the other side and copied.
    Transfer,
    /// A send or receive that came first: it posted a descriptor.
    Post,
    /// A copy from or to an exposure.
    Copy,
    /// An exposure.
    Expose,
}

const CALLS: [&str; 4] = ["transfer", "post", "copy", "expose"];

/// A part of a call.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Reading and checking the call and its list of pieces.
    List,
    /// Finding the handle; taking the lock and looking in the queues, or joining one.
    Queue,
    /// Pinning pages.
    Pin,
    /// Finding the kernel's address of the pages. 64-bit kernels map all memory, so nothing has to
    /// be mapped.
    Map,
    /// Moving the bytes, with faults of the caller's own memory.
    Copy,
    /// Unpinning, telling both sides, waking the other one.
    Complete,
}

const STEPS: [&str; 6] = ["list", "queue", "pin", "map", "copy", "complete"];

/// Sizes are counted by powers of two: class n holds up to 2^(6 + n) bytes, the last one all above.
const CLASSES: usize = 18;

struct Cell {
    nanoseconds: Atomic<u64>,
    calls: Atomic<u64>,
}

const EMPTY: Cell = Cell {
    nanoseconds: Atomic::new(0),
    calls: Atomic::new(0),
};

static MEASURING: Atomic<bool> = Atomic::new(false);
/// The id of the session with which measuring ends; 0: it goes on until it is turned off.
static OWNER: Atomic<u64> = Atomic::new(0);
static COSTS: [[[Cell; CLASSES]; STEPS.len()]; CALLS.len()] =
    [const { [const { [EMPTY; CLASSES] }; STEPS.len()] }; CALLS.len()];

/// Whether measuring is on. The line of memory is never written while it stays so or not, so it is
/// in every cache.
#[inline]
pub(crate) fn measuring() -> bool {
    MEASURING.load(Relaxed)
}

/// Measures from now on, with all figures from 0: until the session of this id ends, or, with 0,
/// until it is turned off.
pub(crate) fn start(owner: u64) {
    stop();
    OWNER.store(owner, Relaxed);
    MEASURING.store(true, Relaxed);
}

/// Measures no more; all figures are 0 again.
pub(crate) fn stop() {
    MEASURING.store(false, Relaxed);
    OWNER.store(0, Relaxed);
    for cell in COSTS.iter().flatten().flatten() {
        cell.nanoseconds.store(0, Relaxed);
        cell.calls.store(0, Relaxed);
    }
    crate::counters::reset();
}

/// A session is over, so that nobody is there to turn off what was turned on for it.
pub(crate) fn session_ended(id: u64) {
    if OWNER.load(Relaxed) == id {
        stop();
    }
}

/// The clock of one call.
pub(crate) struct Trip {
    /// When the current step began; `None` if measuring is off.
    since: Option<Instant<Monotonic>>,
    spent: [u64; STEPS.len()],
}

impl Trip {
    #[inline]
    pub(crate) fn begin() -> Self {
        Self {
            since: measuring().then(Instant::now),
            spent: [0; STEPS.len()],
        }
    }

    /// The time since the last mark belongs to `step`.
    #[inline]
    pub(crate) fn step(&mut self, step: Step) {
        if let Some(since) = self.since {
            if let Some(spent) = self.spent.get_mut(step as usize) {
                *spent += since.elapsed().as_nanos() as u64;
            }
            self.since = Some(Instant::now());
        }
    }

    /// The call was of this kind and about so many bytes.
    #[inline]
    pub(crate) fn end(self, call: Call, bytes: u64) {
        if self.since.is_some() {
            self.record(call, bytes);
        }
    }

    #[cold]
    fn record(self, call: Call, bytes: u64) {
        let class = (bytes.max(1).next_power_of_two().trailing_zeros() as usize).saturating_sub(6);
        let Some(steps) = COSTS.get(call as usize) else {
            return;
        };
        for (cells, nanoseconds) in steps.iter().zip(self.spent) {
            if let Some(cell) = cells.get(class.min(CLASSES - 1)) {
                cell.nanoseconds.add(nanoseconds, Relaxed);
                cell.calls.add(1, Relaxed);
            }
        }
    }
}

/// The table that debugfs shows: one line per kind of call and size, nanoseconds per call in each
/// step.
pub(crate) struct Breakdown;

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call max_bytes calls")?;
        for step in STEPS {
            write!(f, " {step}_ns")?;
        }
        writeln!(f)?;
        for (call, steps) in CALLS.iter().zip(&COSTS) {
            for class in 0..CLASSES {
                let cell = |step: &[Cell; CLASSES]| {
                    step.get(class).map_or((0, 0), |cell| {
                        (cell.nanoseconds.load(Relaxed), cell.calls.load(Relaxed))
                    })
                };
                let calls = steps.first().map_or(0, |step| cell(step).1);
                if calls == 0 {
                    continue;
                }
                if class == CLASSES - 1 {
                    write!(f, "{call} more {calls}")?;
                } else {
                    write!(f, "{call} {} {calls}", 64_u64 << class)?;
                }
                for step in steps {
                    let (nanoseconds, calls) = cell(step);
                    write!(f, " {}", nanoseconds / calls.max(1))?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
