//! The online correction against machines whose figures are known.

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

#[test]
fn a_path_is_not_judged_by_its_first_messages() {
    let bytes = 128 << 10;
    let mut run = Run::new();
    let warm = Speeds {
        pipeline: 5.0,
        cma: 6.0,
        both: 12.0,
    };
    // The pipeline has its memory, and can be tried.
    run.windows(warm, FIRST_TOUCHES, 1, 1, Path::Pipeline);
    run.windows(Speeds { both: 2.0, ..warm }, bytes, 19, 1, Path::SplitCopy);
    run.windows(warm, bytes, 400, 1, Path::SplitCopy);
    assert!(run.switches.is_empty(), "{:?}", run.switches);
}

#[test]
fn a_class_is_settled_once_each_other_path_has_lost() {
    let bytes = 1 << 20;
    let mut run = Run::new();
    let settled = |run: &Run, path| run.autotuner.is_settled(bytes, path, ALL);
    assert!(!settled(&run, Path::Pipeline));
    run.windows(PIPELINE_WINS, bytes, 10, 16, Path::Pipeline);
    assert!(!settled(&run, Path::Pipeline), "nothing else was tried");
    run.windows(PIPELINE_WINS, bytes, 100, 16, Path::Pipeline);
    assert!(settled(&run, Path::Pipeline));
    assert!(!settled(&run, Path::Cma));
    // The machine changes, and the others are tried anew.
    let slower = Speeds {
        pipeline: PIPELINE_WINS.pipeline / 4.0,
        ..PIPELINE_WINS
    };
    run.windows(slower, bytes, 100, 16, Path::Pipeline);
    assert!(!settled(&run, Path::Pipeline));
}

#[test]
fn a_class_is_settled_while_messages_go_both_ways() {
    let bytes = 1 << 20;
    let mut run = Run::new();
    let settled = |run: &Run| run.autotuner.is_settled(bytes, Path::Pipeline, ALL);
    let (candidate, spell, _) = run.autotuner.start(bytes, Path::Pipeline, ALL, || 0);
    assert!(!settled(&run));
    run.autotuner.answered(|| 0);
    run.arrives(PIPELINE_WINS, candidate, spell, bytes);
    assert!(settled(&run));
    run.windows(PIPELINE_WINS, bytes, 8, 2, Path::Pipeline);
    assert!(!settled(&run), "one way again");
}

#[test]
fn a_wrong_table_is_corrected_and_a_right_one_left_alone() {
    for deep in [1, 16] {
        let mut run = Run::new();
        let speeds = CMA_WINS;
        run.windows(speeds, 1 << 20, 2000, deep, Path::Pipeline);
        assert_eq!(
            run.tuned(),
            [(1 << 20, Candidate::by(Path::Cma))],
            "{deep} at a time"
        );
        assert_eq!(run.switches.len(), 1);

        let mut run = Run::new();
        let speeds = PIPELINE_WINS;
        run.windows(speeds, 1 << 20, 10_000, deep, Path::Pipeline);
        assert_eq!(run.tuned(), []);
        let tried = 10_000 * deep - run.taken[Path::Pipeline.index()];
        assert!(tried > 0, "never tried");
        // A try takes up to four times as long, and all of them together a 128th of the time.
        assert!(
            tried < 10_000 * deep / 100,
            "{tried} messages had a slow candidate"
        );
    }
}

#[test]
fn what_is_far_slower_costs_a_message_of_each_class_at_first() {
    let mut run = Run::new();
    let speeds = PIPELINE_WINS;
    let tried = |run: &Run| run.taken.iter().sum::<u32>() - run.taken[Path::Pipeline.index()];
    run.windows(speeds, 1 << 20, 50, 1, Path::Pipeline);
    assert!((2..=4).contains(&tried(&run)), "{}", tried(&run));
    // What was found out there holds for the next class too, for a while.
    let before = tried(&run);
    run.windows(speeds, 2 << 20, 50, 1, Path::Pipeline);
    assert_eq!(tried(&run), before);
}

/// A virtual machine's two processors come to run on one die again.
#[test]
fn what_becomes_faster_with_all_others_is_compared_with_them_again() {
    for deep in [1, 16] {
        let mut run = Run::new();
        let far = Speeds {
            pipeline: 2.0,
            cma: 5.0,
            both: 6.0,
        };
        run.windows(far, 1 << 20, 1000, deep, Path::Pipeline);
        assert_eq!(run.tuned(), [(1 << 20, Candidate::by(Path::SplitCopy))]);
        let near = Speeds {
            pipeline: 30.0,
            cma: 12.0,
            both: 23.0,
        };
        run.windows(near, 1 << 20, 60, deep, Path::Pipeline);
        assert_eq!(run.tuned(), [], "{deep} at a time");
    }
}

