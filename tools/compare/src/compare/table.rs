//! The ratios as a table for the terminal.

use comfy_table::{CellAlignment, Table, presets};

use super::machine_state::Distance;
use super::ratio::{Judged, Ratio};
use super::report::{Report, Row, distances};
use super::subject::LIMIC;
use super::targets::Against;

/// The columns of a ratio.
pub(super) const RATIO: [&str; 4] = ["ratio", "in rounds", "rounds", "best rounds"];

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    for distance in distances(report.rows.iter().map(|row| row.distance)) {
        let rows = report.rows.iter().filter(|row| row.distance == distance);
        text.push_str(&title(distance));
        text.push_str(&of_distance(report, rows));
    }
    format!(
        "{text}\nRatios of limic to the best peer; times: less is better, MB/s and M/s: more is \
         better. Rank 1 is the best. No peer has loans, or follows skew: these are measured \
         against limic's own paths. To floor: limic over {}; \
         us below 1, or MB/s above 1: limic is faster.\n{}",
        report.run.floor(),
        report.run.closing(&report.score())
    )
}

/// The line above a table of one distance.
fn title(distance: Option<Distance>) -> String {
    distance.map_or_else(
        || "\n".to_owned(),
        |one| format!("\nwhile the CPUs are {}\n", one.name()),
    )
}

fn of_distance<'a>(report: &Report, rows: impl Iterator<Item = &'a Row>) -> String {
    let mut table = Table::new();
    let mut header = vec!["pattern", "bytes", "limic", "best peer", "", "unit", "rank"];
    header.extend(RATIO);
    header.extend(["to floor", "path", "target", ""]);
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(cells(report, row));
    }
    for column in [1, 2, 3, 6, 7, 8, 9, 10, 11] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

fn cells(report: &Report, row: &Row) -> Vec<String> {
    let limic = report.names.iter().position(|one| *one == LIMIC);
    let limic = limic.and_then(|at| row.results[at]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let peers = report
        .names
        .iter()
        .zip(&row.results)
        .filter(|(name, result)| {
            **name != LIMIC && Against::Best.includes(name) && result.is_some()
        })
        .count();
    let mut cells = vec![
        match row.subject {
            LIMIC => row.pattern.name().to_owned(),
            other => format!("{} ({other})", row.pattern.name()),
        },
        bytes(row.bytes),
        or_dash(limic.map(|shown| significant(shown.median))),
        or_dash(row.best.map(|shown| significant(shown.median))),
        row.ratio.as_ref().map_or("", |ratio| ratio.peer).to_owned(),
        row.unit.to_owned(),
        or_dash(row.rank.map(|rank| format!("{rank} of {}", peers + 1))),
    ];
    cells.extend(ratio(row.ratio.as_ref()));
    cells.push(to_floor(row));
    cells.push(paths(row));
    cells.push(lines(&row.targets, |one| one.target.words()));
    cells.push(lines(&row.targets, verdict));
    cells
}

/// The ratio to the loop of two copies, where there is one.
pub(super) fn to_floor(row: &Row) -> String {
    let ratio = row.over_floor.as_ref();
    ratio.map_or("-".to_owned(), |ratio| times(ratio.median))
}

/// How limic's messages went, where it says so.
pub(super) fn paths(row: &Row) -> String {
    match row.paths.as_slice() {
        [] => "-".to_owned(),
        paths => paths.join(", "),
    }
}

/// The cells for the columns of [`RATIO`].
pub(super) fn ratio(ratio: Option<&Ratio>) -> [String; 4] {
    let Some(ratio) = ratio else {
        return ["-", "-", "-", "-"].map(str::to_owned);
    };
    [
        times(ratio.median),
        format!("{}..{}", times(ratio.least), times(ratio.most)),
        ratio.rounds.to_string(),
        times(ratio.best_rounds),
    ]
}

pub(super) fn lines(judged: &[Judged], of: impl Fn(&Judged) -> String) -> String {
    judged.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// `reached`, or how the target is missed.
pub(super) fn verdict(judged: &Judged) -> String {
    if let Some(failure) = judged.failure() {
        return format!("NO: {failure}");
    }
    match (&judged.ratio, judged.reached) {
        (Some(ratio), Some(true)) => format!("reached{}", ratio.basis()),
        (Some(ratio), _) => format!("NO: {}{}", judged.figure(ratio), ratio.basis()),
        (None, _) => "not judged".to_owned(),
    }
}

/// `2 rounds`
pub(super) fn rounds(count: usize) -> String {
    match count {
        1 => "one round".to_owned(),
        _ => format!("{count} rounds"),
    }
}

/// `64K`
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}M", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}K", n >> 10),
        n => n.to_string(),
    }
}

/// A ratio with two decimals, or with more if it is small.
pub(super) fn times(ratio: f64) -> String {
    let decimals = match ratio {
        r if r >= 0.1 => 2,
        r if r >= 0.01 => 3,
        _ => 4,
    };
    format!("{ratio:.decimals$}")
}

/// Three significant digits, and all digits before the point.
pub(super) fn significant(number: f64) -> String {
    let decimals = match number {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 8, 1500, 1 << 10, 4 << 20].map(bytes),
            ["0", "8", "1500", "1K", "4M"]
        );
        assert_eq!(
            [0.0581, 1.234, 12.34, 1234.5].map(significant),
            ["0.058", "1.23", "12.3", "1234"]
        );
        assert_eq!(
            [1.234, 0.0123, 0.00234].map(times),
            ["1.23", "0.012", "0.0023"]
        );
    }

    #[test]
    fn a_ratio_says_how_many_rounds_it_comes_from() {
        let one = Ratio {
            peer: "UCX",
            rounds: 3,
            median: 0.5,
            best_rounds: 0.4,
            least: 0.3,
            most: 0.6,
        };
        assert_eq!(ratio(Some(&one)), ["0.50", "0.30..0.60", "3", "0.40"]);
        assert_eq!(ratio(None)[0], "-");
    }
}
