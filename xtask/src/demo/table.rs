//! The rows of several measurements, side by side.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use limic_runner::Failure;

use super::measured::{Report, Row};

/// The results for one size over one path.
#[derive(Default)]
struct Line<'a> {
    latency: Option<&'a Row>,
    bandwidth: Option<&'a Row>,
    pairs: Option<&'a Row>,
}

/// One line per size and path, in the order in which the paths were asked for.
pub(super) fn render(
    latency: &Report,
    bandwidth: &Report,
    pairs: &Report,
) -> Result<String, Failure> {
    let mut lines: BTreeMap<(u64, usize), Line<'_>> = BTreeMap::new();
    let order = |row: &Row| {
        let mut names = super::PATHS.split(',');
        names
            .position(|name| name == row.wanted)
            .unwrap_or(usize::MAX)
    };
    for row in &latency.rows {
        lines.entry((row.bytes, order(row))).or_default().latency = Some(row);
    }
    for row in &bandwidth.rows {
        lines.entry((row.bytes, order(row))).or_default().bandwidth = Some(row);
    }
    for row in &pairs.rows {
        lines.entry((row.bytes, order(row))).or_default().pairs = Some(row);
    }
    if lines.is_empty() {
        return Err(Failure::Wrong("nothing was measured".to_owned()));
    }

    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "bytes",
        "path",
        "one way (us)",
        "2 ranks (MB/s)",
        "4 ranks (MB/s)",
    ]);
    for ((bytes, _), line) in &lines {
        let any = line.latency.or(line.bandwidth).or(line.pairs);
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
        table.add_row([
            bytes.to_string(),
            any.map_or_else(String::new, name),
            number(line.latency.map(|row| row.time_us)),
            number(line.bandwidth.and_then(|row| row.mb_per_s)),
            number(line.pairs.and_then(|row| row.mb_per_s)),
        ]);
    }
    for column in [0, 2, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(format!("{}\n", table.trim_fmt()))
}

fn name(row: &Row) -> String {
    if row.wanted == row.path {
        row.path.clone()
    } else {
        format!("{} ({})", row.wanted, row.path)
    }
}

/// Three significant digits, without an exponent.
fn three_digits(value: f64) -> String {
    let decimals = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}
