//! The rows, as JSON, as text and as a picture.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use limic::settings::ByteSize;
use limic_measure::machine::Machine;
use limic_measure::numbers::{Spread, significant};
use limic_measure::outputs::page;
use limic_measure::plot::{Axes, Lines, draw};
use limic_measure::{MeasureError, VERSION};

use super::{NAME, Steps};

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

/// One kind of call at one size. The fields are those of the JSON; docs/perf-json.md.
#[derive(Debug, serde::Serialize)]
pub(super) struct Row {
    pattern: &'static str,
    path: &'static str,
    wanted: &'static str,
    /// One process plays both sides.
    ranks: u32,
    bytes: u64,
    time_us: f64,
    time_us_min: f64,
    time_us_max: f64,
    spread: f64,
    mb_per_s: f64,
    msgs_per_s: f64,
    rounds: u32,
    iterations: u64,
    breakdown: Steps,
}

impl Row {
    pub(super) fn new(
        kind: &'static str,
        bytes: usize,
        spread: Spread,
        rounds: u32,
        iterations: u64,
        breakdown: Steps,
    ) -> Self {
        let msgs_per_s = 1e6 / spread.median;
        Self {
            pattern: NAME,
            path: kind,
            wanted: kind,
            ranks: 1,
            bytes: bytes as u64,
            time_us: spread.median,
            time_us_min: spread.least,
            time_us_max: spread.most,
            spread: spread.relative(),
            mb_per_s: msgs_per_s * bytes as f64 / 1e6,
            msgs_per_s,
            rounds,
            iterations,
            breakdown,
        }
    }
}

/// Everything that was measured.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    limic: &'static str,
    machine: Machine,
    pattern: &'static str,
    /// Whether the process was bound to one CPU.
    bound: bool,
    /// Bytes are looked at before the clock starts.
    checked: bool,
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

impl Report {
    pub(super) fn new(bound: bool) -> Self {
        let machine = Machine::describe();
        Self {
            limic: VERSION,
            notes: machine.warnings(),
            machine,
            pattern: NAME,
            bound,
            checked: false,
            rows: Vec::new(),
        }
    }

    /// Two tables, one below the other: time of a call, and of each step with its share.
    pub(super) fn text(&self) -> String {
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
            for row in self.rows.iter().filter(|row| row.path == kind) {
                let steps = row.breakdown;
                let mut cells = vec![ByteSize(row.bytes).to_string(), significant(row.time_us)];
                // Shares of the sum of these medians, which is not always the median of the sums.
                let total = steps.total().max(1e-9);
                cells.extend(
                    steps.all().map(|step| {
                        format!("{} {:3.0} %", significant(step), 100.0 * step / total)
                    }),
                );
                cells.push(format!("{:.0} %", row.spread * 100.0));
                table.add_row(cells);
            }
            for column in table.column_iter_mut() {
                column.set_cell_alignment(CellAlignment::Right);
            }
            text.push_str(&format!("\n{heading}\n{}\n", table.trim_fmt()));
        }
        page("breakdown, 1 process", &self.machine, &text, &self.notes)
    }

    pub(super) fn draw(&self, path: &Path) -> Result<(), MeasureError> {
        let mut lines = Lines::new();
        for row in &self.rows {
            let at = (row.bytes as f64, row.time_us);
            lines.entry(row.path.to_owned()).or_default().push(at);
        }
        let axes = Axes {
            title: format!("limic {NAME}: {}", self.machine.cpu),
            x: "message size in bytes",
            y: "one call in us",
            x_is_bytes: true,
        };
        draw(&lines, &axes, path)
    }
}
