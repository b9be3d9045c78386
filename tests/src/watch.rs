//! The ranks that a test has started, and the watchdog over them.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cast::Ended;

/// After the first rank failed, the others get this long to end by themselves.
const GRACE: Duration = Duration::from_secs(5);

/// How a rank is to end.
pub(crate) enum Expected {
    Success,
    Killed,
}

/// A rank that runs, or has ended.
pub(crate) struct Started {
    pub(crate) rank: u32,
    pub(crate) child: Child,
    pub(crate) output: File,
    pub(crate) status: Option<ExitStatus>,
    pub(crate) expected: Expected,
}

impl Started {
    fn failed(&self) -> bool {
        match (self.status, &self.expected) {
            (None, _) => false,
            (Some(status), Expected::Success) => !status.success(),
            (Some(status), Expected::Killed) => status.signal() != Some(libc::SIGKILL),
        }
    }

    pub(crate) fn ended(mut self) -> Ended {
        let mut bytes = Vec::new();
        // What cannot be read is not worth hiding the verdict for.
        let _ = self.output.rewind();
        let _ = self.output.read_to_end(&mut bytes);
        Ended {
            status: self.status.unwrap_or_default(),
            output: String::from_utf8_lossy(&bytes).into_owned(),
            pid: self.child.id(),
        }
    }
}

/// Waits for all children; all are reaped when it returns.
pub(crate) fn watch(started: &mut [Started], limit: Duration) -> Result<(), String> {
    let mut deadline = Instant::now() + limit;
    let mut verdict = Ok(());
    while started.iter().any(|rank| rank.status.is_none()) {
        wait_for_one(started, deadline);
        for rank in started.iter_mut().filter(|rank| rank.status.is_none()) {
            rank.status = rank.child.try_wait().expect("waitpid");
        }
        if let Some(first) = started.iter().position(Started::failed)
            && verdict.is_ok()
        {
            verdict = Err(format!("rank {} failed", started[first].rank));
            deadline = deadline.min(Instant::now() + GRACE);
        }
        if Instant::now() >= deadline {
            let late: Vec<usize> = (0..started.len())
                .filter(|rank| started[*rank].status.is_none())
                .collect();
            if !late.is_empty() && verdict.is_ok() {
                let ranks: Vec<u32> = late.iter().map(|at| started[*at].rank).collect();
                verdict = Err(format!(
                    "the watchdog ended ranks {ranks:?} after {limit:?}"
                ));
            }
            for at in late {
                let stacks = stacks(started[at].child.id());
                let text = format!("[watchdog] {stacks}\n");
                // The output is for people; the verdict stands without it.
                let _ = std::io::Write::write_all(&mut started[at].output, text.as_bytes());
                // It may have ended just now.
                let _ = started[at].child.kill();
                started[at].status = Some(started[at].child.wait().expect("waitpid"));
            }
        }
    }
    verdict
}

fn wait_for_one(started: &[Started], deadline: Instant) {
    let fds: Vec<_> = started
        .iter()
        .filter(|rank| rank.status.is_none())
        .filter_map(|rank| pidfd_open(Pid::from_child(&rank.child), PidfdFlags::empty()).ok())
        .collect();
    let mut polled: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
        .collect();
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    // An interruption only makes the caller look once more.
    let _ = poll(&mut polled, Some(&left));
}

/// What a process that hangs is doing, as far as the kernel tells.
fn stacks(pid: u32) -> String {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return "gone".to_owned();
    };
    let states = tasks.flatten().map(|task| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let state = read("stat");
        let state = state.rsplit(')').next().unwrap_or_default();
        let state = state.split_whitespace().next().unwrap_or("?").to_owned();
        let (name, wchan, call) = (read("comm"), read("wchan"), read("syscall"));
        format!(
            "thread {} {state} wchan={wchan} syscall={}",
            name.trim(),
            call.trim()
        )
    });
    states.collect::<Vec<_>>().join("; ")
}
