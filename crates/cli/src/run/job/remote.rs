//! The launcher of a job of several hosts: it logs in to each, answers PMI for all ranks, writes
//! what they print, and decides when the job ends.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process_group};

use super::super::hosts::{self, Part};
use super::super::outcome::Ending;
use super::super::pmi_server::PmiServer;
use super::super::spawn::{Holders, reserve_files};
use super::super::wire::{GREETING, Order, Report, Start, Wire};
use super::super::{Args, RunError, notice};
use super::begin::{failed, take_signals};
use super::{Control, Job, Phase, Rank, login};

/// How long a host may take until limic answers there.
const TO_GREET: Duration = Duration::from_secs(60);

/// How long hosts may take to kill their ranks and say so.
const TO_KILL: Duration = Duration::from_secs(10);

/// The code of a launcher that failed itself.
pub(super) const LAUNCHER_FAILED: u8 = 125;

/// One host: the program that has logged in there, and the way to limic behind it.
#[derive(Debug)]
pub(super) struct Remote {
    part: Part,
    /// Its first order.
    start: Option<Box<Start>>,
    /// The program that has logged in, and leads a process group.
    login: Pid,
    /// None once it has ended.
    wire: Option<Wire>,
    /// Until then it has to greet.
    greet_by: Option<Instant>,
    /// No process of the job is left there.
    is_over: bool,
    /// Nothing that its ranks printed is still to come.
    pub(super) has_ended: bool,
    /// Bytes of the two streams that were added to the sinks, and not reported as written.
    added: [usize; 2],
    /// It knows that nobody reads the stream.
    is_unread: [bool; 2],
}

impl Remote {
    fn new(part: Part, start: Start, login: Pid, wire: Wire) -> Self {
        Self {
            part,
            start: Some(Box::new(start)),
            login,
            wire: Some(wire),
            greet_by: Instant::now().checked_add(TO_GREET),
            is_over: false,
            has_ended: false,
            added: [0; 2],
            is_unread: [false; 2],
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.part.host
    }

    /// Says it to a host that has begun. What it hears first is what to start.
    pub(super) fn tell(&mut self, order: &Order) {
        if self.start.is_none()
            && let Some(wire) = &mut self.wire
        {
            wire.send(order);
        }
    }

    /// Whether it may still begin.
    fn is_logging_in(&self) -> bool {
        self.start.is_some() && self.wire.is_some()
    }

    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let wire = self.wire.as_ref();
        let interests = wire.map(|wire| wire.interests(wire.has_room()));
        interests.into_iter().flatten()
    }

    pub(super) fn greet_by(&self) -> Option<Instant> {
        self.greet_by
    }
}

/// Where the launcher's standard input goes: to the host of rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// It is read next.
    Wanted,
    /// It is a terminal that another job of the shell reads: who reads it all the same is stopped.
    /// Whether it is still so is asked then.
    Elsewhere(Instant),
    /// Rank 0 has not taken what was sent.
    Sent,
    /// There is none, or nobody reads it.
    Closed,
}

/// Runs a job of several hosts; returns its exit code.
pub(super) fn run(args: &Args, name: String) -> Result<u8, RunError> {
    let parts =
        hosts::distribute(&args.hosts, args.ranks).map_err(|why| RunError::Hosts { why })?;
    let (signals, mask) = take_signals()?;
    reserve_files(parts.len(), Holders::Hosts)?;
    let counts: Vec<u32> = parts.iter().map(|part| part.count).collect();
    let server = PmiServer::new(name.clone(), &counts);
    let mut job = Job::new(args.limits(), Control::Server(server), signals)?;
    let rank = || Rank {
        running: true,
        process: None,
    };
    job.ranks = (0..args.ranks).map(|_| rank()).collect();
    let program = std::env::current_exe().map_err(failed("finding this command's own path"))?;
    let directory = std::env::current_dir().map_err(failed("finding the working directory"))?;
    let environment = login::environment(args, &directory);
    let mut result = Ok(());
    for (number, part) in parts.into_iter().enumerate() {
        let start = Start {
            job: name.clone(),
            number,
            first: part.first,
            count: part.count,
            size: args.ranks,
            directory: directory.clone().into(),
            environment: environment.clone(),
            program: args.program.clone(),
            bind: args.bind,
            label: args.label,
            grace: args.grace,
        };
        match login::log_in(&args.launcher, &part.host, &program, mask) {
            Ok((login, wire)) => {
                job.ender.add(login, true);
                job.remotes.push(Remote::new(part, start, login, wire));
            }
            Err(error) => {
                job.kill();
                result = Err(error);
                break;
            }
        }
    }
    job.serve()?;
    result.map(|()| job.failure.unwrap_or(0))
}

