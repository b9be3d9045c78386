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
            let same =
                |other: VerbsLane| move |r: &&Row| r.bytes == row.bytes && r.verbs == Some(other);
            if other == lane {
                continue;
            }
            if let Some(base) = rows.iter().find(same(other)) {
                notes.push(format!(
                    "{}, {} bytes: {:.2} x the time of {than}, {:.2} x its bytes per time",
                    lane.name(),
                    row.bytes,
                    row.time_us / base.time_us,
                    row.msgs_per_s / base.msgs_per_s,
                ));
            }
        }
    }
    notes
}

/// What coalescing gains at each number of entries and each size, and how that compares with many
/// entries without it: the claim of the paper's figure 4.
pub(super) fn judge(rows: &[Row]) -> Vec<String> {
    let find = |bytes: u64, lane: VerbsLane| {
        let rate = |row: &&Row| row.bytes == bytes && row.verbs == Some(lane);
        rows.iter().find(rate).map(|row| row.msgs_per_s)
    };
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
        let (Some(plain), Some(most)) = (find(row.bytes, without), most(row)) else {
            continue;
        };
        let Some(best) = find(row.bytes, most) else {
            continue;
        };
        notes.push(format!(
            "{} entries, {} bytes: coalescing gives {:.2} x the rate of the same entries without, {:.2} x that of {} entries without",
            lane.entries,
            row.bytes,
            row.msgs_per_s / plain,
            row.msgs_per_s / best,
            most.entries,
        ));
    }
    notes
}
