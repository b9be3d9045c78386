//! Programs that were started here end when this program is told to end.

use std::os::fd::OwnedFd;
use std::process::{Child, exit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::console;
use crate::deadline::{GRACE, descendants};

/// Held while a program is started, and for good once this program is told to end.
static STARTING: Mutex<()> = Mutex::new(());
/// Programs that end by themselves when this one has.
static SPARED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// To be held while a program is started. Once this program is told to end it starts no other one,
/// so that the search for descendants misses none.
pub fn may_start() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves a program alone that ends by itself when this one has, and has something to do then.
pub fn spare(child: &Child) {
    let mut spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
    spared.push(Pid::from_child(child));
}

/// From now on an interrupt, a hang-up and a request to end also end all programs that were
/// started, however that was done.
pub(crate) fn end_all_when_told_to() {
    let mut signals = match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(why) => {
            console::error(&format!("programs may outlive this one: {why}"));
            return;
        }
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _nothing_starts = may_start();
            end_all();
            // A shell reports so that a signal ended a program.
            exit(128 + signal);
        }
    });
}

fn end_all() {
    let spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
    let started = descendants(getpid(), &spared);
    for process in &started {
        // It may have ended.
        let _ = pidfd_send_signal(process, Signal::TERM);
    }
    wait_for(&started, GRACE);
    // These may have started others meanwhile.
    for process in started.iter().chain(&descendants(getpid(), &spared)) {
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
}

/// Waits until all of these have ended, or the time is over.
fn wait_for(processes: &[OwnedFd], limit: Duration) {
    let end = Instant::now() + limit;
    for process in processes {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now()));
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        // A process that cannot be waited for is killed.
        let _ = poll(&mut ended, left.ok().as_ref());
    }
}
