//! Properties of the table and its look-up.

use std::borrow::Cow;

use proptest::prelude::*;

use crate::{
    Capabilities, Locality, Path, PathSet, Query, ReceiverPace, Row, RowSource, Table, TableError,
    Thresholds,
};

fn localities() -> impl Strategy<Value = Locality> {
    proptest::sample::select(&Locality::ALL[..])
}

fn settable() -> impl Strategy<Value = Path> {
    proptest::sample::select(Path::settable().collect::<Vec<_>>())
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, 0..200_000_u64, any::<u64>(), Just(u64::MAX)]
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    (proptest::collection::vec(settable(), 0..10), 0..100_000_u64).prop_map(|(paths, max_eager)| {
        Capabilities {
            paths: paths.into_iter().collect(),
            max_eager,
        }
    })
}

fn queries() -> impl Strategy<Value = Query> {
    let pace = prop_oneof![Just(ReceiverPace::Steady), Just(ReceiverPace::Slow)];
    (lengths(), localities(), pace, any::<bool>(), capabilities()).prop_map(
        |(bytes, locality, pace, vectored, capabilities)| Query {
            bytes,
            locality,
            pace,
            vectored,
            peer_readable: false,
            capabilities,
        },
    )
}

/// The built-in table with random changes over it.
pub(crate) fn tables() -> impl Strategy<Value = Table> {
    let patch = proptest::collection::vec(
        (
            localities(),
            proptest::sample::select(&ReceiverPace::ALL[..]),
            lengths(),
            settable(),
        ),
        0..8,
    );
    let edits = proptest::collection::vec(
        prop_oneof![
            lengths().prop_map(|n| (0, n)),
            lengths().prop_map(|n| (1, n)),
            (0..3_u64).prop_map(|n| (2, n)),
        ],
        0..5,
    );
    (patch, edits).prop_map(|(patch, edits)| {
        let rows = patch
            .into_iter()
            .map(|(locality, when, up_to_bytes, path)| Row {
                locality,
                when,
                up_to_bytes,
                path,
                source: RowSource::Profile,
                reason: Cow::Borrowed("drawn"),
            });
        let mut table = Table::built_in();
        for row in rows {
            table = table.overlaid(vec![row]).expect("one row cannot end twice");
        }
        for (kind, n) in edits {
            let source = &RowSource::Application;
            table = match kind {
                0 => table.with_inline_max(n, source),
                1 => table.with_eager_max(n, source),
                _ => {
                    let path = [Path::Pipeline, Path::Cma, Path::SplitCopy]
                        [usize::try_from(n).expect("drawn to fit")];
                    table.with_long_path(path, source)
                }
            };
        }
        table
    })
}

proptest! {
    #[test]
    fn every_length_has_exactly_one_row(table in tables(), locality in localities(), bytes in lengths()) {
        for when in ReceiverPace::ALL {
            let run = table.run(locality, when);
            let mut from = 0_u128;
            let mut hits = 0;
            for row in run {
                prop_assert!(u128::from(row.up_to_bytes) >= from, "empty or unsorted: {row:?}");
                prop_assert_eq!((row.locality, row.when), (locality, when));
                if (from..=u128::from(row.up_to_bytes)).contains(&u128::from(bytes)) {
                    hits += 1;
                }
                from = u128::from(row.up_to_bytes) + 1;
            }
            prop_assert_eq!(hits, 1);
            prop_assert_eq!(from, u128::from(u64::MAX) + 1);
        }
    }

    #[test]
    fn a_chosen_path_is_one_that_the_pair_can_take(table in tables(), query in queries()) {
        if let Some(path) = table.choose(&query) {
            prop_assert!(query.capabilities.paths.contains(path));
            let refusal =
                query.capabilities.refusal(path, query.bytes, query.locality, query.vectored);
            prop_assert_eq!(refusal, None);
        }
    }

    #[test]
    fn a_pair_with_the_pipeline_always_has_a_path(table in tables(), mut query in queries()) {
        query.capabilities.paths = query.capabilities.paths.with(Path::Pipeline);
        prop_assert!(table.choose(&query).is_some());
    }

    #[test]
    fn thresholds_say_what_the_table_says(
        table in tables(),
        mut query in queries(),
        lengths in proptest::collection::vec(lengths(), 20),
    ) {
        query.vectored = false;
        let Query { locality, pace, capabilities, .. } = query;
        let thresholds = table.thresholds(locality, pace, &capabilities);
        let Thresholds { inline_below, eager_below, pipeline_below } = thresholds;
        prop_assert!(inline_below <= eager_below && eager_below <= pipeline_below);
        let edges = [inline_below, eager_below, pipeline_below].map(|n| [n.saturating_sub(1), n]).concat();
        for bytes in lengths.into_iter().chain(edges) {
            query.bytes = bytes;
            let path = if bytes < inline_below {
                Path::Inline
            } else if bytes < eager_below {
                Path::Eager
            } else {
                Path::Pipeline
            };
            if bytes < pipeline_below {
                prop_assert_eq!(table.choose(&query), Some(path), "{}", bytes);
            }
        }
    }

    #[test]
    fn longer_messages_never_go_back_to_a_shorter_path(
        locality in localities(),
        capabilities in capabilities(),
        a in lengths(),
        b in lengths(),
    ) {
        let rank = |path: Path| if path.is_rendezvous() { Path::Pipeline } else { path };
        let table = Table::built_in();
        let mut query = Query { capabilities, ..Query::new(a.min(b), locality) };
        let shorter = table.choose(&query);
        query.bytes = a.max(b);
        if let (Some(shorter), Some(longer)) = (shorter, table.choose(&query))
            && (longer == Path::Inline || longer == Path::Eager)
        {
            prop_assert!(rank(shorter) <= rank(longer));
        }
    }
}