impl Job {
    pub(super) fn remote_of(&mut self, rank: u32) -> Option<&mut Remote> {
        let mut remotes = self.remotes.iter_mut();
        remotes.find(|remote| remote.part.ranks().contains(&rank))
    }

    pub(super) fn tell_all(&mut self, order: &Order) {
        self.remotes
            .iter_mut()
            .for_each(|remote| remote.tell(order));
    }

    /// Reads what a host has said, and does it.
    pub(super) fn serve_remote(&mut self, number: usize) {
        let remote = &mut self.remotes[number];
        let Some(wire) = &mut remote.wire else { return };
        wire.flush();
        let is_open = wire.read();
        if let Some(start) = remote.start.take() {
            match wire.greeting() {
                None => remote.start = Some(start),
                Some(text) if text == GREETING => {
                    remote.greet_by = None;
                    remote.tell(&Order::Start(start));
                    if number == 0 {
                        self.input = Input::Wanted;
                    }
                }
                Some(text) => {
                    self.end_as(LAUNCHER_FAILED);
                    self.lose(number);
                    notice(format_args!(
                        "{} says {text:?}, and not {GREETING:?}: it has another version of limic, \
                         or a file that its shell reads at the login prints something",
                        self.remotes[number].name()
                    ));
                    return;
                }
            }
        }
        self.take_reports(number);
        if !is_open {
            self.lose(number);
        }
    }

    fn take_reports(&mut self, number: usize) {
        loop {
            let remote = &mut self.remotes[number];
            let Some(wire) = remote.wire.as_mut().filter(|_| remote.start.is_none()) else {
                return;
            };
            let is_sound = match wire.next() {
                Ok(Some(report)) => self.take(number, report),
                Ok(None) => return,
                Err(_) => false,
            };
            if !is_sound {
                self.end_as(LAUNCHER_FAILED);
                self.lose(number);
                let name = self.remotes[number].name();
                notice(format_args!("{name} sent something that makes no sense"));
            }
        }
    }

    /// False of what no host says.
    fn take(&mut self, number: usize, report: Report) -> bool {
        let remote = &mut self.remotes[number];
        let ranks = remote.part.ranks();
        match report {
            Report::Line(rank, line) if ranks.contains(&rank) => self.handle(rank, line),
            Report::Left(rank) if ranks.contains(&rank) => self.leave_pmi(rank),
            Report::Output(stream @ 0..2, bytes) => {
                remote.added[stream] += bytes.len();
                self.sinks[stream].add(&bytes);
            }
            Report::Taken if number == 0 && self.input == Input::Sent => {
                self.input = Input::Wanted;
            }
            Report::Refused if number == 0 => self.input = Input::Closed,
            Report::Ended(rank, pid, ending) if ranks.contains(&rank) => {
                let name = remote.part.host.clone();
                self.count_end(rank as usize, ending, format_args!("pid {pid} on {name}"));
            }
            Report::Failed(text, code) => {
                let is_news = self.phase == Phase::Running;
                self.end_part(number);
                self.end_as(code);
                if is_news {
                    notice(format_args!("{}: {text}", self.remotes[number].name()));
                }
            }
            Report::Over => {
                remote.is_over = true;
                self.end_part(number);
            }
            Report::Last if remote.is_over => remote.has_ended = true,
            _ => return false,
        }
        true
    }

    /// Something failed that the job cannot go on without.
    pub(super) fn end_as(&mut self, code: u8) {
        self.fail(code);
        self.end();
    }

