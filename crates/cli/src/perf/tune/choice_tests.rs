//! Rows from figures that are made up.

use limic::settings::Settings;

use super::*;

const HERE: Locality = Locality::SharedCache;

fn times(seconds: f64) -> Times {
    Times {
        ping_pong: seconds,
        stream: seconds,
    }
}

/// Sizes from 64 to 4M, each way with its time in seconds.
fn measured(time: impl Fn(Path, u64) -> Option<f64>) -> Measured {
    let ways = [
        (Path::Eager, 0),
        (Path::Pipeline, PIPELINE_FRAGMENT),
        (Path::Cma, 0),
        (Path::SplitCopy, 0),
    ];
    (6..=22)
        .map(|log| {
            let bytes = 1_u64 << log;
            let of = |(path, fragment_bytes): (Path, u32)| {
                let way = Way {
                    path,
                    fragment_bytes,
                };
                Some((way, times(time(path, bytes)?)))
            };
            (bytes, ways.into_iter().filter_map(of).collect())
        })
        .collect()
}

/// A table with these rows: they must fit together.
fn table(rows: Vec<Row>) -> Table {
    let settings = Settings::builder().without_environment().rows(rows).build();
    settings.expect("rows that fit together").policy().clone()
}

fn path(table: &Table, bytes: u64, pace: ReceiverPace) -> Path {
    let query = Query {
        pace,
        ..Query::new(bytes, HERE)
    };
    table.choose(&query).expect("everything can be done")
}

/// The machine that the built-in table is made for: eager up to 64K, then the pipeline.
fn as_built_in(path: Path, bytes: u64) -> Option<f64> {
    let n = bytes as f64;
    match path {
        Path::Eager => (bytes <= 64 << 10).then_some(1e-7 + n * 0.9e-10),
        Path::Pipeline => Some(1e-6 + n * 1e-10),
        Path::SplitCopy => Some(4.5e-6 + n * 1.2e-10),
        _ => Some(2e-6 + n * 3e-10),
    }
}

#[test]
fn nothing_changes_where_nothing_wins() {
    let table = table(rows(HERE, &measured(as_built_in), PIPELINE_FRAGMENT, &[]));
    for log in 0..=26 {
        let bytes = 1 << log;
        assert_eq!(
            path(&table, bytes, ReceiverPace::Steady),
            built_in(HERE, bytes),
            "{bytes}"
        );
    }
    assert_eq!(path(&table, 32 << 10, ReceiverPace::Slow), Path::Eager);
    assert_eq!(path(&table, 256 << 10, ReceiverPace::Slow), Path::Eager);
    assert_eq!(path(&table, 512 << 10, ReceiverPace::Slow), Path::Pipeline);
}

#[test]
fn single_copy_is_taken_where_it_wins() {
    let rows = rows(
        HERE,
        &measured(|path, bytes| match path {
            Path::Cma => Some(1.5e-6 + bytes as f64 * 0.5e-10),
            _ => as_built_in(path, bytes),
        }),
        PIPELINE_FRAGMENT,
        &[],
    );
    assert!(rows.iter().all(|row| row.source == RowSource::Profile));
    let table = table(rows);
    assert_eq!(path(&table, 8 << 10, ReceiverPace::Steady), Path::Eager);
    assert_eq!(path(&table, 1 << 20, ReceiverPace::Steady), Path::Cma);
    assert_eq!(path(&table, 1 << 30, ReceiverPace::Steady), Path::Cma);
    assert_eq!(path(&table, 1 << 20, ReceiverPace::Slow), Path::Cma);
}

#[test]
fn the_eager_limit_follows_the_figures() {
    let eager_wins_up_to = |limit: u64| {
        let time = move |path: Path, bytes: u64| match path {
            Path::Eager if bytes <= 64 << 10 => Some(if bytes <= limit { 1e-7 } else { 1e-4 }),
            Path::Eager => None,
            Path::Pipeline => Some(1e-5),
            _ => Some(1e-3),
        };
        table(rows(HERE, &measured(time), PIPELINE_FRAGMENT, &[]))
    };
    let table = eager_wins_up_to(16 << 10);
    assert_eq!(path(&table, 16 << 10, ReceiverPace::Steady), Path::Eager);
    assert_eq!(path(&table, 17 << 10, ReceiverPace::Steady), Path::Pipeline);
    let table = eager_wins_up_to(1 << 10);
    assert_eq!(path(&table, 1 << 10, ReceiverPace::Steady), Path::Eager);
    assert_eq!(path(&table, 2 << 10, ReceiverPace::Steady), Path::Pipeline);
}

