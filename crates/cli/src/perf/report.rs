//! The rows, and the table that shows them.

use comfy_table::{CellAlignment, Table, presets};
use limic::settings::{ByteSize, Path};
use limic_measure::VERSION;
use limic_measure::lanes::VerbsLane;
use limic_measure::machine::Machine;
use limic_measure::numbers::{Spread, significant};
use limic_measure::outputs::page;

use super::hardware::{Counts, NAMES};

/// One measurement: a size over a path. Its fields are those of the JSON; docs/perf-json.md.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Row {
    pub(super) pattern: &'static str,
    /// The path that was really used; for `floor`, what was measured.
    pub(super) path: String,
    /// The path that was asked for.
    pub(super) wanted: &'static str,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) reuse: Option<bool>,
    pub(super) time_us: f64,
    pub(super) time_us_min: f64,
    pub(super) time_us_max: f64,
    pub(super) spread: f64,
    /// `None` for loans, which move no bytes.
    pub(super) mb_per_s: Option<f64>,
    pub(super) msgs_per_s: f64,
    pub(super) rounds: u32,
    /// The time of each round, for what compares rows round by round.
    #[serde(skip)]
    pub(super) each_us: Vec<f64>,
    pub(super) iterations: u64,
    /// For the floor of two copies: the ring that was best.
    pub(super) shape: Option<String>,
    /// For `skew` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skew: Option<super::skew::SkewRow>,
    /// For lanes over verbs that were asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) verbs: Option<VerbsLane>,
    #[serde(flatten)]
    pub(super) counted: Counted,
    /// For `cliffs` only: the time divided by that of the longest message at most half as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) growth: Option<f64>,
    /// For `latency --sleep` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wake: Option<super::asleep::WakeRow>,
}

impl Row {
    /// A row of what all patterns have; the rest stays empty. `messages`: how many are under way
    /// side by side, each of which takes the time.
    pub(super) fn new(
        pattern: &'static str,
        wanted: &'static str,
        ranks: u32,
        bytes: usize,
        spread: Spread,
        messages: f64,
    ) -> Self {
        let per_second = messages * 1e6 / spread.median;
        Self {
            pattern,
            path: wanted.to_owned(),
            wanted,
            ranks,
            bytes: bytes as u64,
            reuse: None,
            time_us: spread.median,
            time_us_min: spread.least,
            time_us_max: spread.most,
            spread: spread.relative(),
            mb_per_s: (wanted != Path::Loan.name()).then_some(per_second * bytes as f64 / 1e6),
            msgs_per_s: per_second,
            rounds: 1,
            each_us: Vec::new(),
            iterations: 1,
            shape: None,
            skew: None,
            verbs: None,
            counted: Counted::default(),
            growth: None,
            wake: None,
        }
    }

    /// In MB/s, as tables show it.
    pub(super) fn bandwidth(&self) -> String {
        let bandwidth = self.mb_per_s.map(|rate| format!("{rate:.0}"));
        bandwidth.unwrap_or_else(|| "-".to_owned())
    }
}

/// What the processors of both sides, the kernel and limic counted, per message; in the order of
/// [`NAMES`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counted([Option<f64>; NAMES.len()]);

impl serde::Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(NAMES.iter().zip(&self.0))
    }
}

impl Counted {
    pub(super) fn of(counts: &Counts, messages: f64) -> Self {
        Self(counts.map(|count| Some(count? as f64 / messages)))
    }

    fn cell(&self, at: usize) -> String {
        match self.0[at] {
            None => "-".to_owned(),
            Some(0.0) => "0".to_owned(),
            Some(count) => significant(count),
        }
    }
}

/// Everything that was measured.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    /// Version of limic.
    pub(super) limic: &'static str,
    pub(super) machine: Machine,
    pub(super) pattern: &'static str,
    /// Whether each rank was bound to one CPU.
    pub(super) bound: bool,
    /// Whether every message was checked while the clock ran.
    pub(super) checked: bool,
    /// Whether each message was written anew before it was sent, while the clock ran.
    pub(super) rewritten: bool,
    /// Whether hardware counters were asked for.
    #[serde(skip)]
    pub(super) counters: bool,
    pub(super) rows: Vec<Row>,
    /// What was not measured and why, and what makes the numbers doubtful.
    pub(super) notes: Vec<String>,
}

