//! The results so far in a file, from which a run that was cut short goes on.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use limic_runner::Failure;
use limic_runner::folders::{self, target};
use serde::{Deserialize, Serialize};

use super::load::Load;
use super::machine_state::{Distance, Distances, Pass};
use super::pattern::{Comparison, Plan, Portion};
use super::samples::{Samples, Stored};

/// The conditions of a run. Results may be put together only if they are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stamp {
    comparison: Comparison,
    quick: bool,
    rounds: u32,
    seconds: f64,
    /// The patterns and peers that were asked for, if not all.
    part: Vec<String>,
    cpus: Vec<usize>,
    /// Titles, in the order of the subjects.
    subjects: Vec<String>,
    /// The processor, and what limic is told: variables, and its profile with the time of that.
    conditions: Vec<String>,
    /// Programs and sources: path, length and time.
    files: Vec<(PathBuf, u64, Duration)>,
}

impl Stamp {
    pub(super) fn new(
        plan: &Plan,
        part: Vec<String>,
        cpus: &[usize],
        subjects: Vec<String>,
        conditions: Vec<String>,
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let stamped = |path: PathBuf| {
            let file = std::fs::metadata(&path).ok();
            let length = file.as_ref().map_or(0, std::fs::Metadata::len);
            let time = file.and_then(|file| file.modified().ok()?.duration_since(UNIX_EPOCH).ok());
            (path, length, time.unwrap_or_default())
        };
        Self {
            comparison: plan.comparison,
            quick: plan.quick,
            rounds: plan.rounds,
            seconds: plan.seconds,
            part,
            cpus: cpus.to_vec(),
            subjects,
            conditions,
            files: files.into_iter().map(stamped).collect(),
        }
    }

    /// A short run of a part leaves the file of a long one alone.
    fn file(&self) -> PathBuf {
        let extent = if self.quick { "quick" } else { "full" };
        let mut words = vec!["unfinished", self.comparison.name(), extent];
        words.extend(self.part.iter().map(String::as_str));
        target().join("compare").join(words.join("-") + ".json")
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) samples: Samples,
    pub(super) passes: Vec<Pass>,
    /// The load of the runs before this one.
    pub(super) load: Option<Load>,
}

#[derive(Serialize, Deserialize)]
struct File {
    stamp: Stamp,
    samples: Stored,
    passes: Vec<Pass>,
    load: Option<Load>,
}

impl State {
    /// Takes up a run that was cut short.
    pub(super) fn resume(stamp: &Stamp, names: &[&'static str]) -> Result<Self, Failure> {
        let path = stamp.file();
        let missing = |why: String| Failure::Missing(format!("{}: {why}", path.display()));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(why) => {
                return Err(missing(format!(
                    "{why}: there is no unfinished run of this kind; run without --resume"
                )));
            }
        };
        let file: File = serde_json::from_str(&text).map_err(|why| missing(why.to_string()))?;
        if file.stamp != *stamp {
            return Err(missing(
                "that run had another processor, other rounds, CPUs, peers or settings, or limic \
                 or a benchmark has changed since; run without --resume to begin again"
                    .to_owned(),
            ));
        }
        Ok(Self {
            samples: Samples::restore(file.samples, names),
            passes: file.passes,
            load: file.load,
        })
    }

    /// Writes the file for [`Self::resume`]. `load` is that of all runs.
    pub(super) fn keep(&self, stamp: &Stamp, load: Load) -> Result<(), Failure> {
        let file = File {
            stamp: stamp.clone(),
            samples: self.samples.store(),
            passes: self.passes.clone(),
            load: Some(load),
        };
        let text = serde_json::to_string(&file)
            .map_err(|why| Failure::Wrong(format!("results as JSON: {why}")))?;
        let path = stamp.file();
        folders::make(path.parent().unwrap_or(Path::new(".")))?;
        // A run that is killed meanwhile leaves the old file.
        let new = path.with_extension("new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|why| Failure::file("write", &path, why))
    }

    /// Removes the file after the last pass.
    pub(super) fn forget(stamp: &Stamp) {
        // It is not there if all passes had been made before.
        let _ = std::fs::remove_file(stamp.file());
    }

    pub(super) fn has(&self, round: u32, portion: &Portion) -> bool {
        let mut passes = self.passes.iter();
        passes.any(|pass| pass.round == round && pass.is_of(portion))
    }

    /// The portions that lack steady rounds at a distance that the machine showed, in words.
    pub(super) fn short<'a>(
        &self,
        portions: &'a [Portion],
        wanted: u32,
    ) -> Vec<(&'a Portion, String)> {
        let distances = Distances::of(&self.passes);
        let mut short = Vec::new();
        for portion in portions {
            let lacking = |distance: &Option<Distance>| {
                let rounds = distances.rounds(portion, *distance);
                let name = distance.map_or("", Distance::name);
                (rounds < wanted as usize).then(|| format!("{rounds} {name}").trim_end().to_owned())
            };
            let lacking: Vec<String> = distances.seen().iter().filter_map(lacking).collect();
            if !lacking.is_empty() {
                let words = format!("{}: {}", portion.title(), lacking.join(", "));
                short.push((portion, words));
            }
        }
        short
    }