#[test]
fn single_copy_gives_way_to_the_pipeline_first() {
    let application = &RowSource::Application;
    for long in [Path::Cma, Path::SplitCopy] {
        let table = Table::built_in().with_long_path(long, application);
        let mut query = Query::new(1 << 20, Locality::SharedCache);
        assert_eq!(table.choose(&query), Some(long));
        query.capabilities.demote(long);
        assert_eq!(table.choose(&query), Some(Path::Pipeline));
    }
}

#[test]
fn allowed_paths_alone_are_found() {
    let table = Table::built_in();
    for path in [Path::Pipeline, Path::Cma, Path::SplitCopy, Path::Eager] {
        for bytes in [0, 8, 5000] {
            let mut query = Query::new(bytes, Locality::SamePackage);
            query.capabilities.paths = PathSet::EMPTY.with(path);
            assert_eq!(table.choose(&query), Some(path), "{path} {bytes}");
        }
    }
}

#[test]
fn the_ring_caps_eager_messages() {
    let table = Table::built_in();
    let mut query = Query::new(3000, Locality::SharedCache);
    query.capabilities.max_eager = 2999;
    assert_eq!(table.choose(&query), Some(Path::Pipeline));
    query.bytes = 2999;
    assert_eq!(table.choose(&query), Some(Path::Eager));
    let thresholds = table.thresholds(
        Locality::SharedCache,
        ReceiverPace::Steady,
        &query.capabilities,
    );
    assert_eq!(
        thresholds,
        Thresholds {
            inline_below: 49,
            eager_below: 3000,
            pipeline_below: u64::MAX,
        }
    );
}

#[test]
fn skew_raises_the_eager_limit_to_what_fits() {
    let table = Table::built_in();
    let mut query = Query::new(32 << 10, Locality::OtherPackage);
    assert_eq!(table.choose(&query), Some(Path::Cma));
    query.pace = ReceiverPace::Slow;
    assert_eq!(table.choose(&query), Some(Path::Eager));
    query.capabilities.max_eager = 16 << 10;
    assert_eq!(table.choose(&query), Some(Path::SplitCopy));
    query.capabilities.demote(Path::SplitCopy);
    assert_eq!(table.choose(&query), Some(Path::Pipeline));
}

#[test]
fn rows_that_make_no_table_are_refused() {
    let rows = Table::built_in().rows().to_vec();
    let mut open = rows.clone();
    open.retain(|r| (r.locality, r.path) != (Locality::SharedCache, Path::Pipeline));
    assert_eq!(
        Table::from_rows(open),
        Err(TableError::NotTotal {
            locality: Locality::SharedCache,
            when: ReceiverPace::Steady
        })
    );
    let mut twice = rows;
    twice.push(twice[0].clone());
    let error = Table::from_rows(twice)
        .expect_err("two rows of one length")
        .to_string();
    assert_eq!(
        error,
        "two rows for self, usual end at unlimited; give each its own length"
    );
    assert!(Table::from_rows(Vec::new()).is_err());
}

#[test]
fn the_built_in_table_prints_as_documented() {
    let want = include_str!("builtin_table.txt");
    assert_eq!(
        Table::built_in().to_string(),
        want,
        "\n{}",
        Table::built_in()
    );
}