#[test]
fn classes_in_turn_are_measured_all() {
    let mut run = Run::new();
    let speeds = PIPELINE_WINS;
    let slow = Speeds {
        pipeline: 2.0,
        ..speeds
    };
    for speeds in [speeds, slow] {
        for _ in 0..300 {
            run.windows(speeds, 128 << 10, 1, 1, Path::Pipeline);
            run.windows(speeds, 256 << 10, 1, 1, Path::Pipeline);
        }
    }
    let corrected = run.tuned();
    assert_eq!(corrected.len(), 2, "{corrected:?}");
}

#[test]
fn a_stream_that_never_rests_is_corrected_too() {
    let mut run = Run::new();
    let speeds = CMA_WINS;
    let mut under_way = std::collections::VecDeque::new();
    for _ in 0..60_000 {
        let (candidate, spell, switch) =
            run.autotuner
                .start(256 << 10, Path::Pipeline, ALL, || run.now);
        run.switches.extend(switch);
        under_way.push_back((candidate, spell));
        if under_way.len() > 8 {
            let (candidate, spell) = under_way.pop_front().expect("not empty");
            run.arrives(speeds, candidate, spell, 256 << 10);
        }
    }
    assert_eq!(run.tuned(), [(256 << 10, Candidate::by(Path::Cma))]);
}

#[test]
fn a_small_advantage_is_no_reason() {
    let mut run = Run::new();
    let speeds = Speeds {
        pipeline: 10.0,
        cma: 10.8,
        both: 9.0,
    };
    run.windows(speeds, 1 << 20, 20_000, 1, Path::Pipeline);
    assert_eq!(run.tuned(), []);
}

#[test]
fn it_goes_back_when_the_machine_changes() {
    let mut run = Run::new();
    let fast = Speeds {
        pipeline: 3.0,
        cma: 9.0,
        both: 2.0,
    };
    run.windows(fast, 1 << 20, 2000, 1, Path::Pipeline);
    let slow = Speeds {
        pipeline: 9.0,
        cma: 3.0,
        both: 2.0,
    };
    run.windows(slow, 1 << 20, 100, 1, Path::Pipeline);
    assert_eq!(run.tuned(), []);
    assert_eq!(run.switches.len(), 2);
    run.windows(fast, 1 << 20, 100, 1, Path::Pipeline);
    assert_eq!(run.tuned(), [(1 << 20, Candidate::by(Path::Cma))]);
}

#[test]
fn a_wrong_table_is_corrected_within_a_few_dozen_messages() {
    for bytes in [256 << 10, 4 << 20] {
        let mut run = Run::new();
        let speeds = CMA_WINS;
        run.windows(speeds, bytes, 60, 1, Path::Pipeline);
        assert_eq!(run.tuned(), [(bytes, Candidate::by(Path::Cma))]);
    }
}

/// The path that wins may be the one that has not changed: it is seen because the others are tried
/// all the time.
#[test]
fn a_challenger_that_becomes_faster_is_found_in_time() {
    let mut run = Run::new();
    let far = Speeds {
        pipeline: 3.0,
        cma: 12.0,
        both: 9.0,
    };
    run.windows(far, 1 << 20, 2000, 1, Path::Pipeline);
    assert_eq!(run.tuned(), [(1 << 20, Candidate::by(Path::Cma))]);
    let near = Speeds {
        pipeline: 16.0,
        ..far
    };
    let before = run.now;
    while !run.tuned().is_empty() {
        run.windows(near, 1 << 20, 1, 1, Path::Pipeline);
        assert!(run.now - before < 500_000_000, "half a second of traffic");
    }
}

#[test]
fn classes_do_not_mix() {
    let mut run = Run::new();
    let speeds = CMA_WINS;
    run.windows(speeds, 1 << 20, 2000, 1, Path::Pipeline);
    assert_eq!(run.tuned(), [(1 << 20, Candidate::by(Path::Cma))]);
    // Another class, and messages below all of them, start from the table.
    let (candidate, ..) = run
        .autotuner
        .start(64 << 10, Path::Pipeline, ALL, || run.now);
    assert_eq!(candidate, Candidate::by(Path::Pipeline));
    let (candidate, ..) = run
        .autotuner
        .start(u64::MAX, Path::Pipeline, ALL, || run.now);
    assert_eq!(candidate, Candidate::by(Path::Pipeline));
}

