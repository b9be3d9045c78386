//! What is measured so far, in a file: a run that was cut short can go on.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::gauge::Pass;
use super::load::Load;
use super::pattern::{Kind, Pattern, Plan};
use super::samples::{Samples, Stored};
use crate::failure::Failure;
use crate::job::target;

/// Results may be put together only if this is equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stamp {
    kind: Kind,
    quick: bool,
    rounds: u32,
    seconds: f64,
    cpus: [usize; 2],
    /// In their order.
    contestants: Vec<String>,
    /// What was built: name, length and time of each file.
    built: Vec<(PathBuf, u64, Duration)>,
}

impl Stamp {
    pub(super) fn new(
        plan: &Plan,
        cpus: &[usize; 2],
        contestants: Vec<String>,
        built: &[PathBuf],
    ) -> Self {
        let look = |path: &PathBuf| {
            let file = std::fs::metadata(path).ok();
            let length = file.as_ref().map_or(0, std::fs::Metadata::len);
            let time = file.and_then(|file| file.modified().ok()?.duration_since(UNIX_EPOCH).ok());
            (path.clone(), length, time.unwrap_or_default())
        };
        Self {
            kind: plan.kind,
            quick: plan.quick,
            rounds: plan.rounds,
            seconds: plan.seconds,
            cpus: *cpus,
            contestants,
            built: built.iter().map(look).collect(),
        }
    }

    fn file(&self) -> PathBuf {
        let extent = if self.quick { "quick" } else { "full" };
        let name = format!("unfinished-{}-{extent}.json", self.kind.name());
        target().join("compare").join(name)
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct State {
    pub(super) samples: Samples,
    pub(super) passes: Vec<Pass>,
    /// Of the runs before this one.
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
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            samples: Samples::new(plan.rounds as usize),
            passes: Vec::new(),
            load: None,
        }
    }

    /// Takes up the run that was cut short.
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
                "that run had other rounds, CPUs or peers, or limic was built anew since; run without --resume to begin again"
                    .to_owned(),
            ));
        }
        Ok(Self {
            samples: Samples::restore(file.samples, names),
            passes: file.passes,
            load: file.load,
        })
    }

    /// For [`Self::resume`]; `load` is that of all runs.
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
        let failed = |why| Failure::Missing(format!("{}: {why}", path.display()));
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        // A run that is killed in the middle of it leaves the old one.
        let new = path.with_extension("new");
        std::fs::write(&new, text).map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)
    }

    /// After the last pass there is nothing to go on with.
    pub(super) fn forget(stamp: &Stamp) {
        // It may never have been written.
        let _ = std::fs::remove_file(stamp.file());
    }

    pub(super) fn has(&self, (round, pattern): (u32, Pattern)) -> bool {
        let mut passes = self.passes.iter();
        passes.any(|pass| pass.round == round && pass.pattern == pattern)
    }

    /// How long a pass of a pattern has taken at most.
    pub(super) fn expected(&self, pattern: Pattern) -> Option<Duration> {
        let of = self.passes.iter().filter(|pass| pass.pattern == pattern);
        let longest = of.map(|pass| pass.seconds).max_by(f64::total_cmp)?;
        Some(Duration::from_secs_f64(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_known_by_round_and_pattern() {
        let mut state = State::new(&Plan::new(Kind::Peers, true, None, None));
        let mut pass = Pass::new(1, Pattern::Rate, None);
        pass.seconds = 2.0;
        state.passes.push(pass);
        assert!(state.has((1, Pattern::Rate)));
        assert!(!state.has((2, Pattern::Rate)) && !state.has((1, Pattern::Latency)));
        assert_eq!(state.expected(Pattern::Rate), Some(Duration::from_secs(2)));
        assert_eq!(state.expected(Pattern::Latency), None);
    }

    #[test]
    fn a_stamp_tells_what_was_built_anew() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let plan = Plan::new(Kind::Mpi, true, None, None);
        let stamp = || {
            Stamp::new(
                &plan,
                &[0, 1],
                vec!["a".to_owned()],
                &[file.path().to_owned()],
            )
        };
        let before = stamp();
        assert_eq!(before, stamp());
        std::fs::write(file.path(), "more").expect("writable");
        assert_ne!(before, stamp());
    }
}
