//! Goes through rounds, patterns and contestants: whatever the machine does besides meets all.

use std::path::Path;
use std::time::{Duration, Instant};

use super::contestant::{self, Contestant};
use super::gauge::{self, Pass};
use super::leftovers;
use super::pattern::{Pattern, Plan};
use super::state::State;
use crate::console;
use crate::failure::Failure;

/// What is run in which order.
pub(super) struct Schedule<'a> {
    pub(super) plan: &'a Plan,
    pub(super) patterns: &'a [Pattern],
    pub(super) contestants: &'a [Contestant],
    pub(super) cpus: &'a [usize; 2],
}

impl Schedule<'_> {
    /// Makes the passes that `state` does not have yet, as far as the time goes, and hands it to `keep` after each. Gives
    /// how many are left.
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
        let limic = contestant::program();
        let mut reading = gauge::read(&limic, self.cpus);
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
                // Who fails in the repeat must not be judged by what it did at another distance.
                state.samples.forget(round as usize - 1, pattern);
                console::detail(&"the CPUs' distance has changed meanwhile: once more");
            };
            pass.seconds = started.elapsed().as_secs_f64();
            if let Some(us) = reading {
                console::detail(&format_args!(
                    "  {:.0} s; a cache line changes hands in {us:.3} us",
                    pass.seconds
                ));
            }
            state.passes.push(pass);
            steps.pop();
            keep(state)?;
        }
        Ok(steps.len())
    }

    /// All contestants once. Gives the hand-over after the last one, if any of them can run this.
    fn pass(&self, pass: &mut Pass, state: &mut State, limic: &Path) -> Option<f64> {
        let (turn, pattern) = (pass.round as usize - 1, pass.pattern);
        let mut reading = None;
        for at in 0..self.contestants.len() {
            // Another one begins each round: nobody always follows the same one.
            let contestant = &self.contestants[(turn + at) % self.contestants.len()];
            let name = contestant.name();
            if !contestant.can(pattern) || state.samples.given_up(pattern, name) {
                continue;
            }
            let before = leftovers::Before::now();
            let outcome = contestant.measure(pattern, self.plan, self.cpus);
            if let Some(why) = &outcome.failure {
                before.remove_new();
                console::detail(&format_args!("  {name}: {why}"));
            }
            state.samples.take(turn, pattern, name, outcome);
            // It may change and change back within a pass.
            reading = gauge::read(limic, self.cpus);
            pass.read(reading);
        }
        reading
    }

    /// `, 2 min left`, once there is something to judge by.
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
