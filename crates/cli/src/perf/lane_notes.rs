//! What rows over verbs say about each other.

use limic_measure::lanes::VerbsLane;

use super::report::Row;

/// What more streams, and rings, gain over one stream and none at each size, other things being
/// equal.
pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows {
        let Some(lane) = row.verbs else { continue };
        let one = VerbsLane { streams: 1, ..lane };
        let none = VerbsLane { rings: 0, ..lane };
        for (other, than) in [(one, "one stream"), (none, "no rings")] {
            if other == lane {
                continue;
            }
            if let Some(base) = beside(rows, row, other) {
                notes.push(format!(
                    "{}, {}: {:.2} x the time of {than}, {:.2} x its bytes per time",
                    lane.name(),
                    messages(row),
                    row.time_us / base.time_us,
                    row.msgs_per_s / base.msgs_per_s,
                ));
            }
        }
    }
    notes
}

/// The row over another lane that is like a row in everything else.
fn beside<'a>(rows: &'a [Row], row: &Row, lane: VerbsLane) -> Option<&'a Row> {
    let like = |other: &&Row| (other.bytes, other.reuse) == (row.bytes, row.reuse);
    let mut rows = rows.iter().filter(like);
    rows.find(|other| other.verbs == Some(lane))
}

/// `8 bytes, reuse on`
fn messages(row: &Row) -> String {
    let reuse = match row.reuse {
        None => "",
        Some(true) => ", reuse on",
        Some(false) => ", reuse off",
    };
    format!("{} bytes{reuse}", row.bytes)
}

/// What coalescing gains at each number of entries and each size, and how that compares with many
/// entries without it: the claim of the paper's figure 4.
pub(super) fn judge(rows: &[Row]) -> Vec<String> {
    let find = |row: &Row, lane| beside(rows, row, lane).map(|other| other.msgs_per_s);
    let most = |row: &Row| {
        let others = rows.iter().filter_map(|other| other.verbs);
        let plain = others.filter(|lane| !lane.coalesce);
        let alike = |lane: &VerbsLane| (lane.streams, lane.rings);
        let same = plain.filter(|lane| Some(alike(lane)) == row.verbs.as_ref().map(alike));
        same.max_by_key(|lane| lane.entries)
    };
    let mut notes = Vec::new();
    for row in rows {
        let Some(lane) = row.verbs.filter(|lane| lane.coalesce) else {
            continue;
        };
        let without = VerbsLane {
            coalesce: false,
            ..lane
        };
        let (Some(plain), Some(most)) = (find(row, without), most(row)) else {
            continue;
        };
        let Some(best) = find(row, most) else {
            continue;
        };
        notes.push(format!(
            "{} entries, {}: coalescing gives {:.2} x the rate of the same entries without, {:.2} x that of {} entries without",
            lane.entries,
            messages(row),
            row.msgs_per_s / plain,
            row.msgs_per_s / best,
            most.entries,
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use limic_measure::numbers::Spread;

    use super::*;

    fn row(reuse: bool, coalesce: bool, streams: u8, time_us: f64) -> Row {
        Row {
            reuse: Some(reuse),
            verbs: Some(VerbsLane {
                entries: 16,
                coalesce,
                streams,
                rings: 0,
            }),
            ..Row::new("pairs", "hybrid", 2, 8, Spread::of(&[time_us]), 1.0)
        }
    }

    #[test]
    fn rows_are_compared_where_buffers_are_used_alike() {
        let rows = [
            row(true, true, 1, 2.0),
            row(true, false, 1, 4.0),
            row(false, true, 1, 10.0),
            row(false, false, 1, 40.0),
            row(false, false, 2, 10.0),
        ];
        let gain = |reuse, gain| {
            format!(
                "16 entries, 8 bytes, reuse {reuse}: coalescing gives {gain} x the rate of the \
                 same entries without, {gain} x that of 16 entries without"
            )
        };
        assert_eq!(judge(&rows), [gain("on", "2.00"), gain("off", "4.00")]);
        let streams = "16 entries, coalescing off, 2 streams, rings 0, 8 bytes, reuse off: 0.25 x \
                       the time of one stream, 4.00 x its bytes per time";
        assert_eq!(compare(&rows), [streams]);
    }
}
