//! Goes through rounds, patterns and subjects, so that all subjects meet the same machine.

use std::path::Path;
use std::time::Instant;

use limic_runner::{Failure, console};

use super::floor;
use super::load::Watch;
use super::machine_state::Pass;
use super::pattern::{Pattern, Plan, Portion};
use super::shm_cleanup;
use super::state::State;
use super::subject::{self, Subject};

/// The patterns and subjects, in the order in which they are measured.
pub(super) struct Schedule<'a> {
    pub(super) plan: &'a Plan,
    pub(super) patterns: &'a [Pattern],
    pub(super) subjects: &'a [Subject],
    pub(super) cpus: &'a [usize],
    /// Whether passes count whatever others do meanwhile.
    pub(super) busy: bool,
}

impl Schedule<'_> {
    /// Makes passes until each portion has its steady rounds at each distance that the machine
    /// shows, as far as the time goes, and calls `keep` after each. Returns the portions that lack
    /// rounds, and how many they have.
    pub(super) fn run(
        &self,
        state: &mut State,
        mut keep: impl FnMut(&State) -> Result<(), Failure>,
    ) -> Result<Vec<String>, Failure> {
        let limic = subject::program();
        let read = || floor::read(&limic, self.cpus);
        // A second time, in case others disturbed the first one.
        let mut reading = read().or_else(read);
        if reading.is_none() {
            return Err(Failure::Missing(format!(
                "`limic perf floor` cannot read the distance between the CPUs {:?}: no pass would \
                 count. Run it by hand to see why.",
                self.cpus
            )));
        }
        let begin = Instant::now();
        let patterns = self.patterns.iter();
        let all: Vec<Portion> = patterns.flat_map(|one| self.plan.portions(*one)).collect();
        'rounds: for round in 1_u32.. {
            let mut short = state.short(&all, self.plan.rounds);
            short.retain(|(portion, _)| {
                let mut subjects = self.subjects.iter();
                subjects.any(|subject| self.takes(subject, portion.pattern, state))
            });
            if short.is_empty() {
                break;
            }
            for (portion, _) in short {
                if state.has(round, portion) {
                    continue;
                }
                let expected = state.expected(portion).unwrap_or_default();
                if !self.plan.has_time(begin.elapsed(), expected, round == 1) {
                    break 'rounds;
                }
                console::detail(&format_args!(
                    "round {round}, {}; {} of at most {} s",
                    portion.title(),
                    begin.elapsed().as_secs(),
                    self.plan.limit.as_secs()
                ));
                let watch = Watch::start(self.cpus);
                let mut pass = Pass::new(round, portion, reading);
                reading = self.pass(&mut pass, portion, state, &limic);
                pass.end(&watch.finish(), self.busy);
                // One that has failed is not to spoil the next pass too.
                reading = reading.or_else(read);
                if let Some(us) = reading {
                    console::detail(&format_args!("  the line latency is {us:.3} us"));
                }
                if let Some(why) = pass.refused() {
                    console::detail(&format_args!("  {why}: this round does not count"));
                }
                state.passes.push(pass);
                keep(state)?;
            }
        }
        let short = state.short(&all, self.plan.rounds);
        Ok(short.into_iter().map(|(_, words)| words).collect())
    }

    /// All subjects once. Returns the line latency after the last one, if any ran.
    fn pass(
        &self,
        pass: &mut Pass,
        portion: &Portion,
        state: &mut State,
        limic: &Path,
    ) -> Option<f64> {
        let (turn, pattern) = (pass.round as usize - 1, portion.pattern);
        let mut reading = None;
        for at in 0..self.subjects.len() {
            // Another subject begins each round.
            let subject = &self.subjects[(turn + at) % self.subjects.len()];
            if !self.takes(subject, pattern, state) {
                continue;
            }
            let name = subject.name();
            let before = shm_cleanup::Before::now();
            let outcome = subject.measure(portion, self.plan, self.cpus);
            if let Some(why) = &outcome.failure {
                before.remove_new();
                console::detail(&format_args!("  {name}: {why}"));
            }
            state.samples.take(turn, pattern, name, outcome);
            // The machine may change and change back within a pass.
            reading = floor::read(limic, self.cpus);
            pass.read(reading);
        }
        reading
    }

    /// Whether a subject runs a pattern, and did not hang in it before.
    fn takes(&self, subject: &Subject, pattern: Pattern, state: &State) -> bool {
        let can = subject.can(pattern, self.plan.ranks(pattern));
        can && !state.samples.given_up(pattern, subject.name())
    }
}
