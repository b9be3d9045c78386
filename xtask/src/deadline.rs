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

/// Kills the process tree below a child unless it is disarmed in time.
pub(crate) struct Deadline {
    disarm: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    passed: Arc<AtomicBool>,
}

/// What the thread of a deadline is told.
#[derive(PartialEq)]
enum Order {
    /// Do not wait any longer.
    Kill,
}

impl Deadline {
    pub(crate) fn of(child: &Child, limit: Duration) -> Self {
        Self::with_grace(child, limit, Duration::ZERO)
    }

    /// Asks the child to end (SIGTERM) before it is killed: launchers end their ranks then and remove
    /// what these left behind.
    pub(crate) fn with_grace(child: &Child, limit: Duration, grace: Duration) -> Self {
        let (disarm, disarmed) = mpsc::channel();
        let passed = Arc::new(AtomicBool::new(false));
        let (flag, root) = (Arc::clone(&passed), Pid::from_child(child));
        let thread = thread::spawn(move || {
            match disarmed.recv_timeout(limit) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => flag.store(true, Ordering::Relaxed),
                Ok(Order::Kill) => {}
            }
            // Those that the child started are lost from its tree when it ends before them.
            let descendants = descendants(root, &[]);
            if !grace.is_zero() {
                let _ = kill_process(root, Signal::TERM);
                // Disarmed when the child has ended.
                if disarmed.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
                    kill_tree(root);
                }
            } else {
                kill_tree(root);
            }
            for process in descendants {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        });
        Self {
            disarm: Some(disarm),
            thread: Some(thread),
            passed,
        }
    }

    /// Ends the child and what it started now; that does not count as a passed deadline.
    pub(crate) fn now(&self) {
        if let Some(disarm) = &self.disarm {
            // Its thread is gone only if the deadline has passed.
            let _ = disarm.send(Order::Kill);
        }
    }

    /// To be called when the child has ended and before it is forgotten; true if it was killed.
    pub(crate) fn disarm(mut self) -> bool {
        drop(self.disarm.take());
        if let Some(thread) = self.thread.take() {
            // It only sleeps and sends signals; a panic in it changes nothing here.
            let _ = thread.join();
        }
        self.passed.load(Ordering::Relaxed)
    }
}

/// The processes below one but some and those below these, by descriptors that no later process can take over.
pub(crate) fn descendants(root: Pid, but: &[Pid]) -> Vec<OwnedFd> {
    let children = children_by_parent();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(pid) = tree.get(next).copied() {
        let below = children.get(&pid).into_iter().flatten();
        tree.extend(below.filter(|child| !but.contains(child)));
        next += 1;
    }
    let below = tree.into_iter().skip(1);
    below
        .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .collect()
}

/// Kills a process and its descendants, parents first, so that none starts another in between.
fn kill_tree(root: Pid) {
    let children = children_by_parent();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(pid) = tree.get(next).copied() {
        // It may have ended in the meantime.
        let _ = kill_process(pid, Signal::KILL);
        tree.extend(children.get(&pid).into_iter().flatten());
        next += 1;
    }
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
    fn one_that_ends_is_left_alone() {
        let mut child = Command::new("/bin/true").spawn().expect("true");
        let deadline = Deadline::of(&child, Duration::from_secs(60));
        assert!(child.wait().expect("a child").success());
        assert!(!deadline.disarm());
    }
}
