//! The system as a simulator makes it: `install` says which one, for the thread that asks.
//!
//! Without a simulator everything is as it is, so that the unit tests run in such a build too.

use core::cell::Cell;
use core::ops::Add;
use core::panic::Location;
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, bind, getpeername};

use super::Call;
use crate::control::PidfdError;
use crate::segment::{Areas, OwnSegment};

/// Where numbers begin that tell one use of a place, or one event, from the next one: they are
/// about to wrap.
pub const FIRST_GENERATION: u32 = u32::MAX - 1;

/// What a simulator decides. Each call is made by the process that has its turn.
pub trait System {
    /// Memory that other processes write is about to be accessed at this place of the source:
    /// others may have their turn.
    fn access(&self, at: &'static Location<'static>);
    /// The process that has its turn gives it away.
    fn yield_now(&self);
    /// When a sleep of so many nanoseconds ends, if it does.
    fn deadline(&self, timeout: Option<u64>) -> Option<u64>;
    /// The process sleeps until something happens or this time has come. False if that has come.
    fn sleep(&self, until: Option<u64>) -> bool;
    /// What the clock says, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// The process that has its turn.
    fn process_id(&self) -> u32;
    /// The next random number.
    fn random(&self) -> u64;
    /// Whether a call of the kernel fails now, and how.
    fn call(&self, call: Call) -> Result<(), Errno>;
    /// The process has this descriptor.
    fn opened(&self, fd: RawFd);
    /// The process has mapped this memory.
    fn mapped(&self, base: usize, len: usize, writable: bool);
    /// It is about to unmap that.
    fn unmapped(&self, base: usize);
    /// The process has mapped this segment.
    fn segment(&self, areas: &Areas);
    /// The process has made this segment.
    fn own_segment(&self, segment: &OwnSegment);
    /// The process listens under this number.
    fn listens(&self, id: u64);
    /// Which process listens under it.
    fn listener(&self, id: u64) -> Option<u32>;
    /// A descriptor of a process.
    fn pidfd(&self, process: u32) -> Result<OwnedFd, PidfdError>;
}

thread_local! {
    static SYSTEM: Cell<Option<&'static dyn System>> = const { Cell::new(None) };
}

/// From now on this thread's endpoints live in that system.
pub fn install(system: Option<&'static dyn System>) {
    SYSTEM.set(system);
}

fn system() -> Option<&'static dyn System> {
    SYSTEM.get()
}

/// Nanoseconds on a clock that only goes forward.
#[must_use]
pub fn now_ns() -> u64 {
    if let Some(system) = system() {
        return system.now_ns();
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The standard library's `Instant`, as far as limic uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(now_ns())
    }

    /// How long it is ago.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// How much later it is than another one.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// So much later, if the clock goes so far.
    #[must_use]
    pub fn checked_add(self, time: Duration) -> Option<Self> {
        let time = u64::try_from(time.as_nanos()).ok()?;
        self.0.checked_add(time).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        self.checked_add(time).unwrap_or(Self(u64::MAX))
    }
}

/// The number of the process.
#[must_use]
pub fn process_id() -> u32 {
    system().map_or_else(std::process::id, System::process_id)
}

/// A random number.
///
/// # Errors
/// What the kernel says where there is no simulator.
pub fn random() -> Result<u64, getrandom::Error> {
    system().map_or_else(getrandom::u64, |system| Ok(system.random()))
}

/// Lets others have their turn.
pub fn yield_now() {
    match system() {
        Some(system) => system.yield_now(),
        None => rustix::thread::sched_yield(),
    }
}

/// Memory that other processes write is about to be accessed.
#[track_caller]
pub(crate) fn access() {
    if let Some(system) = system() {
        system.access(Location::caller());
    }
}

/// Whether a call of the kernel fails before it is made.
pub(crate) fn call(call: Call) -> Result<(), Errno> {
    system().map_or(Ok(()), |system| system.call(call))
}

/// Waits by `wait`, which the simulator lets look without waiting, for at most so long.
pub(crate) fn wait<T>(
    timeout: Option<Duration>,
    mut wait: impl FnMut(Option<Duration>) -> io::Result<T>,
    nothing: impl Fn(&T) -> bool,
) -> io::Result<T> {
    let Some(system) = system() else {
        return wait(timeout);
    };
    let nanoseconds = timeout.and_then(|timeout| u64::try_from(timeout.as_nanos()).ok());
    let until = system.deadline(nanoseconds);
    loop {
        let found = wait(Some(Duration::ZERO))?;
        let over = timeout.is_some_and(|timeout| timeout.is_zero());
        if !nothing(&found) || over || !system.sleep(until) {
            return Ok(found);
        }
    }
}

/// A descriptor was made, which belongs to the process.
pub fn opened<T: AsFd>(fd: T) -> T {
    if let Some(system) = system() {
        system.opened(fd.as_fd().as_raw_fd());
    }
    fd
}

pub(crate) fn mapped(base: usize, len: usize, writable: bool) {
    if let Some(system) = system() {
        system.mapped(base, len, writable);
    }
}

pub(crate) fn unmapped(base: usize) {
    if let Some(system) = system() {
        system.unmapped(base);
    }
}

/// The simulator is about to unmap memory of a process that it has killed: it is taken off the list
/// of mappings that a forked child must not have.
pub fn forget_mapping(base: usize) {
    if let Some(start) = NonNull::new(core::ptr::without_provenance_mut(base)) {
        crate::process::leave_mapping(start);
    }
}

pub(crate) fn segment(areas: &Areas) {
    if let Some(system) = system() {
        system.segment(areas);
    }
}

pub(crate) fn own_segment(segment: &OwnSegment) {
    if let Some(system) = system() {
        system.own_segment(segment);
    }
}

/// What the names of this simulation begin with: another one may run beside it.
pub(crate) fn name(id: u64) -> String {
    format!("limic-sim/{}/{id:016x}", std::process::id())
}

pub(crate) fn listens(id: u64) {
    if let Some(system) = system() {
        system.listens(id);
    }
}

/// Gives a socket that is about to connect a name which tells its process.
pub(crate) fn name_caller(socket: &OwnedFd) {
    let Some(system) = system() else { return };
    let name = format!(
        "limic-sim/{}/from/{}/{:x}",
        std::process::id(),
        system.process_id(),
        system.random()
    );
    let name = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes());
    // Without a name the process at the other end is not known, as on an old kernel.
    let _ = name.and_then(|name| bind(socket, &name));
}

/// The number of the process at the other end of a connection.
pub(crate) fn pid_of_peer(socket: BorrowedFd<'_>) -> Option<i32> {
    let system = system()?;
    process_of(system, getpeername(socket).ok()??).map(|process| process as i32)
}

/// A descriptor of the process at the other end of a connection.
pub(crate) fn pidfd(socket: BorrowedFd<'_>) -> Option<Result<OwnedFd, PidfdError>> {
    let system = system()?;
    let process = pid_of_peer(socket);
    Some(process.map_or(Err(PidfdError::OtherNamespace), |process| {
        system.pidfd(process as u32)
    }))
}

fn process_of(system: &dyn System, name: SocketAddrAny) -> Option<u32> {
    let name = rustix::net::SocketAddrUnix::try_from(name).ok()?;
    let name = core::str::from_utf8(name.abstract_name()?).ok()?;
    let mut parts = name.split('/').skip(2);
    match parts.next()? {
        "from" => parts.next()?.parse().ok(),
        id => system.listener(u64::from_str_radix(id, 16).ok()?),
    }
}
