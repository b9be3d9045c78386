//! Cliffs: by how much the time of a message grows when its size doubles.
//!
//! The sizes are all powers of two, one byte less and one byte more, since paths change at round
//! sizes. Each is compared with the longest one that is at most half as long, both in the same
//! round: what disturbs the machine for longer than the moment between the two then slows both.

use limic::settings::ByteSize;
use limic_measure::lanes::VerbsLane;
use limic_measure::numbers::{Spread, significant};
use limic_measure::sizes::SizeList;

use super::report::{Report, Row};

/// Twice the bytes may take two and a half times as long; what is above is a cliff.
const STEEP: f64 = 2.5;

/// All powers of two from 8 bytes to 4 MiB, and their neighbours.
pub(super) fn sizes() -> SizeList {
    let powers = SizeList::powers(8, 4 << 20);
    let around: Vec<usize> = powers
        .as_slice()
        .iter()
        .flat_map(|size| [size - 1, *size, size + 1])
        .collect();
    SizeList::of(&around)
}

/// Whether a row's time is one; the table marks it.
pub(super) fn is_cliff(growth: f64) -> bool {
    growth > STEEP
}

/// Enters the growth into each row, and a note for each cliff.
pub(super) fn judge(report: &mut Report) {
    let rows = &report.rows;
    let growths: Vec<Option<f64>> = rows
        .iter()
        .map(|row| Some(growth(row, half(rows, row)?)))
        .collect();
    let judged = growths.iter().flatten().count();
    let cliffs: Vec<String> = rows
        .iter()
        .zip(&growths)
        .filter_map(|(row, growth)| {
            let growth = growth.filter(|growth| is_cliff(*growth))?;
            Some(explain(row, half(rows, row)?, growth))
        })
        .collect();
    let mut notes = vec![if cliffs.is_empty() {
        format!("no cliff: none of {judged} times is more than {STEEP} times that of half the size")
    } else {
        format!(
            "{} of {judged} times are cliffs: more than {STEEP} times that of half the size",
            cliffs.len()
        )
    }];
    notes.extend(cliffs);
    for (row, growth) in report.rows.iter_mut().zip(growths) {
        row.growth = growth;
    }
    report.notes.extend(notes);
}

/// By how much a message takes longer than one half as long: the median of the rounds.
fn growth(row: &Row, half: &Row) -> f64 {
    let each: Vec<f64> = (row.each_us.iter().zip(&half.each_us))
        .map(|(long, short)| long / short)
        .collect();
    Spread::of(&each).median
}

/// Both times with their paths, and whether it is one in the best rounds too: what is not comes and
/// goes with the machine, or with a path that was changed meanwhile.
fn explain(row: &Row, half: &Row, growth: f64) -> String {
    let side = |row: &Row| {
        format!(
            "{} takes {} us by {}",
            ByteSize(row.bytes),
            significant(row.time_us),
            row.path
        )
    };
    let best = row.time_us_min / half.time_us_min;
    let sure = if is_cliff(best) {
        String::new()
    } else {
        format!("; not in the best rounds ({best:.2} times)")
    };
    let lane = row.verbs.map(VerbsLane::name);
    format!(
        "cliff: {}: {}, {}: {growth:.2} times{sure}",
        lane.as_deref().unwrap_or(row.wanted),
        side(half),
        side(row),
    )
}

/// The longest measured message that is at most half as long, and goes the same way.
fn half<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    let way = |row: &Row| (row.wanted, row.verbs, row.reuse);
    rows.iter()
        .filter(|other| way(other) == way(row) && other.bytes <= row.bytes / 2)
        .max_by_key(|other| other.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: usize, time_us: f64) -> Row {
        Row {
            path: "eager".to_owned(),
            each_us: vec![time_us],
            ..Row::new("cliffs", "hybrid", 2, bytes, Spread::of(&[time_us]), 1.0)
        }
    }

    #[test]
    fn sizes_come_in_threes() {
        let sizes = sizes();
        assert_eq!(sizes.as_slice()[..6], [7, 8, 9, 15, 16, 17]);
        assert_eq!(sizes.longest(), (4 << 20) + 1);
    }

    #[test]
    fn each_size_is_compared_with_the_one_half_as_long() {
        let rows = [
            row(8, 1.0),
            row(9, 1.0),
            row(16, 2.0),
            row(17, 3.0),
            row(18, 2.0),
        ];
        let halves = rows
            .iter()
            .map(|row| half(&rows, row).map(|half| half.bytes));
        assert_eq!(
            halves.collect::<Vec<_>>(),
            [None, None, Some(8), Some(8), Some(9)]
        );
    }

    #[test]
    fn a_size_is_compared_within_its_own_lane_over_verbs() {
        let over = |streams, bytes| Row {
            verbs: Some(VerbsLane {
                entries: 16,
                coalesce: false,
                streams,
                rings: 0,
            }),
            ..row(bytes, f64::from(streams))
        };
        let rows = [over(1, 8), over(2, 8), over(1, 16), over(2, 16)];
        let streams = |row: &Row| row.verbs.map(|lane| lane.streams);
        for long in &rows[2..] {
            let half = half(&rows, long).expect("the one of 8 bytes");
            assert_eq!(streams(half), streams(long));
        }
        let told = explain(&rows[2], &rows[0], 1.0);
        let lane = "cliff: 16 entries, coalescing off, 1 stream, rings 0: 8 takes";
        assert!(told.starts_with(lane), "{told}");
    }

    #[test]
    fn what_slows_both_sizes_for_some_rounds_is_no_cliff() {
        let rounds = |each: [f64; 3]| Row {
            each_us: each.to_vec(),
            ..row(8, Spread::of(&each).median)
        };
        let (short, long) = (rounds([10.0, 10.0, 50.0]), rounds([20.0, 90.0, 100.0]));
        assert!(long.time_us / short.time_us > STEEP);
        assert_eq!(growth(&long, &short), 2.0);
    }

    #[test]
    fn a_cliff_is_told_with_both_sides() {
        let mut long = row(2048, 30.0);
        let short = row(1024, 10.0);
        let told = explain(&long, &short, growth(&long, &short));
        assert_eq!(
            told,
            "cliff: hybrid: 1K takes 10.0 us by eager, 2K takes 30.0 us by eager: 3.00 times"
        );
        long.time_us_min = 20.0;
        let told = explain(&long, &short, 3.0);
        assert!(told.ends_with("3.00 times; not in the best rounds (2.00 times)"));
    }
}
