//! One job from its first rank to its last process, in one thread: every event is a descriptor or a
//! deadline of one `poll`.

mod events;

use std::io::IsTerminal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, wait};

use super::connection::Connection;
use super::guard::{self, Guard};
use super::outcome::Ending;
use super::output::{Labelled, Sink};
use super::pmi_server::PmiServer;
use super::processes::{Ender, in_foreground, proc_is_ours};
use super::spawn::{Plan, Started, reserve_files};
use super::{Args, RunError, binding, notice, system};

/// The exit code after `--timeout`, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

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
    pid: Pid,
    own_group: bool,
    running: bool,
    connection: Option<Connection>,
    outputs: [Option<Labelled>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Ranks do their work.
    Running,
    /// All were asked to end, and have until then.
    Ending(Instant),
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
}

#[derive(Debug)]
struct Job<'a> {
    args: &'a Args,
    ranks: Vec<Rank>,
    server: PmiServer,
    signals: SignalFd,
    sinks: [Sink; 2],
    ender: Ender,
    phase: Phase,
    /// When `--timeout` ends the job.
    end_at: Option<Instant>,
    interrupted: bool,
    /// The job's exit code, once something failed.
    failure: Option<u8>,
}

/// Runs the job that the command line describes; returns its exit code.
pub(super) fn run(args: &Args) -> Result<u8, RunError> {
    let cpus =
        binding::plan(args.bind, args.ranks).map_err(|source| RunError::Binding { source })?;
    // Signals are blocked before the first rank starts, so that none is lost; ranks get the former
    // mask.
    let mask: SigSet = SIGNALS.iter().map(|(signal, _)| *signal).collect();
    let former = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let number = getpid().as_raw_nonzero();
    let name = format!("{}{number}_{:x}", guard::PREFIX, now.as_nanos());
    let plan = Plan {
        args,
        name: name.clone(),
        mask: former.map_err(nix_error("blocking signals"))?,
        files: reserve_files(args)?,
        terminal: std::io::stdin().is_terminal() && in_foreground(),
    };
    nix::sys::prctl::set_child_subreaper(true).map_err(nix_error("becoming a child subreaper"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&mask, flags).map_err(nix_error("making a signalfd"))?;

    let failed = |step| move |source| RunError::System { step, source };
    let guard = match proc_is_ours() {
        true => Some(Guard::start(&plan.name).map_err(failed("starting the job's guard"))?),
        false => {
            notice(format_args!(
                "/proc is not there, or is of another PID namespace: what ranks start may outlive \
                 the job; mount a proc file system of this namespace"
            ));
            None
        }
    };
    let sink_error = failed("duplicating the standard streams");
    let mut job = Job {
        args,
        ranks: Vec::new(),
        server: PmiServer::new(name, args.ranks),
        signals,
        sinks: [
            Sink::new(std::io::stdout()).map_err(&sink_error)?,
            Sink::new(std::io::stderr()).map_err(&sink_error)?,
        ],
        ender: Ender::new(guard.as_ref().map(Guard::pid)),
        phase: Phase::Running,
        end_at: args
            .timeout
            .and_then(|limit| Instant::now().checked_add(limit)),
        interrupted: false,
        failure: None,
    };
    let mut result = Ok(());
    for (rank, cpu) in (0..).zip(cpus) {
        match plan.start(rank, cpu) {
            Ok(started) => job.add(started),
            Err(error) => {
                // Those that run already have nobody to work with.
                job.kill();
                result = Err(error);
                break;
            }
        }
    }
    job.serve()?;
    result.map(|()| job.failure.unwrap_or(0))
}

fn nix_error(step: &'static str) -> impl Fn(nix::errno::Errno) -> RunError {
    move |errno| RunError::System {
        step,
        source: errno.into(),
    }
}

impl Job<'_> {
    fn add(&mut self, started: Started) {
        self.ender.add(started.pid, started.own_group);
        let [out, err] = match started.outputs {
            Some([out, err]) => [Some(out), Some(err)],
            None => [None, None],
        };
        self.ranks.push(Rank {
            pid: started.pid,
            own_group: started.own_group,
            running: true,
            connection: Some(started.connection),
            outputs: [out, err],
        });
    }

    /// Handles events until no process is left and all output is written.
    fn serve(&mut self) -> Result<(), RunError> {
        loop {
            self.reap()?;
            self.keep_time();
            if self.phase == Phase::Over && !self.sinks.iter().any(Sink::pending) {
                return Ok(());
            }
            for source in self.wait()? {
                match source {
                    Source::Signals => self.take_signals()?,
                    Source::Pmi(rank) => self.serve_pmi(rank),
                    Source::Output(rank, stream) => self.read_output(rank, stream),
                    // Also when the reader of our output went away: the write tells.
                    Source::Sink(stream) => self.sinks[stream].write(),
                }
            }
        }
    }

    /// Waits for events, at most until the next deadline.
    fn wait(&self) -> Result<Vec<Source>, RunError> {
        let mut sources = vec![Source::Signals];
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        for (index, rank) in self.ranks.iter().enumerate() {
            if let Some(connection) = &rank.connection {
                sources.push(Source::Pmi(index));
                fds.push(PollFd::new(connection, connection.interest()));
            }
            for (stream, output) in rank.outputs.iter().enumerate() {
                if let Some(output) = output.as_ref().filter(|_| self.sinks[stream].has_room()) {
                    sources.push(Source::Output(index, stream));
                    fds.push(PollFd::new(output, PollFlags::IN));
                }
            }
        }
        for (stream, sink) in self.sinks.iter().enumerate() {
            if sink.pending() {
                sources.push(Source::Sink(stream));
                fds.push(PollFd::new(sink, PollFlags::OUT));
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

    fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => self.end_at,
            Phase::Ending(kill_at) => Some(kill_at),
            Phase::Killing | Phase::Over => None,
        }
    }

    fn keep_time(&mut self) {
        let due = self.next_deadline().is_some_and(|at| at <= Instant::now());
        match self.phase {
            Phase::Running if due => {
                let seconds = self.args.timeout.unwrap_or_default().as_secs_f64();
                notice(format_args!(
                    "the job did not end within {seconds} s; ending it"
                ));
                self.fail(TIMED_OUT);
                self.end();
            }
            Phase::Ending(_) if due => self.kill(),
            _ => {}
        }
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
                    }
                }
                Ok(None) => break any && !self.any_running() && !self.ender.any_left(),
                Err(Errno::CHILD) => break true,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(system("waiting for ranks")(errno)),
            }
        };
        if none_left {
            self.close_outputs();
            self.phase = Phase::Over;
        } else if self.phase == Phase::Running && !self.any_running() {
            self.end();
        } else if any {
            // Orphans of the child that ended have become children.
            match self.phase {
                Phase::Ending(_) => self.ender.ask(),
                Phase::Killing => self.kill(),
                Phase::Running | Phase::Over => {}
            }
        }
        Ok(())
    }

    fn any_running(&self) -> bool {
        self.ranks.iter().any(|rank| rank.running)
    }

    fn rank_ended(&mut self, pid: Pid, ending: Ending) {
        let running = self
            .ranks
            .iter()
            .position(|rank| rank.running && rank.pid == pid);
        let Some(index) = running else { return };
        // What it sent last may be an abort, which says more than its exit code. Its children may
        // hold the socket, too, and are not listened to.
        if let Some(connection) = &self.ranks[index].connection {
            connection.shut();
        }
        while self.ranks[index].connection.is_some() {
            self.serve_pmi(index);
        }
        self.ranks[index].running = false;
        if ending.code() == 0 || self.phase != Phase::Running {
            return;
        }
        let next = if self.args.keep_going {
            "going on"
        } else {
            "ending the job"
        };
        let number = pid.as_raw_nonzero();
        notice(format_args!("rank {index} (pid {number}) {ending}; {next}"));
        self.fail(ending.code());
        if !self.args.keep_going {
            self.end();
        }
    }

    /// The first failure makes the exit code.
    fn fail(&mut self, code: u8) {
        self.failure.get_or_insert(code);
    }

    fn end(&mut self) {
        if self.phase == Phase::Running {
            let now = Instant::now();
            self.phase = Phase::Ending(now.checked_add(self.args.grace).unwrap_or(now));
            self.ender.ask();
        }
    }

    fn kill(&mut self) {
        self.phase = Phase::Killing;
        if !self.ender.kill() {
            // Children are left that may not be signalled. They are the next init's to wait for.
            self.close_outputs();
            self.phase = Phase::Over;
        }
    }
}
