//! What was started here ends when this program is told to.

use std::os::fd::OwnedFd;
use std::process::{Child, exit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, pidfd_send_signal};

use crate::console;
use crate::deadline::descendants;

/// How long launchers have to end their ranks, and to remove what these leave behind.
const GRACE: Duration = Duration::from_secs(3);

/// Held while a program is started, and from the end on.
static STARTING: Mutex<()> = Mutex::new(());
/// Programs that end by themselves when this one has.
static SPARED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// To be held while a program is started: none is any more once this one was told to end, so that none is missed.
pub(crate) fn may_start() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that ends by itself when this one has, and has something to do then.
pub(crate) fn spare(child: &Child) {
    let mut spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
    spared.push(Pid::from_child(child));
}

/// From now on an interrupt, a hang-up and a request to end also end what was started, however it was. To be called
/// before there is another thread; programs that are started do not inherit what is blocked here.
pub(crate) fn end_all_when_told_to() {
    let mut told = SigSet::empty();
    for signal in [NixSignal::SIGINT, NixSignal::SIGTERM, NixSignal::SIGHUP] {
        told.add(signal);
    }
    if let Err(why) = told.thread_block() {
        console::error(&format!("programs may outlive this one: {why}"));
        return;
    }
    std::thread::spawn(move || {
        if let Ok(signal) = told.wait() {
            let _nothing_starts = may_start();
            end_all();
            // As a shell tells it of a program that a signal ended.
            exit(128 + signal as i32);
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
    // What these have started since, too.
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
        // What cannot be waited for is killed.
        let _ = poll(&mut ended, left.ok().as_ref());
    }
}
