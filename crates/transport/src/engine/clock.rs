//! The clock by which an endpoint measures.

/// Nanoseconds on a clock that only goes forward.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