    /// No rank of this host runs any more.
    fn end_part(&mut self, number: usize) {
        for rank in self.remotes[number].part.ranks() {
            if std::mem::take(&mut self.ranks[rank as usize].running) {
                self.leave_pmi(rank);
            }
        }
    }

    /// The connection to a host has ended, or is of no use.
    fn lose(&mut self, number: usize) {
        let remote = &mut self.remotes[number];
        if remote.wire.take().is_none() {
            return;
        }
        remote.greet_by = None;
        if number == 0 {
            self.input = Input::Closed;
        }
        // Why nothing answered there, the end of the login tells.
        let is_news = remote.start.is_none() && self.phase == Phase::Running;
        if !std::mem::replace(&mut remote.is_over, true) {
            remote.has_ended = true;
            self.end_part(number);
            self.end_as(LAUNCHER_FAILED);
            if is_news {
                notice(format_args!(
                    "the connection to {} ended before its ranks did; ending the job",
                    self.remotes[number].name()
                ));
            }
        } else if !matches!(self.phase, Phase::Killing | Phase::Over) {
            self.miss_output(number);
        }
    }

    /// A program that had logged in has ended: nothing comes behind what it has left.
    pub(super) fn login_ended(&mut self, pid: Pid, ending: Ending) {
        let Some(number) = self.remotes.iter().position(|remote| remote.login == pid) else {
            return;
        };
        if let Some(wire) = &self.remotes[number].wire {
            wire.shut();
        }
        while self.remotes[number].wire.is_some() {
            self.serve_remote(number);
        }
        if self.remotes[number].start.is_some() {
            notice(format_args!(
                "{}: the login {ending} before limic answered; is this command there, at the same \
                 path, and does ssh get there without a password?",
                self.remotes[number].name()
            ));
        }
    }

    /// Gives up hosts that do not greet.
    pub(super) fn give_up_silent(&mut self, now: Instant) {
        for number in 0..self.remotes.len() {
            let remote = &mut self.remotes[number];
            if remote.greet_by.is_some_and(|at| at <= now) {
                self.end_as(LAUNCHER_FAILED);
                notice(format_args!(
                    "{} did not answer within {} s",
                    self.remotes[number].name(),
                    TO_GREET.as_secs()
                ));
            }
        }
    }

    pub(super) fn is_logging_in(&self) -> bool {
        self.remotes.iter().any(Remote::is_logging_in)
    }

    /// Whether this is a job of hosts, and no process is left on any.
    pub(super) fn are_hosts_over(&self) -> bool {
        !self.remotes.is_empty() && self.remotes.iter().all(|remote| remote.is_over)
    }

    /// The job ends: no host begins any more.
    pub(super) fn give_up_logins(&mut self) {
        for number in 0..self.remotes.len() {
            let remote = &self.remotes[number];
            if remote.is_logging_in() {
                // Its end is not seen yet, so the number is its own.
                let _gone = kill_process_group(remote.login, Signal::KILL);
                self.lose(number);
                self.remotes[number].start = None;
            }
        }
    }

    /// Tells hosts to kill their ranks. False if there is none to wait for, or they were told and
    /// had their time.
    pub(super) fn leave(&mut self) -> bool {
        let is_left = self.remotes.iter().any(|remote| !remote.is_over);
        if !is_left || matches!(self.phase, Phase::Leaving(_) | Phase::Killing) {
            return false;
        }
        let now = Instant::now();
        self.phase = Phase::Leaving(now.checked_add(TO_KILL).unwrap_or(now));
        self.tell_all(&Order::Kill);
        true
    }

    /// Tells hosts how much of their output was written.
    pub(super) fn return_room(&mut self) {
        let begun = |remote: &&mut Remote| remote.start.is_none();
        for remote in self.remotes.iter_mut().filter(begun) {
            for (stream, sink) in self.sinks.iter().enumerate() {
                if sink.broken() && !std::mem::replace(&mut remote.is_unread[stream], true) {
                    remote.tell(&Order::Unread(stream));
                }
                if remote.added[stream] > 0 && sink.has_room() {
                    let count = std::mem::take(&mut remote.added[stream]);
                    remote.tell(&Order::Written(stream, count));
                }
            }
        }
    }
}
