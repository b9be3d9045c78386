//! A process that goes on only as far as its tracer lets it (ptrace(2)): so a test can end or hold
//! it at a place that it chooses, and not at one that a clock chooses.

use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::link::{read_frame, write_frame};

/// Looks at a process that goes on, before the tracer does something else.
const LOOKS: u32 = 20;
/// How a child ends that may not be traced.
const NOT_TRACED: i32 = 77;

/// How far a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One instruction.
    Instruction,
    /// To the beginning or the end of a system call.
    Call,
    /// To its next mark.
    Mark,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Where its pace has led it.
    Between,
    /// At a [`mark`].
    Marked,
    /// It has ended with this code, or by a signal.
    Ended(Option<i32>),
}

/// A child process, stopped but within [`go`](Self::go).
#[derive(Debug)]
pub struct Stepped {
    pid: Pid,
    line: UnixStream,
    /// What was sent to it, and is to be delivered when it goes on.
    signal: Option<Signal>,
    ended: bool,
}

/// What the body of a [`Stepped`] holds of it.
#[derive(Debug)]
pub struct Line(UnixStream);

impl Line {
    /// Tells the tracer something, and stops at a mark.
    ///
    /// # Panics
    /// If the tracer is gone.
    pub fn tell(&self, bytes: &[u8]) {
        write_frame(&self.0, bytes).expect("the tracer listens");
        mark();
    }

    /// What the tracer has told, in order.
    ///
    /// # Panics
    /// If the tracer is gone.
    #[must_use]
    pub fn hear(&self) -> Vec<u8> {
        let frame = read_frame(&self.0).expect("the tracer tells something");
        frame.expect("the tracer lives")
    }
}

/// Keeps the calling thread, and the processes that it starts, to one processor; others have other
/// numbers. Tracer and traced never run at the same time, and a step within one processor takes
/// less time.
pub fn share_one_processor(number: usize) {
    let myself = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(myself) else {
        return;
    };
    let all: Vec<usize> = (0..CpuSet::count())
        .filter(|cpu| allowed.is_set(*cpu) == Ok(true))
        .collect();
    let chosen = all.get(number % all.len().max(1));
    let mut one = CpuSet::new();
    // Where that cannot be had, steps take longer.
    if chosen.is_some_and(|cpu| one.set(*cpu).is_ok()) {
        let _ = sched_setaffinity(myself, &one);
    }
}

/// The calling process, a [`Stepped`], stops here.
///
/// # Panics
/// Never: a process may always send itself a signal.
pub fn mark() {
    raise(Signal::SIGSTOP).expect("a signal to oneself");
}

impl Stepped {
    /// A copy of this process that does `body` alone, and stands at its beginning. Of the threads
    /// of this process, only the calling one may move it on.
    ///
    /// # Errors
    /// `EPERM`: this process may not trace its children.
    ///
    /// # Panics
    /// If no process can be made.
    pub fn start(body: impl FnOnce(&Line)) -> Result<Self, Errno> {
        let (line, there) = UnixStream::pair().expect("a pair of sockets");
        // SAFETY: a rank of a test has no other thread that holds a lock; the child ends below,
        // and no destructor of its parent's runs in it.
        match unsafe { fork() }.expect("fork") {
            ForkResult::Child => {
                drop(line);
                let code = match ptrace::traceme() {
                    Err(_) => NOT_TRACED,
                    Ok(()) => {
                        mark();
                        let there = Line(there);
                        let outcome = catch_unwind(AssertUnwindSafe(|| body(&there)));
                        i32::from(outcome.is_err())
                    }
                };
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                let (pid, signal, ended) = (child, None, false);
                let mut stepped = Self {
                    pid,
                    line,
                    signal,
                    ended,
                };
                match stepped.look(None).expect("a child that stops or ends") {
                    Stop::Ended(_) => Err(Errno::EPERM),
                    _ => {
                        // It ends with its tracer; stops at calls are told from other traps.
                        let options = Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACESYSGOOD;
                        ptrace::setoptions(pid, options)?;
                        Ok(stepped)
                    }
                }
            }
        }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Tells it something.
    ///
    /// # Panics
    /// If it has ended.
    pub fn tell(&self, bytes: &[u8]) {
        write_frame(&self.line, bytes).expect("the child lives");
    }

    /// What it has told, in order.
    ///
    /// # Panics
    /// If it ended before it told anything.
    #[must_use]
    pub fn hear(&self) -> Vec<u8> {
        let frame = read_frame(&self.line).expect("the child has told something");
        frame.expect("the child has told something")
    }

    /// Lets it go on. If that takes it longer than some instructions, it waits for something, and
    /// `meanwhile` is called again and again.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn go(&mut self, pace: Pace, mut meanwhile: impl FnMut()) -> Stop {
        let mut looks = 0;
        self.resume(pace);
        loop {
            match self.look(Some(WaitPidFlag::WNOHANG)) {
                Some(stop) => return stop,
                // A signal that is not the tracer's came to it.
                None if self.signal.is_some() => self.resume(pace),
                None => {
                    looks += 1;
                    if looks > LOOKS {
                        meanwhile();
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    fn resume(&mut self, pace: Pace) {
        let signal = self.signal.take();
        let resumed = match pace {
            Pace::Instruction => ptrace::step(self.pid, signal),
            Pace::Call => ptrace::syscall(self.pid, signal),
            Pace::Mark => ptrace::cont(self.pid, signal),
        };
        resumed.expect("a stopped child");
    }

    /// `None`: it goes on, or a signal stopped it.
    fn look(&mut self, flags: Option<WaitPidFlag>) -> Option<Stop> {
        let stop = match waitpid(self.pid, flags).expect("a child") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceSyscall(_) => Stop::Between,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => Stop::Marked,
            WaitStatus::Exited(_, code) => Stop::Ended(Some(code)),
            WaitStatus::Signaled(..) => Stop::Ended(None),
            WaitStatus::Stopped(_, signal) => {
                self.signal = Some(signal);
                return None;
            }
            _ => return None,
        };
        self.ended = matches!(stop, Stop::Ended(_));
        Some(stop)
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        while !self.ended {
            // It may have ended just now, which the wait tells.
            let _ = kill(self.pid, Signal::SIGKILL);
            self.look(None);
        }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing but calls of the kernel and memory of its own: other threads of this program may
    /// hold any lock.
    #[test]
    fn a_process_stops_at_marks_and_between_instructions() {
        let started = Stepped::start(|line| {
            assert_eq!(line.hear(), b"ask");
            line.tell(b"answer");
        });
        let Ok(mut stepped) = started else {
            return crate::skip("ptrace is not permitted");
        };
        stepped.tell(b"ask");
        for _ in 0..100 {
            assert_eq!(stepped.go(Pace::Instruction, || {}), Stop::Between);
        }
        assert_eq!(stepped.go(Pace::Call, || {}), Stop::Between);
        assert_eq!(stepped.go(Pace::Mark, || {}), Stop::Marked);
        assert_eq!(stepped.hear(), b"answer");
        assert_eq!(stepped.go(Pace::Mark, || {}), Stop::Ended(Some(0)));
    }
}
