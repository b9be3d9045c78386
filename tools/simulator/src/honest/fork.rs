//! A child that is forked between two calls, and goes on with what it has a copy of.
//!
//! It is a real one, so that it has a real copy: of its parent's memory, of its mappings as a fork
//! leaves them, and of its descriptors. Its parent waits for it, and with it everybody else.

use core::time::Duration;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use limic::raw::{Messages, RawSlice, Requests};
use limic::{Endpoint, Error, HybridEndpoint, Tag};

use super::states::reached;
use super::{Honest, doing, one_in};
use crate::schedule::{self, wrong};
use crate::sim::{self, Sim};

/// A child that lives for longer waits for something.
const SECONDS: u32 = 10;

/// The process that has its turn has a child which lives on with all that it has open.
fn leave_to_child(sim: &mut Sim) {
    let current = sim.current.expect("a process");
    for fd in sim.processes[current].descriptors.clone() {
        // SAFETY: asks for a copy of a number, which fails if it is not open.
        let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            continue;
        }
        if let Some(before) = sim.owners.remove(&copy) {
            // It has closed it since.
            sim.processes[before].descriptors.remove(&copy);
        }
        // SAFETY: made just now.
        sim.inherited.push(unsafe { OwnedFd::from_raw_fd(copy) });
    }
    sim.counts.fault("child that holds descriptors");
}

impl Honest<'_> {
    /// Forks. The child may leave its copies of the descriptors to one that lives on.
    pub(super) fn fork(&mut self) {
        doing(|| "forks".to_owned());
        reached("fork", "goes on");
        // SAFETY: the child runs on in this thread alone, and ends without a destructor.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            // SAFETY: touches no memory; the signal's own action ends the child.
            unsafe { libc::alarm(SECONDS) };
            schedule::is_alone();
            let well = catch_unwind(AssertUnwindSafe(|| self.go_on_in_child()));
            let well = well.is_ok() && sim::with(|sim| sim.failure.is_none());
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a place for what it ends with.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if ended != child || status != 0 {
            wrong(format!("a forked child ends with {status:#x}"));
        }
        if one_in(2) {
            sim::with(leave_to_child);
        }
    }

    /// What is under way ends for the child, and nothing new begins.
    fn go_on_in_child(&mut self) {
        self.held.clear();
        self.endpoint.progress();
        let peer = self.peers[(self.me + 1) % self.peers.len()];
        let data = [9; 100];
        // SAFETY: the data outlives the child.
        let sent = unsafe {
            self.endpoint
                .post_send(peer, Tag(1), &[RawSlice::from(&data[..])])
        };
        let received = self.endpoint.recv((peer, Tag(1)), &mut [0; 100]);
        for error in [sent.err(), received.err()] {
            if !matches!(error, Some(Error::PeerFailed { .. })) {
                wrong(format!(
                    "a forked child uses its parent's endpoint: {error:?}"
                ));
            }
        }
        self.endpoint.sleep(Some(Duration::from_millis(1)));
        for id in self.sends.iter().map(|one| one.id) {
            let _ = self.endpoint.wait(id);
        }
        for one in self.receives.iter().filter(|one| !one.watched) {
            let _ = self.endpoint.wait(one.id);
        }
        self.endpoint.close();
        let own = HybridEndpoint::with(self.script.settings[self.me].clone());
        let own = own.unwrap_or_else(|error| wrong(error));
        let note = own.send(own.myself(), Tag(1), &data);
        let note = note.and_then(|()| own.recv((own.myself(), Tag(1)), &mut [0; 100]));
        if let Err(error) = note {
            wrong(format!(
                "a forked child has no endpoint of its own: {error}"
            ));
        }
    }
}
