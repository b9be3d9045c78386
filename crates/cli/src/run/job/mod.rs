//! One job from its first rank to its last process, in one thread: every event is a descriptor or a
//! deadline of one `poll`.
//!
//! A job of several hosts is one such thread on each: the launcher's has no ranks of its own but a
//! [`remote::Remote`] for each host, and a host's has a [`launcher::Launcher`] in place of a PMI
//! server.

mod begin;
mod end;
mod events;
mod launcher;
mod login;
mod remote;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal as NixSignal;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, wait};

use super::connection::Connection;
use super::outcome::Ending;
use super::output::{Output, Sink};
use super::pmi_server::PmiServer;
use super::processes::Ender;
use super::{RunError, notice, system};

pub(super) use begin::{run, run_host};
pub(super) use login::SSH;

/// The signals that are passed on, and SIGCHLD.
const SIGNALS: [(NixSignal, Option<Signal>); 9] = [
    (NixSignal::SIGCHLD, None),
    (NixSignal::SIGINT, Some(Signal::INT)),
    (NixSignal::SIGTERM, Some(Signal::TERM)),
    (NixSignal::SIGHUP, Some(Signal::HUP)),
    (NixSignal::SIGQUIT, Some(Signal::QUIT)),
    (NixSignal::SIGUSR1, Some(Signal::USR1)),
    (NixSignal::SIGUSR2, Some(Signal::USR2)),
    (NixSignal::SIGTSTP, Some(Signal::TSTP)),
    (NixSignal::SIGCONT, Some(Signal::CONT)),
];

#[derive(Debug)]
struct Rank {
    running: bool,
    /// None of a rank on another host.
    process: Option<Process>,
}

/// A rank's process on this machine.
#[derive(Debug)]
struct Process {
    pid: Pid,
    own_group: bool,
    connection: Option<Connection>,
    outputs: [Option<Output>; 2],
}

/// What answers the ranks over PMI.
#[derive(Debug)]
enum Control {
    Server(PmiServer),
    /// On a host of several: the launcher does, and decides what becomes of the job.
    Launcher(launcher::Launcher),
}

/// What the command line says about the end of a job.
#[derive(Debug, Clone, Copy)]
struct Limits {
    timeout: Option<Duration>,
    grace: Duration,
    keep_going: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Ranks do their work.
    Running,
    /// All were asked to end, and have until then.
    Ending(Instant),
    /// Other hosts kill their ranks, and have until then to say that it is done.
    Leaving(Instant),
    /// No process is left on any host, as far as they could still say so. Until then, something of
    /// what they printed has to come, or to be written: a reader that rests ends nothing.
    Finishing(Instant),
    /// All are killed.
    Killing,
    /// No process is left; what they printed is still being written.
    Over,
}

/// What a descriptor of the poll belongs to.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signals,
    Pmi(usize),
    Output(usize, usize),
    Sink(usize),
    /// A host of several.
    Remote(usize),
    /// The launcher's standard input.
    Input,
    /// What a host of several has for rank 0 to read.
    Feed,
    Launcher,
}

#[derive(Debug)]
struct Job {
    limits: Limits,
    /// The number of the first of the ranks.
    first: u32,
    ranks: Vec<Rank>,
    control: Control,
    remotes: Vec<remote::Remote>,
    input: remote::Input,
    signals: SignalFd,
    sinks: [Sink; 2],
    ender: Ender,
    phase: Phase,
    /// When `--timeout` ends the job.
    end_at: Option<Instant>,
    /// When the first SIGINT came.
    interrupted: Option<Instant>,
    /// The job's exit code, once something failed.
    failure: Option<u8>,
    /// That is the exit code of a rank, whose exit has ended the job. It may only have noticed that
    /// another rank crashed.
    ended_by_exit: bool,
}

fn nix_error(step: &'static str) -> impl Fn(nix::errno::Errno) -> RunError {
    move |errno| RunError::System {
        step,
        source: errno.into(),
    }
}

