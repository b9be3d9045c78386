//! The online correction against machines whose figures are known: what is taken in the end
//! ([`choice`]), and what is learnt from which messages ([`spells`]).

mod choice;
mod spells;

use proptest::prelude::*;

use super::size_class::{CANDIDATES, LEAST_NON_TEMPORAL};
use super::*;

/// The machines here have no kernel module.
const ALL: PathSet = PathSet::ALL.without(Path::Kmod);

/// A machine: how many bytes each path moves in a nanosecond, with ordinary stores.
#[derive(Clone, Copy, Debug)]
struct Speeds {
    pipeline: f64,
    cma: f64,
    both: f64,
}

/// What stores past the caches make of it, where nobody disturbs.
const PAST: f64 = 0.9;

impl Speeds {
    fn of(&self, path: Path) -> f64 {
        match path {
            Path::Cma => self.cma,
            Path::SplitCopy => self.both,
            _ => self.pipeline,
        }
    }
}

const CMA_WINS: Speeds = Speeds {
    pipeline: 3.0,
    cma: 9.0,
    both: 5.0,
};
const PIPELINE_WINS: Speeds = Speeds {
    pipeline: 12.0,
    cma: 3.0,
    both: 4.0,
};

struct Run {
    autotuner: Autotuner,
    now: u64,
    taken: [u32; Path::ALL.len()],
    switches: Vec<Switch>,
    /// What stores past the caches make of a path's speed.
    past: f64,
}

impl Run {
    fn new() -> Self {
        Self {
            autotuner: Autotuner::new(true),
            now: 0,
            taken: [0; Path::ALL.len()],
            switches: Vec::new(),
            past: PAST,
        }
    }

    /// A message took so long by its candidate.
    fn arrives(&mut self, speeds: Speeds, candidate: Candidate, spell: u32, bytes: u64) {
        let past = if candidate.non_temporal {
            self.past
        } else {
            1.0
        };
        self.now += (bytes as f64 / (speeds.of(candidate.path) * past)) as u64 + 1;
        let now = self.now;
        self.switches
            .extend(self.autotuner.finish(spell, bytes, || now));
    }

    /// Windows of messages that are under way together.
    fn windows(&mut self, speeds: Speeds, bytes: u64, windows: u32, deep: u32, table: Path) {
        for _ in 0..windows {
            let mut windows = Vec::new();
            for _ in 0..deep {
                let (candidate, spell, switch) =
                    self.autotuner.start(bytes, table, ALL, || self.now);
                self.taken[candidate.path.index()] += 1;
                self.switches.extend(switch);
                windows.push((candidate, spell));
            }
            for (candidate, spell) in windows {
                self.arrives(speeds, candidate, spell, bytes);
            }
        }
    }

    fn tuned(&self) -> Vec<(u64, Candidate)> {
        self.autotuner.tuned().collect()
    }
}

proptest! {
    /// Whatever happens in whatever order, the path is one of those that can be taken, and with
    /// noise that is smaller than the margin it does not flap.
    #[test]
    fn it_takes_what_there_is_and_does_not_flap(
        steps in proptest::collection::vec((0..3, 0..24_u32, 0..100_000_u64), 1..600),
        table in proptest::sample::select(vec![Path::Pipeline, Path::SplitCopy]),
        cma: bool,
    ) {
        let mut autotuner = Autotuner::new(true);
        let mut under_way = Vec::new();
        let mut now = 0;
        let available = if cma { ALL } else { ALL.without(Path::Cma) };
        for (step, shift, time) in steps {
            now += time;
            if step == 0 {
                let bytes = LEAST_BYTES << shift;
                let (candidate, spell, _) = autotuner.start(bytes, table, available, || now);
                prop_assert!(available.contains(candidate.path) && CANDIDATES.contains(&candidate));
                prop_assert!(!candidate.non_temporal || bytes >= LEAST_NON_TEMPORAL);
                under_way.push((spell, bytes));
            } else if step == 1 {
                autotuner.answered(|| now);
            } else if let Some((spell, bytes)) = under_way.pop() {
                autotuner.finish(spell, bytes, || now);
            }
            prop_assert_eq!(autotuner.under_way as usize, under_way.len());
        }
    }

    #[test]
    fn noise_below_the_margin_changes_nothing(noise in proptest::collection::vec(0.96_f64..1.04, 500..1500)) {
        let mut run = Run::new();
        for factor in noise {
            let speeds = Speeds { pipeline: 10.0 * factor, cma: 10.0 / factor, both: 10.0 };
            run.windows(speeds, 1 << 20, 4, 1, Path::Pipeline);
        }
        prop_assert!(run.switches.len() <= 1, "{:?}", run.switches);
    }
}
