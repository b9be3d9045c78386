//! A time limit for a program and everything that it started.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// How long a program may take to end by itself once it is asked to: a launcher ends its ranks
/// then, and removes what these left behind.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// Ends the process tree below a child, unless it is disarmed in time. The child is asked to end
/// first (SIGTERM), and killed [`GRACE`] later.
#[derive(Debug)]
pub(crate) struct Deadline {
    order: Option<Sender<EndNow>>,
    thread: Option<JoinHandle<()>>,
    passed: Arc<AtomicBool>,
}

/// Tells the thread of a deadline not to wait any longer.
#[derive(Debug, PartialEq)]
struct EndNow;

impl Deadline {
    pub(crate) fn of(child: &Child, limit: Duration) -> Self {
        let (order, orders) = mpsc::channel();
        let passed = Arc::new(AtomicBool::new(false));
        let (flag, root) = (Arc::clone(&passed), Pid::from_child(child));
        let thread = thread::spawn(move || {
            match orders.recv_timeout(limit) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => flag.store(true, Ordering::Relaxed),
                Ok(EndNow) => {}
            }
            // Processes that the child started leave its tree when the child ends before them.
            let descendants = descendants(root, &[]);
            let _ = kill_process(root, Signal::TERM);
            // It is disarmed when the child has ended.
            if orders.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                kill_tree(root);
            }
            for process in descendants {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        });
        Self {
            order: Some(order),
            thread: Some(thread),
            passed,
        }
    }

    /// Ends the child and what it started now; that does not count as a passed deadline.
    pub(crate) fn now(&self) {
        if let Some(order) = &self.order {
            // The thread has gone only if the deadline has passed.
            let _ = order.send(EndNow);
        }
    }

    /// To be called when the child has ended, before its status is forgotten. Returns whether the
    /// time was over.
    pub(crate) fn disarm(mut self) -> bool {
        drop(self.order.take());
        if let Some(thread) = self.thread.take() {
            // The thread only sleeps and sends signals; a panic in it changes nothing here.
            let _ = thread.join();
        }
        self.passed.load(Ordering::Relaxed)
    }
}

/// The processes below one, by descriptors that no later process can take over. Left out are the
/// processes in `but` and those below them.
pub(crate) fn descendants(root: Pid, but: &[Pid]) -> Vec<OwnedFd> {
    let mut below = tree(root, but);
    below.remove(0);
    let open = |pid| pidfd_open(pid, PidfdFlags::empty()).ok();
    below.into_iter().filter_map(open).collect()
}

/// Kills a process and its descendants, parents first, so that none starts another in between.
fn kill_tree(root: Pid) {
    for pid in tree(root, &[]) {
        // It may have ended in the meantime.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A process and the processes below it, parents first.
fn tree(root: Pid, but: &[Pid]) -> Vec<Pid> {
    let children = children_by_parent();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(pid) = tree.get(next) {
        let below = children.get(pid).into_iter().flatten();
        let below: Vec<Pid> = below
            .filter(|child| !but.contains(child))
            .copied()
            .collect();
        tree.extend(below);
        next += 1;
    }
    tree
}

fn children_by_parent() -> HashMap<Pid, Vec<Pid>> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process.file_name().to_str().and_then(read_pid);
        let parent = std::fs::read_to_string(process.path().join("stat"))
            .ok()
            .and_then(|stat| {
                // `pid (name) state parent ...`, and the name may hold anything.
                let (_, behind_name) = stat.rsplit_once(')')?;
                read_pid(behind_name.split_whitespace().nth(1)?)
            });
        if let (Some(pid), Some(parent)) = (pid, parent) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

fn read_pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_tree_that_hangs_is_killed() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 1000 & sleep 1000; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let deadline = Deadline::of(&child, Duration::from_millis(300));
        let mut out = child.stdout.take().expect("piped");
        // The pipe ends only when every process that holds it has ended.
        std::io::Read::read_to_end(&mut out, &mut Vec::new()).expect("readable");
        assert!(!child.wait().expect("a child").success());
        assert!(deadline.disarm());
    }

    #[test]
    fn a_program_that_ends_in_time_is_left_alone() {
        let mut child = Command::new("/bin/true").spawn().expect("true");
        let deadline = Deadline::of(&child, Duration::from_secs(60));
        assert!(child.wait().expect("a child").success());
        assert!(!deadline.disarm());
    }
}
