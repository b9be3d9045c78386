//! What a job does when a descriptor is ready: signals to the launcher, lines from ranks over PMI,
//! and what ranks print.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process, kill_process_group};

use super::super::connection::{Connection, Received};
use super::super::outcome::{Ending, exit_code};
use super::super::output::Sink;
use super::super::pmi_server::Effect;
use super::super::processes::in_foreground;
use super::super::wire::{Order, Report};
use super::super::{RunError, notice};
use super::end::TO_LOOK;
use super::remote::{Input, LAUNCHER_FAILED};
use super::{Control, Job, Phase, SIGNALS, nix_error};

/// Bytes of standard input that are on their way at most.
const MOST_INPUT: usize = 1 << 16;

/// One press of Ctrl-C may come twice within this time: from the terminal, and from a timeout(1)
/// that the launcher runs under.
const ONE_INTERRUPT: Duration = Duration::from_millis(500);

/// The signals that end a program.
const ENDS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

impl Job {
    pub(super) fn take_signals(&mut self) -> Result<(), RunError> {
        while let Some(info) = self
            .signals
            .read_signal()
            .map_err(nix_error("reading signals"))?
        {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            let row = SIGNALS.iter().find(|(signal, _)| *signal as i32 == number);
            if let Some((_, Some(signal))) = row {
                // A terminal signals its whole foreground group, so a rank in it has it already.
                self.pass_on(*signal, info.ssi_code == libc::SI_KERNEL);
            }
        }
        Ok(())
    }

    pub(super) fn pass_on(&mut self, signal: Signal, from_terminal: bool) {
        let ends = ENDS.contains(&signal);
        let mut is_again = false;
        if signal == Signal::INT {
            let now = Instant::now();
            match self.interrupted {
                Some(first) if now.duration_since(first) < ONE_INTERRUPT => return,
                first => is_again = first.is_some(),
            }
            self.interrupted.get_or_insert(now);
        }
        if ends && self.is_logging_in() {
            // No rank can work yet: this is the job's end, and not one of its ranks'.
            self.fail(Ending::Killed(signal.as_raw()).code());
            self.end();
            return;
        }
        if matches!(self.phase, Phase::Finishing(_) | Phase::Over) {
            // Only output is left. Whoever ends the launcher does not wait for its reader.
            if ends && matches!(self.control, Control::Server(_)) {
                if self.is_output_left() {
                    self.fail(Ending::Killed(signal.as_raw()).code());
                }
                self.sinks.iter_mut().for_each(Sink::give_up);
                if self.phase != Phase::Over {
                    self.kill();
                }
                return;
            }
        } else if signal == Signal::INT && (is_again || self.phase != Phase::Running) {
            self.fail(Ending::Killed(libc::SIGINT).code());
            self.kill();
            notice(format_args!("interrupted again; killing the job"));
            return;
        }
        for process in self
            .ranks
            .iter()
            .filter(|rank| rank.running)
            .filter_map(|rank| rank.process.as_ref())
        {
            // Not waited for yet, so the numbers are still theirs. A rank that just ended is no
            // error.
            let _gone = match process.own_group {
                true => kill_process_group(process.pid, signal),
                false if from_terminal => Ok(()),
                false => kill_process(process.pid, signal),
            };
        }
        self.tell_all(&Order::Signal(signal.as_raw()));
        if signal == Signal::TSTP && matches!(self.control, Control::Server(_)) {
            // Stops here, until SIGCONT; that is passed on in turn. A host does not stop: nothing
            // but its launcher's word would wake it, which it would not read.
            let _cannot_fail = kill_process(getpid(), Signal::STOP);
        }
    }

    /// Reads a piece of what a rank sent and acts on it. Then others have their turn, however much
    /// more there is.
    pub(super) fn serve_pmi(&mut self, index: usize) {
        if let Some(connection) = self.connection(index) {
            connection.flush();
        }
        // Lines are left from the last piece if their answers had piled up.
        if !self.take_lines(index) {
            return;
        }
        match self.connection(index).map(Connection::read) {
            Some(Received::Bytes) => {
                self.take_lines(index);
            }
            Some(Received::End) => self.hang_up(index),
            Some(Received::Nothing) | None => {}
        }
    }

    /// Acts on the lines that were read; false if some are left, for which there is no room.
    fn take_lines(&mut self, index: usize) -> bool {
        let rank = self.number(index);
        while let Some(connection) = self.connection(index) {
            if !connection.has_room() {
                return false;
            }
            match connection.next_line() {
                Ok(Some(line)) => self.handle(rank, line),
                Ok(None) => return true,
                Err(error) => {
                    self.hang_up(index);
                    notice(format_args!(
                        "rank {rank} sent {error} over PMI; not listening to it"
                    ));
                }
            }
        }
        true
    }

