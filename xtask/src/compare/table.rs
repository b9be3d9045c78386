//! The ratios, for the terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::gauge;
use super::report::{Report, Row};
use super::verdict::Judged;

pub(super) fn render(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "pattern",
        "bytes",
        "limic",
        "best peer",
        "",
        "unit",
        "ratio",
        "in rounds",
        "best rounds",
        "target",
        "",
    ]);
    for row in &report.rows {
        table.add_row(cells(report, row));
    }
    for column in [1, 2, 3, 6, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let (reached, judged) = report.score();
    // Writing to a string cannot fail.
    let mut text = format!("\n{}\n", table.trim_fmt());
    let _ = writeln!(
        text,
        "\nRatios of limic to the best peer; times: less is better, MB/s and M/s: more is better."
    );
    let _ = writeln!(
        text,
        "{reached} of {judged} targets reached. {}",
        load(report)
    );
    for (kind, lines) in [
        ("warning", &report.warnings),
        ("failed", &report.failures),
        ("could not be had", &report.missing),
        ("setting", &report.settings),
    ] {
        for line in lines {
            let _ = writeln!(text, "{kind}: {line}");
        }
    }
    text
}

/// The load in one sentence.
pub(super) fn load(report: &Report) -> String {
    let load = &report.load;
    let handover = gauge::spread(&report.passes).map_or_else(String::new, |us| {
        format!(
            " A cache line changed hands in {:.3} us ({:.3} to {:.3}).",
            us.median, us.least, us.most
        )
    });
    format!(
        "Load {:.2} before and {:.2} after, {} CPUs; meanwhile other programs took {:.1} % of them, other guests {:.1} %.{handover}",
        load.before.load,
        load.after.load,
        load.before.cpus,
        100.0 * load.others,
        100.0 * load.stolen
    )
}

fn cells(report: &Report, row: &Row) -> [String; 11] {
    let result = |name: &str| {
        let at = report.names.iter().position(|one| *one == name)?;
        row.results[at].map(|shown| significant(shown.median))
    };
    let peer = row.ratio.as_ref().map(|ratio| ratio.peer);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let within = row.ratio.as_ref();
    [
        row.pattern.to_owned(),
        bytes(row.bytes),
        or_dash(result(super::contestant::LIMIC)),
        or_dash(peer.and_then(result)),
        peer.unwrap_or_default().to_owned(),
        row.unit.to_owned(),
        or_dash(within.map(|ratio| format!("{:.2}", ratio.median))),
        or_dash(within.map(|ratio| format!("{:.2}..{:.2}", ratio.least, ratio.most))),
        or_dash(within.map(|ratio| format!("{:.2}", ratio.best_rounds))),
        lines(&row.targets, |one| one.target.words()),
        lines(&row.targets, verdict),
    ]
}

fn lines(judged: &[Judged], of: impl Fn(&Judged) -> String) -> String {
    judged.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// `reached`, or what it is instead.
pub(super) fn verdict(judged: &Judged) -> String {
    match (&judged.ratio, judged.reached) {
        (Some(_), Some(true)) => "reached".to_owned(),
        (Some(ratio), _) => format!("NO: {:.2}", ratio.median),
        (None, _) => "not judged".to_owned(),
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

/// Three significant digits, and all of those before the point.
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
    }
}