#[test]
fn what_may_not_go_eagerly_behind_longer_ones_goes_by_the_best_of_the_rest() {
    let time = |path: Path, bytes: u64| match path {
        // Clearly worse from 2 KiB on, and again nearly as good from 16 KiB on.
        Path::Eager if bytes > 64 << 10 => None,
        Path::Eager if (2 << 10..16 << 10).contains(&bytes) => Some(1e-4),
        Path::Eager => Some(1e-6),
        Path::Cma if bytes > 1 << 10 => Some(0.97e-6),
        _ => Some(1e-5),
    };
    let table = table(rows(HERE, &measured(time), PIPELINE_FRAGMENT, &[]));
    assert_eq!(path(&table, 1 << 10, ReceiverPace::Steady), Path::Eager);
    for kib in [2, 8, 16, 32] {
        assert_eq!(
            path(&table, kib << 10, ReceiverPace::Steady),
            Path::Cma,
            "{kib} KiB"
        );
    }
}

#[test]
fn one_size_alone_is_an_accident() {
    let outlier = |path: Path, bytes: u64| match (path, bytes) {
        (Path::Cma, 0x40000) => Some(1e-9),
        _ => as_built_in(path, bytes),
    };
    let table = table(rows(HERE, &measured(outlier), PIPELINE_FRAGMENT, &[]));
    assert_eq!(
        path(&table, 256 << 10, ReceiverPace::Steady),
        Path::Pipeline
    );
}

#[test]
fn a_win_in_one_pattern_does_not_pay_for_a_loss_in_the_other() {
    let mut measured = measured(as_built_in);
    for ways in measured.values_mut() {
        let split_copy = ways[&Way {
            path: Path::SplitCopy,
            fragment_bytes: 0,
        }];
        let cma = Way {
            path: Path::Cma,
            fragment_bytes: 0,
        };
        ways.insert(
            cma,
            Times {
                ping_pong: split_copy.ping_pong * 1.5,
                stream: split_copy.stream * 0.3,
            },
        );
    }
    let table = table(rows(HERE, &measured, fragment(&measured), &[]));
    assert_eq!(path(&table, 1 << 20, ReceiverPace::Steady), Path::Pipeline);
}

#[test]
fn kept_sizes_stay_built_in() {
    let cma_wins = |path: Path, bytes: u64| match path {
        Path::Cma => Some(1e-8),
        _ => as_built_in(path, bytes),
    };
    let kept: Vec<u64> = (14..=18).map(|log| 1 << log).collect();
    let table = table(rows(HERE, &measured(cma_wins), PIPELINE_FRAGMENT, &kept));
    assert_eq!(path(&table, 64 << 10, ReceiverPace::Steady), Path::Pipeline);
    assert_eq!(path(&table, 1 << 20, ReceiverPace::Steady), Path::Cma);
}

#[test]
fn a_fragment_must_win_over_all_long_messages() {
    let mut measured = measured(as_built_in);
    let with = |measured: &mut Measured, factor: f64| {
        for (bytes, ways) in measured {
            let way = Way {
                path: Path::Pipeline,
                fragment_bytes: 64 << 10,
            };
            let time = as_built_in(Path::Pipeline, *bytes).expect("always measured");
            ways.insert(way, times(time * factor));
        }
    };
    with(&mut measured, 0.97);
    assert_eq!(fragment(&measured), PIPELINE_FRAGMENT);
    with(&mut measured, 0.8);
    assert_eq!(fragment(&measured), 64 << 10);
}

#[test]
fn whatever_was_measured_the_rows_make_a_table() {
    // Every size takes another path than its neighbours: nothing of that is to be believed.
    for seed in 0..200_u64 {
        let random = |path: Path, bytes: u64| {
            let mixed = (seed + 1)
                .wrapping_mul(bytes ^ path.index() as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let missing = mixed % 7 == 0 || (path == Path::Eager && bytes > 16 << 10);
            (!missing).then_some(1e-7 + (mixed >> 40) as f64 * 1e-12)
        };
        let table = table(rows(HERE, &measured(random), PIPELINE_FRAGMENT, &[]));
        let run = table.run(HERE, ReceiverPace::Steady);
        let eager = run.iter().filter(|row| row.path == Path::Eager).count();
        assert!(eager <= 1, "{table}");
    }
}