impl Job {
    /// The end of a rank's PMI connection on this machine.
    fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.ranks
            .get_mut(index)?
            .process
            .as_mut()?
            .connection
            .as_mut()
    }

    /// Handles events until no process is left and all output is written.
    fn serve(&mut self) -> Result<(), RunError> {
        loop {
            self.reap()?;
            self.keep_time();
            self.exchange();
            if self.phase == Phase::Over && !self.anything_unsaid() {
                return Ok(());
            }
            for source in self.wait()? {
                match source {
                    Source::Signals => self.take_signals()?,
                    Source::Pmi(rank) => self.serve_pmi(rank),
                    Source::Output(rank, stream) => self.read_output(rank, stream),
                    // Also when the reader of our output went away: the write tells.
                    Source::Sink(stream) => self.write_output(stream),
                    Source::Remote(number) => self.serve_remote(number),
                    Source::Input => self.read_input(),
                    Source::Feed => self.feed(),
                    Source::Launcher => self.serve_launcher(),
                }
            }
        }
    }

    /// Hands on what has come for other processes of the job: with several hosts.
    fn exchange(&mut self) {
        self.return_room();
        self.relay_output();
    }

    /// Whether something is still to be written, or to be sent to the launcher.
    fn anything_unsaid(&self) -> bool {
        let sinks = self.sinks.iter().any(Sink::pending);
        sinks || matches!(&self.control, Control::Launcher(launcher) if launcher.pending())
    }

    /// Waits for events, at most until the next deadline.
    fn wait(&self) -> Result<Vec<Source>, RunError> {
        let mut sources = vec![Source::Signals];
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let mut add = |source, fd, flags: PollFlags| {
            if !flags.is_empty() {
                sources.push(source);
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        };
        let processes = self.ranks.iter().enumerate();
        for (index, process) in processes.filter_map(|(i, rank)| Some((i, rank.process.as_ref()?)))
        {
            if let Some(connection) = process.connection.as_ref().filter(|_| self.takes_lines()) {
                add(
                    Source::Pmi(index),
                    connection.as_fd(),
                    connection.interest(),
                );
            }
            for (stream, output) in process.outputs.iter().enumerate() {
                if let Some(output) = output.as_ref().filter(|_| self.sinks[stream].has_room()) {
                    add(Source::Output(index, stream), output.as_fd(), PollFlags::IN);
                }
            }
        }
        for (stream, sink) in self.sinks.iter().enumerate() {
            if let Some(fd) = sink.wanted() {
                add(Source::Sink(stream), fd, PollFlags::OUT);
            }
        }
        for (number, remote) in self.remotes.iter().enumerate() {
            for (fd, flags) in remote.interests() {
                add(Source::Remote(number), fd, flags);
            }
        }
        let stdin = std::io::stdin();
        if self.input == remote::Input::Wanted {
            add(Source::Input, stdin.as_fd(), PollFlags::IN);
        }
        if let Control::Launcher(launcher) = &self.control {
            for (fd, flags) in launcher.interests() {
                add(Source::Launcher, fd, flags);
            }
            if let Some(fd) = launcher.feeding() {
                add(Source::Feed, fd, PollFlags::OUT);
            }
        }
        let timeout = self.next_deadline().and_then(|at| {
            let left = at.saturating_duration_since(Instant::now());
            // Up to the next millisecond: a wait that ends early would only be made again.
            Timespec::try_from(left + Duration::from_millis(1)).ok()
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("waiting for events")(errno)),
        }
        let events = sources.into_iter().zip(&fds);
        let ready = events.filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// Takes note of every child that ended; ends what ranks left behind.
    fn reap(&mut self) -> Result<(), RunError> {
        let mut any = false;
        let none_left = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    any = true;
                    self.ender.forget(pid);
                    if let Some(ending) = Ending::of(status) {
                        self.rank_ended(pid, ending);
                        self.login_ended(pid, ending);
                    }
                }
                Ok(None) => break any && !self.any_running() && !self.ender.any_left(),
                Err(Errno::CHILD) => break true,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(system("waiting for ranks")(errno)),
            }
        };
        if none_left {
            self.close();
        } else if self.phase == Phase::Running && !self.any_running() {
            self.end();
        } else if any {
            // Orphans of the child that ended have become children.
            match self.phase {
                Phase::Ending(_) if self.remotes.is_empty() => self.ender.ask(),
                Phase::Killing => self.kill(),
                _ => {}
            }
        }
        Ok(())
    }

    fn any_running(&self) -> bool {
        self.ranks.iter().any(|rank| rank.running)
    }

    fn rank_ended(&mut self, pid: Pid, ending: Ending) {
        let is_it = |rank: &Rank| {
            let process = rank.process.as_ref();
            rank.running && process.is_some_and(|process| process.pid == pid)
        };
        let Some(index) = self.ranks.iter().position(is_it) else {
            return;
        };
        // What it sent last may be an abort, which says more than its exit code. Its children may
        // hold the socket, too, and are not listened to.
        if let Some(connection) = self.connection(index) {
            connection.shut();
        }
        while self.connection(index).is_some() {
            self.serve_pmi(index);
        }
        let number = pid.as_raw_nonzero().get();
        if let Control::Launcher(launcher) = &mut self.control {
            launcher.rank_ended(self.first + index as u32, number, ending);
        }
        self.count_end(index, ending, format_args!("pid {number}"));
    }

    /// Whether a rank was killed, while the job ends, by no signal that the launcher sends: those
    /// that are passed on, SIGTERM, and SIGKILL once the time of grace is over. Nor is it the
    /// SIGPIPE of one that writes to another which has ended.
    fn is_crash(&self, ending: Ending) -> bool {
        let Ending::Killed(signal) = ending else {
            return false;
        };
        let has_time = matches!(self.phase, Phase::Ending(at) if Instant::now() < at);
        let is_sent = match signal {
            libc::SIGKILL => !has_time,
            _ => SIGNALS.iter().any(|(other, _)| *other as i32 == signal),
        };
        !is_sent && signal != libc::SIGPIPE
    }

    /// A rank ended, here or on another host: its failure is the job's.
    fn count_end(&mut self, index: usize, ending: Ending, place: std::fmt::Arguments<'_>) {
        let has_run = std::mem::replace(&mut self.ranks[index].running, false);
        let is_decided = matches!(self.control, Control::Launcher(_));
        if ending.code() == 0 || is_decided {
            return;
        }
        let next = match self.phase {
            Phase::Running if self.limits.keep_going => "going on",
            Phase::Running => "ending the job",
            // Others have noticed it, and were here first.
            _ if has_run && self.ended_by_exit && self.is_crash(ending) => {
                self.failure = None;
                "the job was ending already"
            }
            _ => return,
        };
        if self.failure.is_none() {
            self.ended_by_exit = !self.limits.keep_going && matches!(ending, Ending::Exited(_));
        }
        self.fail(ending.code());
        if !self.limits.keep_going {
            self.end();
        }
        notice(format_args!("rank {index} ({place}) {ending}; {next}"));
    }
}