    /// A line of PMI from this rank.
    pub(super) fn handle(&mut self, rank: u32, line: Vec<u8>) {
        match &mut self.control {
            Control::Server(server) => {
                let effects = server.handle(rank, &line);
                self.act(rank, effects);
            }
            Control::Launcher(launcher) => launcher.report(&Report::Line(rank, line)),
        }
    }

    fn hang_up(&mut self, index: usize) {
        if let Some(process) = &mut self.ranks[index].process {
            process.connection = None;
        }
        self.leave_pmi(self.number(index));
    }

    /// Nothing comes from this rank any more.
    pub(super) fn leave_pmi(&mut self, rank: u32) {
        match &mut self.control {
            Control::Server(server) => {
                let effects = server.leave(rank);
                self.act(rank, effects);
            }
            Control::Launcher(launcher) => launcher.report(&Report::Left(rank)),
        }
    }

    fn act(&mut self, from: u32, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(to, message) => self.answer(to, message.encode()),
                Effect::Abort { code, text } => {
                    if self.phase == Phase::Running {
                        let place = self.place_of(from);
                        // An abort is a failure, whatever code it names.
                        self.fail(exit_code(code).max(1));
                        self.end();
                        notice(format_args!(
                            "rank {from} ({place}) aborted the job with code {code}: {text}"
                        ));
                    }
                }
                Effect::Warn(text) => notice(format_args!("{text}")),
            }
        }
    }

    /// Gives a rank the answer to a line.
    pub(super) fn answer(&mut self, rank: u32, line: Vec<u8>) {
        if let Some(remote) = self.remote_of(rank) {
            remote.tell(&Order::Answer(rank, line));
            return;
        }
        // A rank whose turn to start has not come yet cannot be in a barrier.
        let index = rank.checked_sub(self.first).map(|index| index as usize);
        if let Some(connection) = index.and_then(|index| self.connection(index)) {
            connection.answer(&line);
        }
    }

    fn number(&self, index: usize) -> u32 {
        self.first + u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn place_of(&mut self, rank: u32) -> String {
        if let Some(remote) = self.remote_of(rank) {
            return format!("on {}", remote.name());
        }
        let rank = self.ranks.get(rank as usize);
        let process = rank.and_then(|rank| rank.process.as_ref());
        process.map_or_else(String::new, |process| {
            format!("pid {}", process.pid.as_raw_nonzero())
        })
    }

    pub(super) fn read_output(&mut self, index: usize, stream: usize) {
        let Some(process) = &mut self.ranks[index].process else {
            return;
        };
        let slot = &mut process.outputs[stream];
        let sink = &mut self.sinks[stream];
        if let Some(output) = slot.as_mut()
            && (sink.broken() || output.read(sink).is_err())
            && let Some(output) = slot.take()
        {
            output.finish(sink);
        }
    }

    /// Writes a piece of what ranks printed. A job whose output is lost fails.
    pub(super) fn write_output(&mut self, stream: usize) {
        if let Err(errno) = self.sinks[stream].write() {
            self.end_as(LAUNCHER_FAILED);
            let name = ["standard output", "standard error"][stream];
            notice(format_args!("{name}: {}", std::io::Error::from(errno)));
        }
    }

    /// Sends a piece of standard input to rank 0.
    pub(super) fn read_input(&mut self) {
        if std::io::stdin().is_terminal() && !in_foreground() {
            self.input = Input::Elsewhere(Instant::now() + TO_LOOK);
            return;
        }
        let mut bytes = [0; MOST_INPUT];
        let count = match rustix::io::read(std::io::stdin(), &mut bytes) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => 0,
        };
        self.input = match count {
            0 => Input::Closed,
            _ => Input::Sent,
        };
        if let Some(remote) = self.remotes.first_mut() {
            remote.tell(&Order::Input(bytes[..count].to_vec()));
        }
    }

    /// No process of the job is left: takes what is still in the pipes.
    pub(super) fn close_outputs(&mut self) {
        for process in self
            .ranks
            .iter_mut()
            .filter_map(|rank| rank.process.as_mut())
        {
            for (slot, sink) in process.outputs.iter_mut().zip(&mut self.sinks) {
                if let Some(mut output) = slot.take() {
                    while let Ok(true) = output.read(sink) {}
                    output.finish(sink);
                }
            }
        }
    }
}
