//! Endpoints that an application leaves open: closed in good order when libfabric is unloaded, so
//! that peers take them for closed and not for dead.
//!
//! That happens where the process ends, which can be anywhere: in a signal handler that interrupts
//! a call of this very endpoint, beside threads that are inside of calls, or in a forked child.
//! What cannot be closed there without disturbing somebody is left: the process ends anyway, and
//! peers get to know that as soon as it has.

use core::time::Duration;

use limic::Endpoint as _;
use limic::raw::Runtime;
use limic_shm::process::{LockHere, Process};

use super::Endpoint;
use crate::turns::soon;

/// How long a call of another thread is waited for. One that this thread itself is inside of never
/// ends.
const PATIENCE: Duration = Duration::from_millis(50);

/// Endpoints that are open, and the process that opened them.
static OPEN: LockHere<Vec<(Process, usize)>> = LockHere::new(Vec::new());

pub(super) fn add(endpoint: *const Endpoint) {
    let entry = (Process::current(), endpoint.expose_provenance());
    // A list of numbers: whole after a panic too. So below.
    let mut open = OPEN.lock();
    open.push(entry);
}

pub(super) fn remove(endpoint: *const Endpoint) {
    let mut open = OPEN.lock();
    open.retain(|(_, known)| *known != endpoint.addr());
}

/// Whether an endpoint is open, of which there is no more than where it was.
pub(crate) fn is_open(endpoint: *const Endpoint) -> bool {
    let open = OPEN.lock();
    let mut here = open.iter().filter(|(process, _)| process.is_current());
    here.any(|(_, known)| *known == endpoint.addr())
}

/// Closes what the application left open.
pub(crate) fn close_all() {
    let Some(mut list) = soon(PATIENCE, || OPEN.try_lock()) else {
        return;
    };
    for endpoint in opened_here(core::mem::take(&mut *list)) {
        let endpoint = core::ptr::with_exposed_provenance::<Endpoint>(endpoint);
        // SAFETY: it was in the list. Before an endpoint goes, it takes itself out of that, for
        // which it waits until this thread gives the list back.
        close(unsafe { &*endpoint });
    }
    drop(list);
}

/// A forked child has its parent's list, and must not touch what is in it.
fn opened_here(open: Vec<(Process, usize)>) -> impl Iterator<Item = usize> {
    let own = open.into_iter().filter(|(process, _)| process.is_current());
    own.map(|(_, endpoint)| endpoint)
}

fn close(endpoint: &Endpoint) {
    let Some(_turn) = endpoint.turns.control_soon(PATIENCE) else {
        return;
    };
    // A signal handler can be inside of a call of this very thread.
    if endpoint.limic.is_busy() {
        return;
    }
    endpoint.tally.print(endpoint);
    endpoint.limic.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::holds_in_child;

    /// Runs `body` in a forked process that is the first one of a new namespace of processes.
    /// `None`: that is not allowed here.
    fn in_namespace(body: impl FnOnce() -> bool) -> Option<bool> {
        // SAFETY: concerns only the children that this thread has from now on.
        let allowed = unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
        allowed.then(|| holds_in_child(body))
    }

    #[test]
    fn a_child_with_its_parents_pid_closes_nothing_of_its_parents() {
        let parent = in_namespace(|| {
            let open = vec![(Process::current(), 1)];
            let pid = std::process::id();
            let child = in_namespace(|| {
                pid == std::process::id() && opened_here(open.clone()).next().is_none()
            });
            child == Some(true) && opened_here(open).eq([1])
        });
        match parent {
            None => println!("SKIPPED: a process may make no namespace of processes here"),
            Some(well) => assert!(well),
        }
    }
}
