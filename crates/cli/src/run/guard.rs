//! Ends a job whose launcher was killed.
//!
//! The kernel kills the ranks of a launcher that is gone, and nothing that these have started. So a
//! second process of this command waits on a pipe whose other end is the launcher's alone. When the
//! pipe ends, it kills all processes with the job's name in their environment (`PMI_JOBID`),
//! whatever parent, group or session they have. It leads a group of its own, so that what kills the
//! launcher's group spares it.
//!
//! Not found are processes without this variable, as of another launcher below the ranks, those
//! that have written over their environment, and those of another user.

use std::io::{Error, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::processes::numbers;

/// A process that is killed may take this long to end before all are looked for again.
const PATIENCE: Duration = Duration::from_secs(1);

/// All are looked for this many times: the kernel does not let every process end.
const MOST_ROUNDS: u32 = 60;

/// The variable whose value is the job's name, in every rank.
pub(super) const JOB: &str = "PMI_JOBID";

/// Kill the processes of a job once the standard input has ended
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's name
    job: String,
}

/// The process that waits for the launcher's end, which this is an end of the pipe to.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Starts it, for the job of this name.
    pub(super) fn start(job: &str) -> Result<Self, Error> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("limic").args(["guard", job]);
        // A launcher around this one marks its own processes by their environment, too: this is to
        // outlive it.
        command.env_clear().process_group(0);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It closes the pipe first. If the guard was killed, it has been waited for already.
        let _waited_for = self.0.wait();
    }
}

/// What the guard does.
pub(crate) fn execute(args: &Args) -> ExitCode {
    SigSet::all().thread_block().ok();
    // Nothing is ever written.
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
    let mark = format!("{JOB}={}", args.job);
    for _ in 0..MOST_ROUNDS {
        let Some(killed) = kill_all(mark.as_bytes()) else {
            break;
        };
        let timeout = Timespec::try_from(PATIENCE).ok();
        poll(&mut [PollFd::new(&killed, PollFlags::IN)], timeout.as_ref()).ok();
    }
    ExitCode::SUCCESS
}

/// Kills all processes with this variable; one of them, if there is any.
fn kill_all(mark: &[u8]) -> Option<OwnedFd> {
    let mut one = None;
    for pid in numbers().filter_map(Pid::from_raw) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        // If the number has come to mean another process by now, the signal still goes to the one
        // that has ended.
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let variables = std::fs::read(path).unwrap_or_default();
        if variables.split(|&byte| byte == 0).any(|v| v == mark) {
            pidfd_send_signal(&process, Signal::KILL).ok();
            one = Some(process);
        }
    }
    one
}
