//! What was started here ends when this program is told to.

use std::os::fd::OwnedFd;
use std::process::exit;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, pidfd_send_signal};

use crate::console;
use crate::deadline::descendants;

/// How long launchers have to end their ranks, and to remove what these leave behind.
const GRACE: Duration = Duration::from_secs(3);

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
            end_all();
            // As a shell tells it of a program that a signal ended.
            exit(128 + signal as i32);
        }
    });
}

fn end_all() {
    let started = descendants(getpid());
    for process in &started {
        // It may have ended.
        let _ = pidfd_send_signal(process, Signal::TERM);
    }
    wait_for(&started, GRACE);
    // Those that came since, too.
    for process in started.iter().chain(&descendants(getpid())) {
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
