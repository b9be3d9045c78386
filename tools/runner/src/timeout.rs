//! A program that may hang, fail or print too little. What it printed is kept in each case.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::stream::Stream;
use crate::{cpus, interrupt};

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// Why it did not end as it should.
    pub failure: Option<String>,
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Whether it was killed because its time was over.
    pub hung: bool,
}

impl Ended {
    /// A program that could not be started.
    #[must_use]
    pub fn not_started(why: &std::io::Error) -> Self {
        Self {
            out: String::new(),
            err: String::new(),
            failure: Some(format!("cannot be started: {why}")),
            code: None,
            hung: false,
        }
    }

    /// The failure with the last words of the program, if it did not hang.
    pub fn explain(&self) -> Option<String> {
        let why = self.failure.as_ref()?;
        if self.hung {
            return Some(why.clone());
        }
        let last_words = |text: &str| {
            let mut lines = text.lines().map(str::trim);
            let line = lines.rfind(|line| line.chars().any(char::is_alphanumeric));
            line.map(str::to_owned)
        };
        let last = last_words(&self.err).or_else(|| last_words(&self.out));
        Some(last.map_or_else(|| why.clone(), |last| format!("{why}: {last}")))
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    deadline: Deadline,
    limit: Duration,
    out: Stream,
    err: Stream,
}

/// Starts a program on some CPUs, with a time limit for it and everything that it starts.
///
/// # Errors
/// If it does not start.
pub fn start(mut command: Command, cpus: &[usize], limit: Duration) -> std::io::Result<Running> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = {
        let _starting = interrupt::may_start();
        cpus::confined(cpus, || command.spawn())?
    };
    Ok(Running {
        deadline: Deadline::of(&child, limit),
        out: Stream::read(child.stdout.take()),
        err: Stream::read(child.stderr.take()),
        child,
        limit,
    })
}

/// Runs a program to its end. A program that does not start is a failure like any other.
///
/// ```
/// use std::process::Command;
/// use std::time::Duration;
///
/// let cpus = limic_runner::cpus::allowed().expect("the CPUs of this process");
/// let mut command = Command::new("sh");
/// command.args(["-c", "echo no such file >&2; exit 3"]);
/// let ended = limic_runner::timeout::run(command, &cpus, Duration::from_secs(60));
/// assert_eq!(ended.explain().as_deref(), Some("exit status: 3: no such file"));
/// ```
pub fn run(command: Command, cpus: &[usize], limit: Duration) -> Ended {
    match start(command, cpus, limit) {
        Ok(running) => running.wait(),
        Err(why) => Ended::not_started(&why),
    }
}

impl Running {
    /// Waits for the end, at most until the time limit.
    pub fn wait(mut self) -> Ended {
        let status = self.child.wait();
        let hung = self.deadline.disarm();
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let failure = match status {
            _ if hung => Some(format!("hung: ended after {} s", self.limit.as_secs_f64())),
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(why) => Some(why.to_string()),
        };
        Ended {
            out: self.out.end(),
            err: self.err.end(),
            failure,
            code,
            hung,
        }
    }

    /// Ends the program now.
    pub fn kill(self) -> Ended {
        self.deadline.now();
        self.wait()
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the program has ended.
    pub fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, &cpus::allowed().expect("an affinity"), limit)
    }

    #[test]
    fn output_before_a_hang_is_kept() {
        let ended = shell("echo one; sleep 1000", Duration::from_millis(500));
        assert_eq!(ended.out, "one\n");
        let why = ended.explain().expect("a failure");
        assert!(why.contains("hung") && ended.hung, "{why}");
    }

    #[test]
    fn a_program_that_ignores_the_request_to_end_is_killed_with_its_children() {
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
        assert_eq!(ended.code, Some(3));
        assert_eq!(shell("echo fine", Duration::from_secs(60)).explain(), None);
    }
}