    /// The longest time that a pass of a portion has taken.
    pub(super) fn expected(&self, portion: &Portion) -> Option<Duration> {
        let of = self.passes.iter().filter(|pass| pass.is_of(portion));
        let longest = of.map(|pass| pass.seconds).max_by(f64::total_cmp)?;
        Some(Duration::from_secs_f64(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::*;

    fn of(pattern: Pattern) -> Portion {
        Plan::new(Comparison::Peers, 2, false, None, None)
            .portions(pattern)
            .remove(0)
    }

    #[test]
    fn passes_are_known_by_round_and_portion() {
        let mut state = State::default();
        let (rate, latency) = (of(Pattern::Rate), of(Pattern::Latency));
        let mut pass = Pass::new(1, &rate, None);
        pass.seconds = 2.0;
        state.passes.push(pass);
        assert!(state.has(1, &rate));
        assert!(!state.has(2, &rate) && !state.has(1, &latency));
        assert_eq!(state.expected(&rate), Some(Duration::from_secs(2)));
        assert_eq!(state.expected(&latency), None);
    }

    #[test]
    fn steady_rounds_are_wanted_at_each_distance_that_was_seen() {
        let mut state = State::default();
        let rates = [of(Pattern::Rate)];
        let mut pass = |round, us| state.passes.push(Pass::new(round, &rates[0], Some(us)));
        pass(1, 0.03);
        pass(2, 0.031);
        let words = |state: &State| -> Vec<String> {
            let short = state.short(&rates, 2);
            short.into_iter().map(|(_, words)| words).collect()
        };
        assert!(words(&state).is_empty());
        state.passes.push(Pass::new(3, &rates[0], Some(0.18)));
        assert_eq!(words(&state), ["rate: 1 far"]);
        state.passes.push(Pass::new(4, &rates[0], Some(0.17)));
        assert!(words(&state).is_empty());
        assert_eq!(State::default().short(&rates, 2).len(), 1);
    }

    #[test]
    fn a_part_is_kept_in_a_file_of_its_own() {
        let plan = Plan::new(Comparison::Peers, 2, false, None, None);
        let stamp = |part| Stamp::new(&plan, part, &[0, 1], Vec::new(), Vec::new(), []);
        let (all, part) = (stamp(Vec::new()), stamp(vec!["rate".to_owned()]));
        assert_ne!(all, part);
        assert!(all.file().ends_with("unfinished-peers-full.json"));
        assert!(part.file().ends_with("unfinished-peers-full-rate.json"));
    }

    #[test]
    fn what_is_built_anew_or_told_otherwise_has_another_stamp() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let plan = Plan::new(Comparison::Mpi, 2, true, None, None);
        let stamp = |setting: &str| {
            let (subjects, settings) = (vec!["a".to_owned()], vec![setting.to_owned()]);
            let files = ["/".into(), file.path().to_owned()];
            Stamp::new(&plan, Vec::new(), &[0, 1], subjects, settings, files)
        };
        let before = stamp("LIMIC_SPIN=0");
        assert_eq!(before, stamp("LIMIC_SPIN=0"));
        assert_ne!(before, stamp("LIMIC_SPIN=1"));
        std::fs::write(file.path(), "more").expect("writable");
        assert_ne!(before, stamp("LIMIC_SPIN=0"));
    }
}
