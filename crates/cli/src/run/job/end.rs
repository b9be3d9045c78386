//! When a job ends, and how.

use std::time::{Duration, Instant};

use super::super::notice;
use super::super::output::Sink;
use super::super::processes::in_foreground;
use super::super::wire::Order;
use super::remote::{Input, LAUNCHER_FAILED};
use super::{Control, Job, Phase};

/// The exit code after `--timeout`, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// How long a host that is over may take to send more of what its ranks printed, and to end.
const TO_FINISH: Duration = Duration::from_secs(10);

/// How often a launcher in the background asks whether it may read its terminal: a shell says
/// nothing to a job that it brings to the foreground, unless that was stopped.
pub(super) const TO_LOOK: Duration = Duration::from_secs(1);

impl Job {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let next = match self.phase {
            Phase::Running => self.end_at,
            Phase::Ending(at) | Phase::Leaving(at) | Phase::Finishing(at) => Some(at),
            Phase::Killing | Phase::Over => None,
        };
        let greetings = self.remotes.iter().filter_map(|remote| remote.greet_by());
        let look = match self.input {
            Input::Elsewhere(at) => Some(at),
            _ => None,
        };
        next.into_iter().chain(greetings).chain(look).min()
    }

    pub(super) fn keep_time(&mut self) {
        let now = Instant::now();
        self.give_up_silent(now);
        self.wait_for_output(now);
        if matches!(self.input, Input::Elsewhere(at) if at <= now) {
            self.input = match in_foreground() {
                true => Input::Wanted,
                false => Input::Elsewhere(now + TO_LOOK),
            };
        }
        let is_due = |at: Instant| at <= now;
        match self.phase {
            Phase::Running if self.end_at.is_some_and(is_due) => {
                let seconds = self.limits.timeout.unwrap_or_default().as_secs_f64();
                self.fail(TIMED_OUT);
                self.end();
                notice(format_args!(
                    "the job did not end within {seconds} s; ending it"
                ));
            }
            Phase::Ending(at) if is_due(at) => self.kill(),
            // Of hosts. A login that lingers behind the last of the output is nobody's loss.
            Phase::Leaving(at) | Phase::Finishing(at) if is_due(at) => {
                (0..self.remotes.len()).for_each(|number| self.miss_output(number));
                self.kill();
            }
            _ => {}
        }
    }

    /// The hosts that are over have what the launcher's reader does not take yet, and their logins
    /// end behind it.
    fn wait_for_output(&mut self, now: Instant) {
        let is_wanted = match self.phase {
            Phase::Ending(_) | Phase::Leaving(_) => self.are_hosts_over(),
            Phase::Finishing(_) => self.sinks.iter().any(Sink::pending),
            Phase::Running | Phase::Killing | Phase::Over => false,
        };
        if is_wanted {
            self.phase = Phase::Finishing(now.checked_add(TO_FINISH).unwrap_or(now));
        }
    }

    /// Whether something that ranks printed is not written, or may still come.
    pub(super) fn is_output_left(&self) -> bool {
        let is_missing = self.remotes.iter().any(|remote| !remote.has_ended);
        is_missing || self.sinks.iter().any(Sink::pending)
    }

    /// Something that the ranks of a host printed is lost: that is no success.
    pub(super) fn miss_output(&mut self, number: usize) {
        let remote = &mut self.remotes[number];
        if !std::mem::replace(&mut remote.has_ended, true) {
            self.fail(LAUNCHER_FAILED);
            notice(format_args!(
                "{} did not send all that its ranks printed; the rest is lost",
                self.remotes[number].name()
            ));
        }
    }

    /// The first failure makes the exit code.
    pub(super) fn fail(&mut self, code: u8) {
        self.failure.get_or_insert(code);
    }

    pub(super) fn end(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        let now = Instant::now();
        self.phase = Phase::Ending(now.checked_add(self.limits.grace).unwrap_or(now));
        match self.remotes.is_empty() {
            true => self.ender.ask(),
            false => {
                self.give_up_logins();
                self.tell_all(&Order::End);
            }
        }
    }

    pub(super) fn kill(&mut self) {
        self.give_up_logins();
        if self.leave() {
            return;
        }
        self.phase = Phase::Killing;
        if !self.ender.kill() {
            // Children are left that may not be signalled. They are the next init's to wait for.
            self.close();
        }
    }

    /// No process is left.
    pub(super) fn close(&mut self) {
        self.close_outputs();
        if let Control::Launcher(launcher) = &mut self.control
            && self.phase != Phase::Over
        {
            launcher.over();
        }
        self.phase = Phase::Over;
    }
}
