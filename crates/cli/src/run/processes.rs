//! What a job leaves behind: finding and ending the processes that ranks started.
//!
//! The launcher is a child subreaper (prctl(2)), so every descendant whose parent ended becomes a
//! child of the launcher. Signals go only to children that were not waited for yet, and to process
//! groups that hold one: neither number can have come to mean another process.

use std::collections::HashSet;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use super::notice;

/// A row of /proc/PID/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: i32,
    group: i32,
    /// Foreground process group of the controlling terminal, or -1.
    foreground: i32,
}

fn stat(text: &str) -> Option<Stat> {
    // The second field, the command's name in parentheses, may hold blanks and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, _session, _terminal) = (number()?, number()?, number()?, number()?);
    let foreground = number()?;
    Some(Stat {
        parent,
        group,
        foreground,
    })
}

/// Whether /proc is there, and its numbers are those of this process's PID namespace. Of another
/// namespace's, a number is another process here, which signals would go to.
pub(super) fn proc_is_ours() -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_of(&text, getpid().as_raw_nonzero().get())
}

/// Whether a /proc/self/status is that of the process with this number, in no namespace below.
fn is_of(status: &str, own: i32) -> bool {
    let numbers = |name: &str| -> Option<Vec<i32>> {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_ascii_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    };
    // One number for each namespace from that of /proc to that of the process. A kernel without
    // namespaces does not have this line.
    let each = numbers("NSpid:").is_none_or(|each| each == [own]);
    each && numbers("Pid:").is_some_and(|one| one == [own])
}

/// Whether this process belongs to the foreground group of its terminal, as /proc says.
pub(super) fn in_foreground() -> bool {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stat(&text).is_some_and(|stat| stat.group == stat.foreground) && proc_is_ours()
}

/// The numbers of all processes.
pub(super) fn numbers() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The launcher's children, ranks and orphans alike, each with its process group.
fn children() -> Vec<(Pid, Pid)> {
    let me = getpid().as_raw_nonzero().get();
    let found = numbers().filter_map(|number| {
        let text = std::fs::read(format!("/proc/{number}/stat")).ok()?;
        let stat = stat(&String::from_utf8_lossy(&text))?;
        // Outside of a PID namespace's view, numbers are 0: nothing to signal.
        let positive = number > 0 && stat.group > 0 && stat.parent == me;
        let pid = |number| Pid::from_raw(number).filter(|_| positive);
        Some((pid(number)?, pid(stat.group)?))
    });
    found.collect()
}

/// What a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    Process(Pid),
    Group(Pid),
}

/// Ends the launcher's children, and remembers which were asked.
#[derive(Debug)]
pub(super) struct Ender {
    /// Children that are not of the job: the guard, and those of the program that was this process
    /// before. Where /proc cannot be used, none is known.
    spared: HashSet<Pid>,
    /// Where /proc cannot be used, ranks are the only children that are known.
    proc_is_ours: bool,
    /// The ranks that were not waited for.
    ranks: HashSet<Pid>,
    /// Groups that the launcher made: one per rank.
    groups: HashSet<Pid>,
    asked: HashSet<Target>,
    /// Children that run as another user (setuid programs): nothing can be done about them.
    refused: HashSet<Pid>,
}

impl Ender {
    /// Spares the guard, and all other children that there are before the first rank. Without a
    /// guard, /proc is of no use.
    pub(super) fn new(guard: Option<Pid>) -> Self {
        let before = guard.iter().flat_map(|_| children());
        Self {
            spared: before.map(|(pid, _)| pid).chain(guard).collect(),
            proc_is_ours: guard.is_some(),
            ranks: HashSet::new(),
            groups: HashSet::new(),
            asked: HashSet::new(),
            refused: HashSet::new(),
        }
    }

    fn children(&self) -> impl Iterator<Item = (Pid, Pid)> {
        let all = match self.proc_is_ours {
            true => children(),
            // Then no rank is in the foreground, and each leads a group.
            false => self.ranks.iter().map(|&pid| (pid, pid)).collect(),
        };
        all.into_iter()
            .filter(|(pid, _)| !self.spared.contains(pid))
    }

    /// Whether a process of the job is left. What its processes start is not missed: until its
    /// parents have been waited for, one of them is here.
    pub(super) fn any_left(&self) -> bool {
        self.children().next().is_some()
    }

    /// Adds a rank, and the process group that it may lead.
    pub(super) fn add(&mut self, rank: Pid, own_group: bool) {
        self.ranks.insert(rank);
        if own_group {
            self.groups.insert(rank);
        }
    }

    /// The child was waited for: its number may come to mean another process.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.asked.remove(&Target::Process(pid));
        self.refused.remove(&pid);
        self.ranks.remove(&pid);
        self.spared.remove(&pid);
    }

    /// Asks every child, with its group, to end; each only once, so that it may take its time.
    pub(super) fn ask(&mut self) {
        for (pid, group) in self.children().collect::<Vec<_>>() {
            let target = self.target(pid, group);
            if self.asked.insert(target) {
                self.signal(pid, target, Signal::TERM);
                // A stopped process acts on SIGTERM only once it runs again.
                self.signal(pid, target, Signal::CONT);
            }
        }
    }

    /// Kills every child with its group. Their own children appear here when they are orphans: call
    /// it again after each end of a child. False if only children are left that it may not kill.
    pub(super) fn kill(&mut self) -> bool {
        let mut hope = false;
        for (pid, group) in self.children().collect::<Vec<_>>() {
            let target = self.target(pid, group);
            hope |= self.signal(pid, target, Signal::KILL);
        }
        hope
    }

    /// The child's group if it is one that the job made; else the child alone.
    fn target(&self, pid: Pid, group: Pid) -> Target {
        if group == pid || self.groups.contains(&group) {
            Target::Group(group)
        } else {
            Target::Process(pid)
        }
    }

    fn signal(&mut self, pid: Pid, target: Target, signal: Signal) -> bool {
        let result = match target {
            Target::Group(group) => kill_process_group(group, signal),
            Target::Process(pid) => kill_process(pid, signal),
        };
        let refused = result == Err(Errno::PERM);
        if refused && self.refused.insert(pid) {
            notice(format_args!(
                "process {} belongs to another user and cannot be ended",
                pid.as_raw_nonzero()
            ));
        }
        !refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let row = "12 (a) b (c)) S 3 4 5 6 7 8 9";
        let expected = Stat {
            parent: 3,
            group: 4,
            foreground: 7,
        };
        assert_eq!(stat(row), Some(expected));
        assert_eq!(stat("12 (a) S 3"), None);
        assert_eq!(stat(""), None);
    }

    #[test]
    fn a_proc_of_a_namespace_above_is_told_from_the_own_one() {
        assert!(proc_is_ours());
        for (status, ours) in [
            ("Name:\ta\nPid:\t7\nPPid:\t7\nNSpid:\t7\n", true),
            ("Pid:\t7\n", true),
            ("Pid:\t8\nNSpid:\t8\n", false),
            ("Pid:\t8\nNSpid:\t8\t7\n", false),
            ("Pid:\t7\nNSpid:\t7\t7\n", false),
            ("Name:\tPid:\t7\n", false),
            ("", false),
        ] {
            assert_eq!(is_of(status, 7), ours, "{status:?}");
        }
    }

    #[test]
    fn a_child_is_found_with_its_group() {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("cat");
        command.stdin(std::process::Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(children().contains(&(pid, pid)));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