#[test]
fn a_path_that_is_given_up_is_not_taken() {
    let mut run = Run::new();
    let speeds = CMA_WINS;
    run.windows(speeds, 1 << 20, 2000, 1, Path::Pipeline);
    let available = ALL.without(Path::Cma).without(Path::SplitCopy);
    for _ in 0..1000 {
        let (candidate, spell, _) = run
            .autotuner
            .start(1 << 20, Path::Pipeline, available, || run.now);
        assert_eq!(candidate, Candidate::by(Path::Pipeline));
        run.now += 1000;
        run.autotuner.finish(spell, 1 << 20, || run.now);
    }
    assert_eq!(run.tuned(), []);
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

/// What takes from the other direction looks faster than it is.
#[test]
fn nothing_is_learnt_while_messages_go_both_ways() {
    let speeds = CMA_WINS;
    let mut run = Run::new();
    for _ in 0..500 {
        let (candidate, spell, switch) = run
            .autotuner
            .start(1 << 20, Path::Pipeline, ALL, || run.now);
        run.switches.extend(switch);
        run.autotuner.answered(|| run.now);
        run.arrives(speeds, candidate, spell, 1 << 20);
    }
    assert_eq!(run.switches, []);
    // Once the other direction rests it is found out.
    run.windows(speeds, 1 << 20, 200, 1, Path::Pipeline);
    assert_eq!(run.tuned(), [(1 << 20, Candidate::by(Path::Cma))]);
    // Alternating messages are no two directions at once.
    let mut run = Run::new();
    for _ in 0..200 {
        run.windows(speeds, 1 << 20, 1, 1, Path::Pipeline);
        run.autotuner.answered(|| run.now);
    }
    assert_eq!(run.tuned(), [(1 << 20, Candidate::by(Path::Cma))]);
}

/// A split copy has two processors work for one direction.
#[test]
fn nothing_goes_by_split_copy_while_messages_go_both_ways() {
    let (bytes, table) = (512 << 10, Path::SplitCopy);
    let mut run = Run::new();
    let start = |run: &mut Run, available| run.autotuner.start(bytes, table, available, || 0);
    let (candidate, spell, _) = start(&mut run, ALL);
    assert_eq!(candidate.path, Path::SplitCopy);
    run.autotuner.answered(|| 0);
    let (candidate, second, _) = start(&mut run, ALL);
    assert_eq!(candidate.path, Path::Cma);
    let (candidate, ..) = run.autotuner.clone().start(2 * bytes, table, ALL, || 0);
    assert_eq!(candidate.path, Path::SplitCopy, "it is longer");
    let (candidate, third, _) = start(&mut run, ALL.without(Path::Cma));
    assert_eq!(candidate.path, Path::SplitCopy, "there is no other one");
    for spell in [spell, second, third] {
        run.arrives(PIPELINE_WINS, Candidate::by(table), spell, bytes);
    }
    run.windows(PIPELINE_WINS, bytes, QUIET, 1, table);
    let (candidate, ..) = start(&mut run, ALL);
    assert_eq!(candidate.path, Path::SplitCopy, "one way again");
}

/// The first messages of the pipeline touch its memory for the first time.
#[test]
fn first_touches_are_not_held_against_the_pipeline() {
    let mut run = Run::new();
    let cold = Speeds {
        pipeline: 3.0,
        cma: 12.0,
        both: 10.0,
    };
    run.windows(cold, 256 << 10, 16, 1, Path::Pipeline);
    let warm = Speeds {
        pipeline: 25.0,
        ..cold
    };
    run.windows(warm, 256 << 10, 500, 1, Path::Pipeline);
    assert_eq!(run.switches, []);
}

/// Others press on the cache, and later they do not.
#[test]
fn long_messages_are_written_past_the_caches_while_that_is_faster() {
    let past = Candidate {
        path: Path::Pipeline,
        non_temporal: true,
    };
    for deep in [1, 16] {
        let mut run = Run::new();
        run.past = 1.3;
        for bytes in [2 << 20, 4 << 20, 32 << 20] {
            run.windows(PIPELINE_WINS, bytes, 100, deep, Path::Pipeline);
        }
        let long = [(4 << 20, past), (32 << 20, past)];
        assert_eq!(run.tuned(), long, "{deep} at a time");
        // The next longer ones are written so from the beginning.
        run.windows(PIPELINE_WINS, 8 << 20, 1, deep, Path::Pipeline);
        assert!(run.tuned().contains(&(8 << 20, past)));
        run.past = PAST;
        let quiet = Speeds {
            pipeline: 30.0,
            ..PIPELINE_WINS
        };
        for bytes in [4 << 20, 8 << 20, 32 << 20] {
            run.windows(quiet, bytes, 100, deep, Path::Pipeline);
        }
        assert_eq!(run.tuned(), [], "{deep} at a time");
        assert_eq!(run.switches.len(), 5);
    }
}

/// It is a candidate by the pipeline: where another path is taken it is not tried.
#[test]
fn other_paths_have_no_such_candidate() {
    let mut run = Run::new();
    run.past = 100.0;
    run.windows(CMA_WINS, 16 << 20, 500, 1, Path::Cma);
    assert_eq!(run.tuned(), []);
}

#[test]
fn where_there_are_no_stores_past_the_caches_none_are_tried() {
    let mut run = Run::new();
    run.autotuner = Autotuner::new(false);
    run.past = 100.0;
    run.windows(PIPELINE_WINS, 16 << 20, 500, 1, Path::Pipeline);
    assert_eq!(run.tuned(), []);
}
