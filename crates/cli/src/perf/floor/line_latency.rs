//! The hand-over of a cache line between two CPUs, by itself: it says how far apart they are.

use std::time::Duration;

use limic_measure::{MeasureError, ranks};
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use super::loops::{Kind, Order};
use super::memory::Memory;
use super::partner::Partner;
use super::{into_error, timed};

/// Of the shortest round; long enough for the two processes to meet.
const ROUNDS: usize = 5;
const ITERATIONS: u64 = 20_000;

/// One way of a cache line, in the best of several rounds of some milliseconds. The process must
/// have one thread; where that may run is afterwards as before.
pub(in crate::perf) fn line_latency(cpus: [u32; 2]) -> Result<Duration, MeasureError> {
    let [first, second] = cpus.map(|cpu| cpu as usize);
    pinned(first, || measure(first, second))
}

/// What `measured` finds on this CPU. Where the process may run is afterwards as before.
pub(super) fn pinned<T>(
    cpu: usize,
    measured: impl FnOnce() -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    let affinity = |step| {
        move |errno: rustix::io::Errno| MeasureError::System {
            step,
            source: errno.into(),
        }
    };
    let before = sched_getaffinity(None).map_err(affinity("reading the CPU affinity"))?;
    let found = ranks::pin(cpu).and_then(|()| measured());
    sched_setaffinity(None, &before).map_err(affinity("restoring the CPU affinity"))?;
    found
}

fn measure(first: usize, second: usize) -> Result<Duration, MeasureError> {
    let order = Order::without_ring(Kind::CacheLine, 8, ITERATIONS);
    let mut memory = Memory::map(order.bytes)?;
    let mut partner = Partner::start(&mut memory, Some((first, second)))?;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(timed(&order, &mut memory, &mut partner).map_err(into_error)?);
    }
    partner.stop()?;
    Ok(best.div_f64(ITERATIONS as f64 * f64::from(Kind::CacheLine.steps())))
}
