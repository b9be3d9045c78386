//! What a job does when a descriptor is ready: signals to the launcher, lines from ranks over PMI,
//! and what ranks print.

use rustix::process::{Signal, getpid, kill_process, kill_process_group};

use super::super::connection::{Connection, Received};
use super::super::outcome::{Ending, exit_code};
use super::super::output::Sink;
use super::super::pmi_server::Effect;
use super::super::{RunError, notice};
use super::{Job, Phase, SIGNALS, nix_error};

impl Job<'_> {
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

    fn pass_on(&mut self, signal: Signal, from_terminal: bool) {
        if signal == Signal::INT {
            if self.phase == Phase::Over {
                // Only output is left, and nobody reads it.
                self.sinks.iter_mut().for_each(Sink::discard);
            } else if self.interrupted || self.phase != Phase::Running {
                notice(format_args!("interrupted again; killing the job"));
                self.fail(Ending::Killed(libc::SIGINT).code());
                self.kill();
                return;
            }
            self.interrupted = true;
        }
        for rank in self.ranks.iter().filter(|rank| rank.running) {
            // Not waited for yet, so the numbers are still theirs. A rank that just ended is no
            // error.
            let _gone = match rank.own_group {
                true => kill_process_group(rank.pid, signal),
                false if from_terminal => Ok(()),
                false => kill_process(rank.pid, signal),
            };
        }
        if signal == Signal::TSTP {
            // Stops here, until SIGCONT; that is passed on in turn.
            let _cannot_fail = kill_process(getpid(), Signal::STOP);
        }
    }

    /// Reads a piece of what a rank sent and acts on it. Then others have their turn, however much
    /// more there is.
    pub(super) fn serve_pmi(&mut self, index: usize) {
        if let Some(connection) = &mut self.ranks[index].connection {
            connection.flush();
        }
        // Lines are left from the last piece if their answers had piled up.
        if !self.take_lines(index) {
            return;
        }
        let connection = self.ranks[index].connection.as_mut();
        match connection.map(Connection::read) {
            Some(Received::Bytes) => {
                self.take_lines(index);
            }
            Some(Received::End) => self.hang_up(index),
            Some(Received::Nothing) | None => {}
        }
    }

    /// Acts on the lines that were read; false if some are left, for which there is no room.
    fn take_lines(&mut self, index: usize) -> bool {
        let rank = u32::try_from(index).unwrap_or(u32::MAX);
        while let Some(connection) = &mut self.ranks[index].connection {
            if !connection.has_room() {
                return false;
            }
            match connection.next_line() {
                Ok(Some(line)) => {
                    let effects = self.server.handle(rank, &line);
                    self.act(index, effects);
                }
                Ok(None) => return true,
                Err(error) => {
                    notice(format_args!(
                        "rank {rank} sent {error} over PMI; not listening to it"
                    ));
                    self.hang_up(index);
                }
            }
        }
        true
    }

    fn hang_up(&mut self, index: usize) {
        self.ranks[index].connection = None;
        self.leave(index);
    }

    fn leave(&mut self, index: usize) {
        let effects = self.server.leave(u32::try_from(index).unwrap_or(u32::MAX));
        self.act(index, effects);
    }

    fn act(&mut self, index: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(to, message) => {
                    // A rank whose turn to start has not come yet cannot be in a barrier.
                    let rank = self.ranks.get_mut(to as usize);
                    if let Some(connection) = rank.and_then(|rank| rank.connection.as_mut()) {
                        connection.answer(&message);
                    }
                }
                Effect::Abort { code, text } => {
                    if self.phase == Phase::Running {
                        let pid = self.ranks[index].pid.as_raw_nonzero();
                        notice(format_args!(
                            "rank {index} (pid {pid}) aborted the job with code {code}: {text}"
                        ));
                        // An abort is a failure, whatever code it names.
                        self.fail(exit_code(code).max(1));
                        self.end();
                    }
                }
                Effect::Warn(text) => notice(format_args!("{text}")),
            }
        }
    }

    pub(super) fn read_output(&mut self, index: usize, stream: usize) {
        let slot = &mut self.ranks[index].outputs[stream];
        let sink = &mut self.sinks[stream];
        if let Some(output) = slot.as_mut()
            && (sink.broken() || output.read(sink).is_err())
            && let Some(output) = slot.take()
        {
            output.finish(sink);
        }
    }

    /// No process of the job is left: takes what is still in the pipes.
    pub(super) fn close_outputs(&mut self) {
        for rank in &mut self.ranks {
            for (slot, sink) in rank.outputs.iter_mut().zip(&mut self.sinks) {
                if let Some(mut output) = slot.take() {
                    while let Ok(true) = output.read(sink) {}
                    output.finish(sink);
                }
            }
        }
    }
}
