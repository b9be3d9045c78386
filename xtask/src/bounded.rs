//! Runs a program that may hang, fail or print too little: what it printed is kept in each case.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::deadline::Deadline;
use crate::interrupted;

/// How long a program may take to end by itself once it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// How long after its end its output may still come, from processes that it left behind.
const LATE_OUTPUT: Duration = Duration::from_secs(2);

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) out: String,
    pub(crate) err: String,
    /// Why it did not end as it should.
    pub(crate) failure: Option<String>,
    /// Whether it was killed because its time was over.
    pub(crate) hung: bool,
}

impl Ended {
    /// The failure with the last words of the program; one that hung had none to say about it.
    pub(crate) fn explain(&self) -> Option<String> {
        let why = self.failure.as_ref()?;
        if self.hung {
            return Some(why.clone());
        }
        let words = |text: &str| {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let said = |line: &&&str| line.chars().any(char::is_alphanumeric);
            lines.iter().rfind(said).map(|line| (*line).to_owned())
        };
        let last = words(&self.err).or_else(|| words(&self.out));
        Some(last.map_or_else(|| why.clone(), |last| format!("{why}: {last}")))
    }
}

/// A program that was started.
pub(crate) struct Running {
    child: Child,
    deadline: Deadline,
    limit: Duration,
    out: Stream,
    err: Stream,
}

/// Starts a program on some CPUs, with a time limit for it and everything that it starts.
pub(crate) fn start(
    mut command: Command,
    cpus: &[usize],
    limit: Duration,
) -> std::io::Result<Running> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = {
        let _starting = interrupted::may_start();
        confined(cpus, || command.spawn())?
    };
    let deadline = Deadline::with_grace(&child, limit, GRACE);
    Ok(Running {
        out: Stream::read(child.stdout.take()),
        err: Stream::read(child.stderr.take()),
        child,
        deadline,
        limit,
    })
}

/// Runs a program to its end; not being able to start it is a failure like others.
pub(crate) fn run(command: Command, cpus: &[usize], limit: Duration) -> Ended {
    match start(command, cpus, limit) {
        Ok(running) => running.wait(),
        Err(why) => Ended {
            out: String::new(),
            err: String::new(),
            failure: Some(format!("cannot be started: {why}")),
            hung: false,
        },
    }
}

impl Running {
    /// Waits for the end, which the time limit bounds.
    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait();
        let late = self.deadline.disarm();
        let failure = match status {
            _ if late => Some(format!("hung: ended after {} s", self.limit.as_secs_f64())),
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(why) => Some(why.to_string()),
        };
        Ended {
            out: self.out.end(),
            err: self.err.end(),
            failure,
            hung: late,
        }
    }

    /// Ends it now.
    pub(crate) fn kill(self) -> Ended {
        self.deadline.now();
        self.wait()
    }

    /// Whether it has ended already.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// Calls `spawn` while this thread may run on these CPUs only, which its children inherit.
fn confined<T>(cpus: &[usize], spawn: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)?;
    let result = spawn();
    sched_setaffinity(None, &before)?;
    result
}

/// What a program writes, read aside.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Stream {
    fn read(stream: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sink, (at_end, ended)) = (Arc::clone(&bytes), mpsc::channel());
        thread::spawn(move || {
            let mut part = [0; 4096];
            let mut stream = stream;
            while let Some(length) = stream.as_mut().and_then(|s| s.read(&mut part).ok()) {
                if length == 0 {
                    break;
                }
                let mut all = sink.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(&part[..length]);
            }
            // Nobody waits for it any more if this fails.
            let _ = at_end.send(());
        });
        Self { bytes, ended }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A descendant that survived may hold the pipe open for ever, so this does not wait for long.
    fn end(self) -> String {
        let _ = self.ended.recv_timeout(LATE_OUTPUT);
        self.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let set = sched_getaffinity(None).expect("an affinity");
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect();
        run(command, &cpus, limit)
    }

    #[test]
    fn what_was_printed_before_a_hang_is_kept() {
        let ended = shell("echo one; sleep 1000", Duration::from_millis(500));
        assert_eq!(ended.out, "one\n");
        let why = ended.explain().expect("a failure");
        assert!(why.contains("hung") && ended.hung, "{why}");
    }

    #[test]
    fn one_that_ignores_the_request_to_end_is_killed_with_what_it_started() {
        let script =
            "trap '' TERM; sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & wait; sleep 1000";
        let ended = shell(script, Duration::from_millis(500));
        assert!(ended.failure.is_some());
    }

    #[test]
    fn failures_come_with_the_last_words() {
        let ended = shell(
            "echo no such file >&2; echo '---' >&2; exit 3",
            Duration::from_secs(60),
        );
        let why = ended.explain().expect("a failure");
        assert!(why.contains('3') && why.ends_with("no such file"), "{why}");
        assert_eq!(shell("echo fine", Duration::from_secs(60)).explain(), None);
    }
}
