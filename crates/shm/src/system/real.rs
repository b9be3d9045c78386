//! The system as it is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;

use super::Call;
use crate::control::PidfdError;
use crate::segment::{Areas, OwnSegment};

pub use std::time::Instant;

/// Where numbers begin that tell one use of a place, or one event, from the next one. A simulator
/// has them begin where they are about to wrap.
pub const FIRST_GENERATION: u32 = 1;

/// Nanoseconds on a clock that only goes forward.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of this process.
#[inline]
#[must_use]
pub fn process_id() -> u32 {
    std::process::id()
}

/// A number that nobody can guess.
///
/// # Errors
/// What the kernel says.
#[inline]
pub fn random() -> Result<u64, getrandom::Error> {
    getrandom::u64()
}

/// Lets others have the processor.
#[inline]
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// Memory that other processes write is about to be accessed.
#[inline(always)]
pub(crate) fn access() {}

/// Whether a call of the kernel fails before it is made.
///
/// # Errors
/// What the kernel would say.
#[inline(always)]
pub(crate) fn call(_: Call) -> Result<(), Errno> {
    Ok(())
}

/// Waits in the kernel, by `wait`, for at most so long.
#[inline(always)]
pub(crate) fn wait<T>(
    timeout: Option<Duration>,
    mut wait: impl FnMut(Option<Duration>) -> std::io::Result<T>,
    _nothing: impl Fn(&T) -> bool,
) -> std::io::Result<T> {
    wait(timeout)
}

/// A descriptor was made, which belongs to this process.
#[inline(always)]
pub fn opened<T: AsFd>(fd: T) -> T {
    fd
}

/// Memory was mapped.
#[inline(always)]
pub(crate) fn mapped(_base: usize, _len: usize, _writable: bool) {}

/// Memory is about to be unmapped.
#[inline(always)]
pub(crate) fn unmapped(_base: usize) {}

/// A segment was mapped.
#[inline(always)]
pub(crate) fn segment(_areas: &Areas) {}

/// A segment was made.
#[inline(always)]
pub(crate) fn own_segment(_segment: &OwnSegment) {}

/// The abstract name of the endpoint `id`, without the leading zero byte.
pub(crate) fn name(id: u64) -> String {
    format!("limic/{id:016x}")
}

/// This process listens under a number.
#[inline(always)]
pub(crate) fn listens(_id: u64) {}

/// A socket is about to connect.
#[inline(always)]
pub(crate) fn name_caller(_socket: &OwnedFd) {}

/// The number of the process at the other end of a connection, where the kernel does not know
/// it.
#[inline(always)]
pub(crate) fn pid_of_peer(_socket: BorrowedFd<'_>) -> Option<i32> {
    None
}

/// A descriptor of the process at the other end of a connection, where the kernel is not to be
/// asked.
#[inline(always)]
pub(crate) fn pidfd(_socket: BorrowedFd<'_>) -> Option<Result<OwnedFd, PidfdError>> {
    None
}
