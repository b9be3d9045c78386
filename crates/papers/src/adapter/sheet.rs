//! The rows of patterns that go to the adapter itself, and the table that shows them.

use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use limic::settings::ByteSize;
use limic_measure::machine::Machine;
use limic_measure::numbers::{Spread, significant};
use limic_measure::outputs::{Outputs, page};
use limic_measure::{MeasureError, VERSION, plot};

/// One measurement; its fields are those of the JSON.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Line {
    /// What was measured.
    pub(super) case: String,
    pub(super) bytes: u64,
    /// Percent of the messages that come from buffers which are registered already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reuse: Option<u32>,
    /// Median, least and most of the rounds.
    pub(super) time_us: f64,
    pub(super) time_us_min: f64,
    pub(super) time_us_max: f64,
    /// Where bytes per time have a meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mb_per_s: Option<f64>,
    /// Processor time of the sender's thread until all is handed to the adapter, and of tidying up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_us: Option<f64>,
    /// Memory of a connection in a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kib: Option<f64>,
}

impl Line {
    /// From seconds of each round for one message, or operation.
    pub(super) fn new(case: impl Into<String>, bytes: u64, seconds: &[f64]) -> Self {
        let spread = Spread::of(seconds).scaled(1e6);
        Self {
            case: case.into(),
            bytes,
            reuse: None,
            time_us: spread.median,
            time_us_min: spread.least,
            time_us_max: spread.most,
            mb_per_s: None,
            cpu_us: None,
            kib: None,
        }
    }

    /// With the bytes per time that `moved` bytes in this time are.
    #[cfg(feature = "ibverbs")]
    pub(super) fn rate(self, moved: u64) -> Self {
        Self {
            mb_per_s: Some(moved as f64 / self.time_us),
            ..self
        }
    }
}

/// All that a pattern measured.
#[derive(Debug, serde::Serialize)]
pub(super) struct Sheet {
    limic: &'static str,
    machine: Machine,
    pattern: &'static str,
    ranks: u32,
    pub(super) rows: Vec<Line>,
    pub(super) notes: Vec<String>,
}

impl Sheet {
    pub(super) fn new(pattern: &'static str, ranks: u32) -> Self {
        let machine = Machine::describe();
        let notes = machine.warnings();
        Self {
            limic: VERSION,
            machine,
            pattern,
            ranks,
            rows: Vec::new(),
            notes,
        }
    }

    /// Shows the rows wherever they were asked for.
    pub(super) fn finish(&self, outputs: &Outputs) -> Result<ExitCode, MeasureError> {
        outputs.show(self, || self.text(), |path| self.draw(path))?;
        if self.rows.is_empty() {
            return Err(MeasureError::Nothing(self.notes.join("; ")));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self) -> String {
        let any = |has: fn(&Line) -> bool| self.rows.iter().any(has);
        let reuse = any(|line| line.reuse.is_some());
        let rate = any(|line| line.mb_per_s.is_some());
        let cpu = any(|line| line.cpu_us.is_some());
        let kib = any(|line| line.kib.is_some());
        let bytes = any(|line| line.bytes > 0);
        let mut header = vec!["case"];
        header.extend(bytes.then_some("bytes"));
        header.extend(reuse.then_some("reuse"));
        header.push("us");
        header.extend(rate.then_some("MB/s"));
        header.extend(cpu.then_some("CPU us"));
        header.extend(kib.then_some("KiB each"));
        header.push("spread");
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header);
        let real = |value: Option<f64>| value.map(significant).unwrap_or_default();
        for line in &self.rows {
            let mut cells = vec![line.case.clone()];
            cells.extend(bytes.then(|| ByteSize(line.bytes).to_string()));
            let percent = |part| format!("{part} %");
            cells.extend(reuse.then(|| line.reuse.map(percent).unwrap_or_default()));
            cells.push(significant(line.time_us));
            cells.extend(rate.then(|| real(line.mb_per_s)));
            cells.extend(cpu.then(|| real(line.cpu_us)));
            cells.extend(kib.then(|| real(line.kib)));
            let spread = (line.time_us_max - line.time_us_min) / line.time_us;
            cells.push(format!("{:.0} %", spread * 100.0));
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let measurement = format!("{}, {} ranks", self.pattern, self.ranks);
        page(&measurement, &self.machine, &table.trim_fmt(), &self.notes)
    }

    fn draw(&self, path: &std::path::Path) -> Result<(), MeasureError> {
        let mut lines = plot::Lines::new();
        for (number, line) in (1..).zip(&self.rows) {
            let name = match line.reuse {
                Some(part) => format!("{}, reuse {part} %", line.case),
                None => line.case.clone(),
            };
            // Cases without bytes stand side by side.
            let x = if line.bytes > 0 {
                line.bytes as f64
            } else {
                f64::from(number)
            };
            lines.entry(name).or_default().push((x, line.time_us));
        }
        let by_bytes = self.rows.iter().any(|line| line.bytes > 0);
        let axes = plot::Axes {
            title: format!("limic {}: {}", self.pattern, self.machine.cpu),
            x: if by_bytes { "bytes" } else { "case" },
            y: "us",
            x_is_bytes: by_bytes,
        };
        plot::draw(&lines, &axes, path)
    }
}
