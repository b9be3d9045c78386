//! Ends a job whose launcher was killed.
//!
//! The kernel kills the ranks of a launcher that is gone, and nothing that these have started. So a
//! second process of this command waits on a pipe whose other end is the launcher's alone. When the
//! pipe ends, it kills all processes with the job's name in their environment (`LIMIC_JOB`),
//! whatever parent, group or session they have. It leads a group of its own, so that what kills the
//! launcher's group spares it.
//!
//! Not found are processes without this variable, as of another launcher below the ranks, those
//! that have written over their environment, and those of another user.

use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::processes::{numbers, proc_is_ours};

/// A process that is killed may take this long to end before all are looked for again.
const PATIENCE: Duration = Duration::from_secs(1);

/// All are looked for during this time: the kernel does not let every process end.
const LIMIT: Duration = Duration::from_secs(60);

/// Where none is found, they are looked for once more after this time.
const SECOND_LOOK: Duration = Duration::from_millis(20);

/// The variable whose value is the job's name, in every rank. It is not `PMI_JOBID`, which has the
/// same value, because users set that one for libraries that read it.
pub(super) const JOB: &str = "LIMIC_JOB";

/// How the name of a job begins.
pub(super) const PREFIX: &str = "limic_";

/// Kill the processes of a job once the standard input has ended
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's name
    #[arg(value_parser = parse_job)]
    job: String,
}

/// Nobody means all processes that some other variable's value marks.
fn parse_job(text: &str) -> Result<String, String> {
    match text.strip_prefix(PREFIX) {
        Some(rest) if !rest.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("the name of a job begins with {PREFIX}")),
    }
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
    let begin = Instant::now();
    // While a process starts a program, it has no environment: none is left if none is seen twice.
    let mut none_seen = false;
    while begin.elapsed() < LIMIT && proc_is_ours() {
        match kill_all(mark.as_bytes()) {
            Some(killed) => {
                none_seen = false;
                let timeout = Timespec::try_from(PATIENCE).ok();
                poll(&mut [PollFd::new(&killed, PollFlags::IN)], timeout.as_ref()).ok();
            }
            None if none_seen => break,
            None => {
                none_seen = true;
                std::thread::sleep(SECOND_LOOK);
            }
        }
    }
    ExitCode::SUCCESS
}

/// Kills all processes with this variable; one of them, if there is any.
fn kill_all(mark: &[u8]) -> Option<OwnedFd> {
    let mut one = None;
    // The kernel does not say how long they are, and each piece is a call.
    let mut variables = Vec::with_capacity(16 << 10);
    for pid in numbers().filter_map(Pid::from_raw) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        // If the number has come to mean another process by now, the signal still goes to the one
        // that has ended.
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        variables.clear();
        if let Ok(mut file) = File::open(path) {
            file.read_to_end(&mut variables).ok();
        }
        if variables.split(|&byte| byte == 0).any(|v| v == mark) {
            pidfd_send_signal(&process, Signal::KILL).ok();
            one = Some(process);
        }
    }
    one
}
