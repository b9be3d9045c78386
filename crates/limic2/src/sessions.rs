//! The sessions of this process by their descriptors.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;

use limic_shm::process::{LockHere, Process};

use crate::descriptor::{Part, Registered};
use crate::refusal::Refusal;
use crate::session::Session;

struct Open {
    session: Arc<Session>,
    /// The process that opened it: a forked child inherits the descriptor, but neither the lock of
    /// the table nor its address space.
    process: Process,
}

static OPEN: LockHere<Option<HashMap<RawFd, Open>>> = LockHere::new(None);

fn with<T>(use_it: impl FnOnce(&mut HashMap<RawFd, Open>) -> T) -> T {
    let mut open = OPEN.lock();
    use_it(open.get_or_insert_default())
}

pub(crate) fn open() -> Result<RawFd, Refusal> {
    let session = Arc::new(Session::open()?);
    let fd = session.fd();
    let process = Process::current();
    // In a forked child an entry of the parent may have the number; its tables are not the child's.
    let old = with(|open| open.insert(fd, Open { session, process }));
    if let Some(old) = old {
        forget(old);
    }
    Ok(fd)
}

pub(crate) fn close(fd: RawFd) -> Result<(), Refusal> {
    let closed = with(|open| open.remove(&fd));
    match closed {
        Some(open) if open.process.is_current() => Ok(()),
        Some(open) => {
            forget(open);
            Err(not_open(fd))
        }
        None => Err(not_open(fd)),
    }
}

/// Leaves a parent's session alone: the numbers of its descriptors may mean other files here by
/// now.
fn forget(open: Open) {
    core::mem::forget(open.session);
}

#[cold]
fn not_open(fd: RawFd) -> Refusal {
    Refusal::new(
        libc::EBADF,
        format!(
            "descriptor {fd} is not open for LiMIC2 in this process; a forked child calls limic_open itself"
        ),
    )
}

pub(crate) fn find(fd: RawFd) -> Result<Arc<Session>, Refusal> {
    with(|open| {
        let found = open.get(&fd).filter(|open| open.process.is_current());
        found.map(|open| Arc::clone(&open.session))
    })
    .ok_or_else(|| not_open(fd))
}

/// What one of this process's own sessions registered.
pub(crate) fn look_up_here(registered: Registered) -> Result<(Part, (u64, u64)), Refusal> {
    let sessions: Vec<Arc<Session>> = with(|open| {
        let own = open.values().filter(|open| open.process.is_current());
        own.map(|open| Arc::clone(&open.session)).collect()
    });
    let mut found = sessions
        .iter()
        .map(|session| session.look_up_here(registered));
    found.find_map(|found| found).ok_or_else(|| {
        Refusal::stale("the buffer is not prepared any more in this process, or never was: the handle is stale or was changed on the way")
    })
}
