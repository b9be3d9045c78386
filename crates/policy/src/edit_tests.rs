//! What the edits leave.

use crate::{Locality, Path, Query, ReceiverPace, Row, RowSource, SLOW_RECEIVER_EAGER, Table};

fn path(table: &Table, bytes: u64, locality: Locality) -> Path {
    table
        .choose(&Query::new(bytes, locality))
        .expect("everything can be done")
}

#[test]
fn eager_limits_move_both_ways() {
    let source = RowSource::Environment("LIMIC_EAGER_MAX");
    let up = Table::built_in().with_eager_max(16 << 10, &source);
    let down = Table::built_in().with_eager_max(1000, &source);
    for locality in Locality::BETWEEN_PROCESSES {
        let long = path(&down, 64 << 10, locality);
        assert!(long.is_rendezvous());
        assert_eq!(path(&up, 16 << 10, locality), Path::Eager);
        assert_eq!(path(&up, (16 << 10) + 1, locality), long);
        assert_eq!(path(&down, 1000, locality), Path::Eager);
        assert_eq!(path(&down, 1001, locality), long);
        assert_eq!(path(&down, 48, locality), Path::Inline);
        let row = &up.run(locality, ReceiverPace::Steady)[1];
        assert_eq!(row.source, source);
        assert_eq!(row.reason, "eager limit set to 16K");
        // Towards a slow receiver the limit is only ever raised.
        assert_eq!(
            down.run(locality, ReceiverPace::Slow)[1].up_to_bytes,
            SLOW_RECEIVER_EAGER
        );
    }
    let off = Table::built_in().with_eager_max(0, &source);
    assert_eq!(path(&off, 49, Locality::SharedCache), Path::Pipeline);
    let long = Table::built_in().with_long_path(Path::Cma, &source);
    let all = long.with_eager_max(u64::MAX, &source);
    assert_eq!(path(&all, u64::MAX - 1, Locality::SharedCache), Path::Eager);
    let run = all.run(Locality::SharedCache, ReceiverPace::Steady);
    assert_eq!(run[1].reason, "eager limit set to unlimited");
    assert_eq!(run[2].path, Path::Cma, "for what the ring has no room for");
    let back = all.with_eager_max(10_000, &source);
    assert_eq!(path(&back, 10_001, Locality::SharedCache), Path::Cma);
}

#[test]
fn inline_limits_move_the_eager_rows_begin() {
    let source = RowSource::Application;
    let table = Table::built_in().with_inline_max(8, &source);
    assert_eq!(path(&table, 8, Locality::SharedCache), Path::Inline);
    assert_eq!(path(&table, 9, Locality::SharedCache), Path::Eager);
    let query = Query {
        pace: ReceiverPace::Slow,
        ..Query::new(9, Locality::SharedCache)
    };
    assert_eq!(table.choose(&query), Some(Path::Eager));
    // Above the eager limit nothing but inline is left below it; the slot caps it.
    let long = Table::built_in().with_inline_max(100_000, &source);
    assert_eq!(path(&long, 49, Locality::SharedCache), Path::Pipeline);
}

#[test]
fn long_messages_take_the_path_asked_for() {
    let source = RowSource::Environment("LIMIC_LONG");
    let table = Table::built_in().with_long_path(Path::Cma, &source);
    assert_eq!(path(&table, 1 << 20, Locality::OtherPackage), Path::Cma);
    assert_eq!(path(&table, 1000, Locality::OtherPackage), Path::Eager);
    assert_eq!(
        path(&table, 1 << 20, Locality::SameProcess),
        Path::SameProcess
    );
}

#[test]
fn overlaid_rows_hold_up_to_their_longest_length() {
    let row = |up_to_bytes, path| Row {
        locality: Locality::SharedCache,
        when: ReceiverPace::Steady,
        up_to_bytes,
        path,
        source: RowSource::Profile,
        reason: "measured".into(),
    };
    let table = Table::built_in()
        .overlaid(vec![
            row(32, Path::Inline),
            row(9000, Path::Eager),
            row(70_000, Path::Cma),
        ])
        .expect("three lengths");
    for (bytes, want) in [
        (32, Path::Inline),
        (33, Path::Eager),
        (9000, Path::Eager),
        (70_000, Path::Cma),
        (70_001, Path::Pipeline),
    ] {
        assert_eq!(path(&table, bytes, Locality::SharedCache), want, "{bytes}");
    }
    assert_eq!(
        path(&table, 48, Locality::SamePackage),
        Path::Inline,
        "others stay"
    );
    assert!(
        table
            .overlaid(vec![row(1, Path::Eager), row(1, Path::Cma)])
            .is_err()
    );
}