impl Report {
    pub(super) fn new(pattern: &'static str, bound: bool) -> Self {
        let machine = Machine::describe();
        let mut notes = machine.warnings();
        if !bound {
            notes.push(
                "ranks are not bound to one CPU each: times vary with their placement".to_owned(),
            );
        }
        Self {
            limic: VERSION,
            machine,
            pattern,
            bound,
            checked: false,
            rewritten: false,
            counters: false,
            rows: Vec::new(),
            notes,
        }
    }

    /// The table with a line about the machine before it and the notes after it.
    pub(super) fn table(&self) -> String {
        let with_reuse = self.rows.iter().any(|row| row.reuse.is_some());
        let with_shape = self.rows.iter().any(|row| row.shape.is_some());
        let floor = self.pattern == super::floor::NAME;
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut header = vec!["bytes", if floor { "floor" } else { "path" }];
        header.extend(with_reuse.then_some("reuse"));
        header.extend(with_shape.then_some("ring"));
        let over_verbs = self.rows.iter().any(|row| row.verbs.is_some());
        header.extend(if over_verbs {
            &["entries", "coalesce", "streams", "rings"][..]
        } else {
            &[]
        });
        header.extend(["us", "MB/s", "messages/s", "spread"]);
        // Of a message, both sides together. What nobody could count has no column: a note says
        // why.
        let counted: Vec<usize> = (0..NAMES.len())
            .filter(|at| self.counters && self.rows.iter().any(|row| row.counted.0[*at].is_some()))
            .collect();
        header.extend(counted.iter().map(|at| NAMES[*at]));
        let with_growth = self.rows.iter().any(|row| row.growth.is_some());
        header.extend(with_growth.then_some("growth"));
        let asleep = self.rows.iter().any(|row| row.wake.is_some());
        header.extend(if asleep {
            &["kernel us", "ratio", "asleep"][..]
        } else {
            &[]
        });
        table.set_header(header);
        for row in &self.rows {
            let mut cells = vec![ByteSize(row.bytes).to_string(), row.path.clone()];
            if row.wanted == "hybrid" && !floor && row.verbs.is_none() {
                cells[1] = format!("hybrid ({})", row.path);
            }
            if with_reuse {
                cells.push(if row.reuse == Some(true) { "on" } else { "off" }.to_owned());
            }
            if with_shape {
                cells.push(row.shape.clone().unwrap_or_default());
            }
            if let Some(verbs) = row.verbs {
                cells.push(verbs.entries.to_string());
                cells.push(if verbs.coalesce { "on" } else { "off" }.to_owned());
                cells.push(verbs.streams.to_string());
                cells.push(verbs.rings.to_string());
            }
            cells.push(significant(row.time_us));
            cells.push(row.bandwidth());
            cells.push(format!("{:.0}", row.msgs_per_s));
            cells.push(format!("{:.0} %", row.spread * 100.0));
            cells.extend(counted.iter().map(|at| row.counted.cell(*at)));
            if with_growth {
                let growth = row.growth.map(|growth| {
                    let mark = if super::cliffs::is_cliff(growth) {
                        "cliff "
                    } else {
                        ""
                    };
                    format!("{mark}{growth:.2}")
                });
                cells.push(growth.unwrap_or_default());
            }
            if let Some(wake) = row.wake {
                cells.push(significant(wake.kernel_us));
                cells.push(format!("{:.2}", wake.ratio));
                cells.push(format!("{:.0} %", wake.asleep * 100.0));
            }
            table.add_row(cells);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            if index != 1 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let body = if self.pattern == super::skew::NAME {
            super::skew::table(&self.rows)
        } else {
            table.trim_fmt()
        };
        let ranks = self.rows.first().map_or(0, |row| row.ranks);
        let who = if floor { "processes" } else { "ranks" };
        let measurement = format!("{}, {ranks} {who}", self.pattern);
        page(&measurement, &self.machine, &body, &self.notes)
    }
}
