//! The ratios of the MPIs as a table for the terminal.

use comfy_table::{CellAlignment, Table, presets};

use super::super::machine_state::Distance;
use super::super::table::{RATIO, bytes, lines, ratio, significant, verdict};
use super::report::Report;

pub(super) fn render(report: &Report) -> String {
    let mut table = Table::new();
    let mut header = vec![
        "",
        "pattern",
        "ranks",
        "bytes",
        "MPI",
        "own",
        "over limic",
        "unit",
    ];
    header.extend(RATIO);
    header.extend(["target", ""]);
    table.load_style(presets::NOTHING).set_header(header);
    for row in &report.rows {
        let shown = |one: Option<super::super::report::Shown>| {
            one.map_or("-".to_owned(), |shown| significant(shown.median))
        };
        let mut cells = vec![
            row.distance.map_or("", Distance::name).to_owned(),
            row.pattern.name().to_owned(),
            row.ranks.to_string(),
            bytes(row.bytes),
            row.mpi.to_owned(),
            shown(row.own),
            shown(row.over_limic),
            row.unit.to_owned(),
        ];
        cells.extend(ratio(row.ratio.as_ref()));
        cells.push(lines(&row.targets, |one| one.target.words()));
        cells.push(lines(&row.targets, verdict));
        table.add_row(cells);
    }
    for column in [2, 3, 5, 6, 8, 9, 10, 11] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "\n{}\n\nRatios of an MPI over limic to the same MPI by its own path; us: less is better, \
         MB/s: more is better.\n{}",
        table.trim_fmt(),
        report.run.closing(&report.score())
    )
}
