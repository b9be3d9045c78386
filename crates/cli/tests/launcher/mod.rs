//! The built `limic` with real processes under it, and a watchdog over every wait.
#![allow(
    dead_code,
    reason = "each test binary uses the part of these that it needs"
)]

pub(crate) mod login;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid,
};

/// Far beyond what any of these tests needs; it turns a hang into a failure.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// A program that starts with no signal ignored: of a program in the background, a shell ignores
/// interrupts.
pub(crate) fn undisturbed(program: &str) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(program);
    command
}

/// `limic run` with these words after it.
pub(crate) fn run(words: &[&str]) -> Command {
    let mut command = undisturbed(env!("CARGO_BIN_EXE_limic"));
    command.arg("run").args(words);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `limic run` of a shell script.
pub(crate) fn run_script(words: &[&str], script: &str) -> Command {
    let mut command = run(words);
    command.args(["/bin/sh", "-c", script]);
    command
}

/// The same command of [`run`], whose launcher starts with this signal ignored.
pub(crate) fn ignoring(name: &str, command: &Command) -> Command {
    let mut same = Command::new(command.get_program());
    let mut words = command.get_args();
    // The first is `env`'s own, too.
    same.args(words.next());
    same.arg(format!("--ignore-signal={name}")).args(words);
    same.stdin(Stdio::null());
    same.stdout(Stdio::piped()).stderr(Stdio::piped());
    same
}

/// Waits for the end, bounded, and collects what was printed.
pub(crate) fn finish(mut command: Command) -> Output {
    collect(command.spawn().unwrap())
}

/// [`finish`] for a program that works for a minute by itself.
#[allow(
    dead_code,
    reason = "not every program that has this module runs so long"
)]
pub(crate) fn finish_slow(mut command: Command) -> Output {
    collect_within(command.spawn().unwrap(), 6 * WATCHDOG)
}

/// Waits for the end of a launcher, bounded, and collects what was printed and not read yet.
pub(crate) fn collect(child: Child) -> Output {
    collect_within(child, WATCHDOG)
}

fn collect_within(child: Child, limit: Duration) -> Output {
    let pid = pid(&child);
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    let Ok(output) = receive.recv_timeout(limit) else {
        kill_process(pid, Signal::KILL).unwrap();
        panic!("limic run did not end");
    };
    output.unwrap()
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(pid(child), signal).unwrap();
}

/// Waits, bounded, until a launcher has stopped.
pub(crate) fn wait_for_stop(child: &Child) {
    let pid = pid(child);
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let status = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
        send.send(status.is_some_and(|status| status.stopped()))
    });
    assert_eq!(receive.recv_timeout(WATCHDOG), Ok(true), "no stop in time");
}

/// The lines of a launcher's standard output, each waited for, bounded.
pub(crate) struct Lines(mpsc::Receiver<String>);

impl Lines {
    pub(crate) fn of(child: &mut Child) -> Self {
        Self::from(child.stdout.take().unwrap())
    }

    pub(crate) fn from(source: impl Read + Send + 'static) -> Self {
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(source).lines() {
                if send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self(receive)
    }

    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(WATCHDOG).expect("a line in time")
    }

    /// Those that are left, up to the end.
    pub(crate) fn rest(self) -> Vec<String> {
        let begin = Instant::now();
        let mut lines = Vec::new();
        loop {
            let left = WATCHDOG.saturating_sub(begin.elapsed());
            match self.0.recv_timeout(left) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => return lines,
                Err(RecvTimeoutError::Timeout) => panic!("no end of these in time: {lines:?}"),
            }
        }
    }
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of the standard output in order of the alphabet: ranks print in any order.
pub(crate) fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = out(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Numbers in a text.
pub(crate) fn numbers(text: &str) -> Vec<i32> {
    let words = text.split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Whether the process table has this number.
pub(crate) fn in_process_table(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Something that reports the end of a process, whoever its parent is.
pub(crate) struct Watch {
    /// None if it had ended already, and somebody had waited for it.
    process: Option<OwnedFd>,
}

impl Watch {
    pub(crate) fn on(pid: i32) -> Self {
        let process = match pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
            Err(Errno::SRCH) => None,
            opened => Some(opened.unwrap()),
        };
        Self { process }
    }

    pub(crate) fn wait_for_end(&self) {
        assert!(self.ends_within(WATCHDOG), "the process did not end");
    }

    pub(crate) fn ends_within(&self, time: Duration) -> bool {
        let Some(process) = &self.process else {
            return true;
        };
        let timeout = Timespec::try_from(time).unwrap();
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).unwrap() == 1
    }
}

/// A named pipe in a folder of its own, removed at the end: ranks tell each other where they are.
pub(crate) struct Fifo {
    path: PathBuf,
    /// Keeps what a rank wrote, also when no rank has the pipe open.
    open: File,
}

impl Fifo {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("limic-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let fifo = folder.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let open = File::options().read(true).write(true).open(&fifo).unwrap();
        Self { path: fifo, open }
    }

    /// The first line that a rank writes here, bounded.
    pub(crate) fn line(&self) -> String {
        let lines = Lines::from(self.open.try_clone().unwrap());
        lines.next()
    }

    /// Writes for a rank to read.
    pub(crate) fn write(&self, text: &str) {
        (&self.open).write_all(text.as_bytes()).unwrap();
    }

    /// For `--env`.
    pub(crate) fn variable(&self) -> String {
        format!("--env=FIFO={}", self.path.display())
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(self.path.parent().unwrap());
    }
}

/// A job whose rank runs `fill` ends at its time limit, though nobody reads what it and the
/// launcher print, as long as the reader is not dropped.
pub(crate) fn ends_in_time(
    test: &str,
    words: &[&str],
    fill: &str,
    (reader, writer): (impl Sized, OwnedFd),
) {
    let fifo = Fifo::new(test);
    let variable = fifo.variable();
    let words = [&["-n1", "--timeout=2", &variable], words].concat();
    let mut command = run_script(&words, &format!("echo $$ >$FIFO; {fill}"));
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let child = command.spawn().unwrap();
    drop(command);
    Watch::on(fifo.line().parse().unwrap()).wait_for_end();
    drop(reader);
    assert_eq!(collect(child).status.code(), Some(124));
}
