//! The rows as text: two tables, one below the other.

use comfy_table::{CellAlignment, Table, presets};
use limic::settings::ByteSize;

use super::super::report::{Row, significant};

const HEADINGS: [(&str, &str); 2] = [
    (
        "transfer",
        "message transfer: the second to come, which finds the other side's pinned buffer and copies",
    ),
    (
        "post",
        "descriptor post: the first to come, which pins its buffer and joins the queue",
    ),
];

/// The rows as text: time of a call, and of each step with its share.
pub(in super::super) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for (kind, heading) in HEADINGS {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "bytes",
            "us",
            "trap",
            "pin",
            "map",
            "copy",
            "queue+lock",
            "spread",
        ]);
        for row in rows.iter().filter(|row| row.path == kind) {
            let Some(steps) = row.breakdown else { continue };
            let mut cells = vec![ByteSize(row.bytes).to_string(), significant(row.time_us)];
            // Shares of the sum of these medians, which is not always the median of the sums.
            let total = steps.total().max(1e-9);
            cells.extend(
                steps
                    .all()
                    .map(|step| format!("{} {:3.0} %", significant(step), 100.0 * step / total)),
            );
            cells.push(format!("{:.0} %", row.spread * 100.0));
            table.add_row(cells);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        text.push_str(&format!("\n{heading}\n{}\n", table.trim_fmt()));
    }
    text
}
