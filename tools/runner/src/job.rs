//! One program that runs in the root of the repository.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::folders::{root, target};
use crate::stream::Stream;
use crate::{Failure, Summary, console, interrupt};

/// A command with a time limit, and the way in which it is shown.
///
/// ```
/// # fn main() -> Result<(), limic_runner::Failure> {
/// let version = limic_runner::Job::new("cc", 1).arg("--version").capture()?;
/// assert!(!version.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Job {
    command: Command,
    shown: String,
    limit: Duration,
}

impl Job {
    /// A program without arguments, and how many minutes it may take.
    pub fn new(program: impl AsRef<OsStr>, minutes: u64) -> Self {
        let mut command = Command::new(program.as_ref());
        command.current_dir(root());
        let path = Path::new(program.as_ref());
        let shown = path.file_name().unwrap_or(program.as_ref());
        Self {
            shown: shown.to_string_lossy().into_owned(),
            command,
            limit: Duration::from_secs(60 * minutes),
        }
    }

    /// The cargo that runs this program, of the toolchain that the user picked. It builds into
    /// [`target`], where the results are looked for, whatever its configuration says.
    pub fn cargo(words: &[&str], minutes: u64) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut job = Self::new(cargo, minutes).args(words);
        job.command.env("CARGO_TARGET_DIR", target());
        job
    }

    /// A program of this workspace, built first if it has to be.
    pub fn tool(package: &str, minutes: u64) -> Self {
        Self::cargo(&["run", "--quiet", "--package", package, "--"], minutes)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        let word = word.as_ref();
        self.shown.push(' ');
        self.shown.push_str(&word.to_string_lossy());
        self.command.arg(word);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        words.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref();
        let shown = format!("{name}='{}' ", value.to_string_lossy());
        self.shown.insert_str(0, &shown);
        self.command.env(name, value);
        self
    }

    /// Runs it in this folder, in place of the root of the repository.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The command as a user would type it.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Runs it with this program's own streams.
    ///
    /// # Errors
    /// If it does not start, ends with a bad status, or takes too long. The other ways to run a
    /// job fail alike.
    pub fn run(mut self) -> Result<(), Failure> {
        console::detail(&self.shown);
        let child = self.start()?;
        self.finish(child)
    }

    /// Runs it with its standard output on this program's standard error, which shows progress.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_aside(mut self) -> Result<(), Failure> {
        let out = Stdio::from(std::io::stderr());
        self.command.stdin(Stdio::null()).stdout(out);
        self.run()
    }

    /// Runs it and returns its standard output; its standard error goes where this program's goes.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn capture(self) -> Result<String, Failure> {
        console::detail(&self.shown);
        self.output()
    }

    /// Its standard output if it succeeds. Nothing of it is shown.
    #[must_use]
    pub fn capture_quietly(mut self) -> Option<String> {
        self.command.stdin(Stdio::null()).stderr(Stdio::null());
        self.output().ok()
    }

    /// Whether it succeeds. Nothing of it is shown.
    #[must_use]
    pub fn succeeds(self) -> bool {
        self.capture_quietly().is_some()
    }

    /// Runs it and gives each line of its two streams to `take`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_lines(mut self, mut take: impl FnMut(&str)) -> Result<(), Failure> {
        console::detail(&self.shown);
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self.start()?;
        let (send, lines) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            forward(out, send.clone());
        }
        if let Some(err) = child.stderr.take() {
            forward(err, send);
        }
        let deadline = Deadline::of(&child, self.limit);
        // This ends when all processes that hold the pipes have ended, at the latest soon after
        // the deadline.
        for line in lines {
            take(&line);
        }
        let status = child.wait();
        let late = deadline.disarm();
        self.judge(status, late)
    }

    /// Runs tests: shows their output as it comes, and counts results and skips.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_tests(mut self, summary: &mut Summary) -> Result<(), Failure> {
        // Printing takes the colours out where they are not wanted.
        self.command.env("CARGO_TERM_COLOR", "always");
        self.run_lines(|line| show(line, summary))
    }

    /// Runs the tests of several jobs at once. The output of each is shown when it has ended.
    ///
    /// # Errors
    /// As [`Self::run`], of the first of those that failed.
    pub fn run_tests_at_once(
        jobs: impl IntoIterator<Item = Self>,
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        let summary = Mutex::new(summary);
        let run = |job: Self| {
            let mut lines = Vec::new();
            let shown = job.shown().to_owned();
            let job = job.env("CARGO_TERM_COLOR", "always");
            let ended = job.run_lines(|line| lines.push(line.to_owned()));
            let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
            console::detail(&shown);
            lines.iter().for_each(|line| show(line, &mut summary));
            if let Err(why) = &ended {
                console::error(why);
            }
            ended
        };
        thread::scope(|scope| {
            let jobs = jobs.into_iter();
            let running: Vec<_> = jobs.map(|job| scope.spawn(move || run(job))).collect();
            let ended = running.into_iter().map(|one| match one.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.fold(Ok(()), Result::and)
        })
    }

    fn output(mut self) -> Result<String, Failure> {
        self.command.stdout(Stdio::piped());
        let mut child = self.start()?;
        let out = Stream::read(child.stdout.take());
        self.finish(child)?;
        Ok(out.end())
    }

    fn start(&mut self) -> Result<Child, Failure> {
        let _starting = interrupt::may_start();
        self.command.spawn().map_err(|source| Failure::Start {
            command: self.shown.clone(),
            source,
        })
    }

    fn finish(self, mut child: Child) -> Result<(), Failure> {
        let deadline = Deadline::of(&child, self.limit);
        let status = child.wait();
        let late = deadline.disarm();
        self.judge(status, late)
    }

    fn judge(self, status: std::io::Result<ExitStatus>, late: bool) -> Result<(), Failure> {
        let command = self.shown;
        match status {
            _ if late => Err(Failure::TimeLimit {
                command,
                limit: self.limit,
            }),
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Status { command, status }),
            Err(source) => Err(Failure::Start { command, source }),
        }
    }
}

