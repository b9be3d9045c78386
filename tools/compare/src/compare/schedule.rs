//! Goes through rounds, patterns and subjects, so that all subjects meet the same machine.

use std::path::Path;
use std::time::{Duration, Instant};

use limic_runner::{Failure, console};

use super::machine_state::{self, Pass};
use super::pattern::{Pattern, Plan};
use super::shm_cleanup;
use super::state::State;
use super::subject::{self, Subject};

/// The patterns and subjects, in the order in which they are measured.
pub(super) struct Schedule<'a> {
    pub(super) plan: &'a Plan,
    pub(super) patterns: &'a [Pattern],
    pub(super) subjects: &'a [Subject],
    pub(super) cpus: &'a [usize; 2],
}

impl Schedule<'_> {
    /// Makes the passes that `state` does not have yet, as far as the time goes, and calls `keep`
    /// after each. Returns the number of passes that are left.
    pub(super) fn run(
        &self,
        state: &mut State,
        mut keep: impl FnMut(&State) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let steps = (1..=self.plan.rounds)
            .flat_map(|round| self.patterns.iter().map(move |pattern| (round, *pattern)))
            .filter(|step| !state.has(*step));
        let mut steps: Vec<(u32, Pattern)> = steps.collect();
        steps.reverse();
        let limic = subject::program();
        let mut reading = machine_state::read(&limic, self.cpus);
        let begin = Instant::now();
        while let Some((round, pattern)) = steps.last().copied() {
            let expected = state.expected(pattern);
            let first_round = round == 1;
            let fits = |spent: Duration| {
                let expected = expected.unwrap_or_default();
                self.plan.has_time(spent, expected, first_round)
            };
            if !fits(begin.elapsed()) {
                break;
            }
            console::detail(&format_args!(
                "round {round}/{}, {}{}",
                self.plan.rounds,
                pattern.name(),
                self.left(state, &steps, begin.elapsed())
            ));
            let started = Instant::now();
            let mut repeats = 0;
            let mut pass = loop {
                let mut pass = Pass::new(round, pattern, reading);
                reading = self.pass(&mut pass, state, &limic).or(reading);
                let again = repeats < self.plan.repeats && fits(begin.elapsed());
                if !pass.changed() || !again {
                    break pass;
                }
                repeats += 1;
                // A subject that fails in the repeat must not be judged by another distance.
                state.samples.forget(round as usize - 1, pattern);
                console::detail(&"the CPUs' distance has changed meanwhile: once more");
            };
            pass.seconds = started.elapsed().as_secs_f64();
            if let Some(us) = reading {
                console::detail(&format_args!(
                    "  {:.0} s; the line latency is {us:.3} us",
                    pass.seconds
                ));
            }
            state.passes.push(pass);
            steps.pop();
            keep(state)?;
        }
        Ok(steps.len())
    }

    /// All subjects once. Returns the line latency after the last one, if any ran.
    fn pass(&self, pass: &mut Pass, state: &mut State, limic: &Path) -> Option<f64> {
        let (turn, pattern) = (pass.round as usize - 1, pass.pattern);
        let mut reading = None;
        for at in 0..self.subjects.len() {
            // Another subject begins each round.
            let subject = &self.subjects[(turn + at) % self.subjects.len()];
            let name = subject.name();
            if !subject.can(pattern) || state.samples.given_up(pattern, name) {
                continue;
            }
            let before = shm_cleanup::Before::now();
            let outcome = subject.measure(pattern, self.plan, self.cpus);
            if let Some(why) = &outcome.failure {
                before.remove_new();
                console::detail(&format_args!("  {name}: {why}"));
            }
            state.samples.take(turn, pattern, name, outcome);
            // The machine may change and change back within a pass.
            reading = machine_state::read(limic, self.cpus);
            pass.read(reading);
        }
        reading
    }

    /// `, 2 min left`, once every pattern has been measured.
    fn left(&self, state: &State, steps: &[(u32, Pattern)], spent: Duration) -> String {
        let expected: Option<Duration> = steps
            .iter()
            .map(|(_, pattern)| state.expected(*pattern))
            .sum();
        let Some(left) = expected else {
            return String::new();
        };
        let left = left.min(self.plan.limit.saturating_sub(spent)).as_secs();
        if left < 90 {
            format!(", {left} s left")
        } else {
            format!(", {} min left", left.div_ceil(60))
        }
    }
}
