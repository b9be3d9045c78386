//! Which candidate is taken in the end: when another one wins, and what its tries cost.

use super::*;

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