/// Shows a line of a test program, and counts what it says.
fn show(line: &str, summary: &mut Summary) {
    anstream::println!("{line}");
    summary.read(&anstream::adapter::strip_str(line).to_string());
}

/// Sends the lines of a stream, which need not be UTF-8.
fn forward(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_shown_as_it_would_be_typed() {
        let job = Job::new("/usr/bin/cc", 1).args(["-c", "a.c"]);
        let job = job.arg(Path::new("b.c")).env("LANG", "C");
        assert_eq!(job.shown(), "LANG='C' cc -c a.c b.c");
    }

    #[test]
    fn cargo_builds_into_the_folder_where_results_are_looked_for() {
        let job = Job::cargo(&["build"], 1);
        let mut set = job.command.get_envs();
        let folder = set.find_map(|(name, value)| (name == "CARGO_TARGET_DIR").then_some(value?));
        assert_eq!(folder, Some(target().as_os_str()));
    }

    #[test]
    fn colours_of_tests_are_not_counted() {
        let mut summary = Summary::default();
        let line = "printf 'test result: \\033[32mok\\033[m. 3 passed; 0 failed; 0 ignored; '";
        let job = Job::new("sh", 1).args(["-c", line]);
        job.run_tests(&mut summary).expect("a shell");
        assert_eq!(summary.sums(0), "3 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn jobs_at_once_are_all_counted_and_one_that_fails_is_told() {
        let mut summary = Summary::default();
        let line = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; '; exit ";
        let job = |status: &str| Job::new("sh", 1).args(["-c", &[line, status].concat()]);
        let ended = Job::run_tests_at_once([job("0"), job("7"), job("0")], &mut summary);
        assert!(ended.is_err_and(|why| why.to_string().contains("exit 7")));
        assert_eq!(summary.sums(0), "9 passed, 0 failed, 0 skipped");
    }
}
