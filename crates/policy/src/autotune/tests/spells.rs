//! Which spells say something of their candidate, and what goes while they do not.

use std::collections::VecDeque;

use super::*;

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
    let mut under_way = VecDeque::new();
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

/// However fast that is.
#[test]
fn what_falls_back_says_nothing_of_the_path_on_trial() {
    let bytes = 256 << 10;
    let mut run = Run::new();
    let mut settled = false;
    for _ in 0..400 {
        let (candidate, spell, _) = run
            .autotuner
            .start(bytes, Path::Cma, PathSet::ALL, || run.now);
        let falls_back = candidate.path == Path::Kmod;
        if falls_back {
            run.autotuner.fell_back(spell);
        }
        run.now += if falls_back { 1_000 } else { 50_000 };
        run.autotuner.finish(spell, bytes, || run.now);
        settled |= run.autotuner.is_settled(bytes, Path::Cma, PathSet::ALL);
    }
    assert_eq!(run.tuned(), []);
    assert!(settled, "it has lost a try, as the others have");
}

/// A stream of messages that are offered long before they begin, in a table of cross-memory attach,
/// with a module of this speed. A sender that exposes its bytes at all does so from the next offer
/// on after one was wanted by the module; others go by the pipeline.
fn stream_with_a_module(kmod: f64, exposes: bool, ahead: usize) -> Run {
    let bytes = 256 << 10;
    let mut run = Run::new();
    let (mut offers, mut under_way) = (VecDeque::new(), VecDeque::new());
    let mut wanted = false;
    for _ in 0..60_000 {
        offers.push_back(exposes && wanted);
        if offers.len() <= ahead {
            continue;
        }
        let exposed = offers.pop_front().expect("not empty");
        let (candidate, spell, switch) =
            run.autotuner
                .start(bytes, Path::Cma, PathSet::ALL, || run.now);
        run.switches.extend(switch);
        run.taken[candidate.path.index()] += 1;
        wanted = candidate.path == Path::Kmod;
        let speed = match candidate.path {
            Path::Kmod if exposed => kmod,
            Path::Kmod => {
                run.autotuner.fell_back(spell);
                CMA_WINS.pipeline
            }
            other => CMA_WINS.of(other),
        };
        under_way.push_back((speed, spell));
        if under_way.len() > 4 {
            let (speed, spell) = under_way.pop_front().expect("not empty");
            let speeds = Speeds {
                pipeline: speed,
                ..CMA_WINS
            };
            run.arrives(speeds, Candidate::by(Path::Pipeline), spell, bytes);
        }
    }
    run
}

#[test]
fn the_module_is_judged_by_what_it_has_moved() {
    for ahead in [0, 8, 64] {
        let run = stream_with_a_module(2.0 * CMA_WINS.cma, true, ahead);
        let found = [(256 << 10, Candidate::by(Path::Kmod))];
        assert_eq!(run.tuned(), found, "{ahead} offers ahead");
        for (kmod, exposes) in [(CMA_WINS.cma / 2.0, true), (2.0 * CMA_WINS.cma, false)] {
            let run = stream_with_a_module(kmod, exposes, ahead);
            assert_eq!(run.tuned(), [], "{ahead} offers ahead");
            let tried = run.taken[Path::Kmod.index()];
            assert!(
                (1..1000).contains(&tried),
                "{tried} with {ahead} offers ahead"
            );
        }
    }
}
