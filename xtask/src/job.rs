//! One program that is run from the root of the repository.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use crate::console;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::interrupted;
use crate::tally::Tally;

/// The root of the repository: of the one that cargo was called in, since several checkouts may share one target folder, and so this
/// program.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR");
        let mut root = here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        root.pop();
        root
    });
    &ROOT
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A command with a time limit, and the way in which it is shown.
pub(crate) struct Job {
    command: Command,
    shown: String,
    limit: Duration,
}

impl Job {
    pub(crate) fn new(program: impl AsRef<OsStr>, minutes: u64) -> Self {
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

    /// The cargo that runs this program: the toolchain that the user picked.
    pub(crate) fn cargo(words: &[&str], minutes: u64) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Self::new(cargo, minutes).args(words)
    }

    pub(crate) fn args(mut self, words: &[&str]) -> Self {
        for word in words {
            self.shown.push(' ');
            self.shown.push_str(word);
        }
        self.command.args(words);
        self
    }

    /// A path, in whatever encoding.
    pub(crate) fn arg(mut self, word: &Path) -> Self {
        self.shown.push(' ');
        self.shown.push_str(&word.to_string_lossy());
        self.command.arg(word);
        self
    }

    /// The command as a user would type it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.shown.insert_str(0, &format!("{name}='{value}' "));
        self.command.env(name, value);
        self
    }

    /// Runs it with this program's own streams.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        console::detail(&self.shown);
        let child = self.start()?;
        self.finish(child)
    }

    /// Runs it with its standard output on this program's standard error, which is for progress.
    pub(crate) fn run_aside(mut self) -> Result<(), Failure> {
        console::detail(&self.shown);
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::from(std::io::stderr()));
        let child = self.start()?;
        self.finish(child)
    }

    /// Runs it and returns its standard output; the rest goes where this program's goes.
    pub(crate) fn capture(mut self) -> Result<String, Failure> {
        console::detail(&self.shown);
        self.command.stdout(Stdio::piped());
        let mut child = self.start()?;
        let stream = child.stdout.take();
        // Read aside: a descendant that survives may hold the pipe open for ever.
        let text = thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                // What was read until then shows in the text whether it was all.
                let _ = stream.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        });
        self.finish(child)?;
        Ok(text.join().unwrap_or_default())
    }

    /// Its standard output if it succeeds; shows nothing of it.
    pub(crate) fn capture_quietly(mut self) -> Option<String> {
        let output = self.command.stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// Whether it succeeds; shows nothing of it.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(child) = self.start() else {
            return false;
        };
        self.finish(child).is_ok()
    }

    /// Runs it and gives each line of its two streams to `take`.
    pub(crate) fn run_lines(mut self, mut take: impl FnMut(&str)) -> Result<(), Failure> {
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
        // Ends when every holder of the pipes has ended, at the latest by the deadline.
        for line in lines {
            take(&line);
        }
        let status = child.wait();
        let late = deadline.disarm();
        self.judge(status, late)
    }

    /// Runs tests: shows their output as it comes, and counts results and skips.
    pub(crate) fn run_tests(mut self, tally: &mut Tally) -> Result<(), Failure> {
        let colour = if console::colour() { "always" } else { "never" };
        self.command.env("CARGO_TERM_COLOR", colour);
        self.run_lines(|line| {
            println!("{line}");
            tally.read(&console::plain(line));
        })
    }

    fn start(&mut self) -> Result<Child, Failure> {
        let _starting = interrupted::may_start();
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
        let status = status.map_err(|source| Failure::Start {
            command: command.clone(),
            source,
        })?;
        match (late, status.success()) {
            (true, _) => Err(Failure::TimeLimit {
                command,
                limit: self.limit,
            }),
            (false, false) => Err(Failure::Status { command, status }),
            (false, true) => Ok(()),
        }
    }
}

/// Sends the lines of a stream, whatever bytes they hold.
fn forward(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            if lines
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
}
