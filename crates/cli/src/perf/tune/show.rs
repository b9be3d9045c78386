//! What tuning changed: a table, and a picture.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use comfy_table::{CellAlignment, Table, presets};
use limic::settings::ByteSize;
use limic_measure::MeasureError;
use limic_measure::machine::Machine;
use limic_measure::numbers::significant;
use limic_measure::plot::{Axes, Lines, draw};

use super::measure::Findings;

/// Before and after at each size, and the notes.
pub(super) fn table(all: &[Findings]) -> String {
    let machine = Machine::describe();
    let mut text = format!("limic tune; {}\n", machine.line());
    for findings in all {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "bytes",
            "built-in",
            "us",
            "us in a stream",
            "tuned",
            "us",
            "us in a stream",
            "before/after",
        ]);
        for size in &findings.compared {
            let us = |seconds: f64| significant(seconds * 1e6);
            let [before, after] = &size.paths;
            table.add_row([
                ByteSize(size.bytes).to_string(),
                before.clone(),
                us(size.built_in.ping_pong),
                us(size.built_in.stream),
                after.clone(),
                us(size.tuned.ping_pong),
                us(size.tuned.stream),
                format!("{:.2}", size.built_in.mean() / size.tuned.mean()),
            ]);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            if !matches!(index, 1 | 4) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        text.push_str(&format!(
            "\n{}, measured in {:.0} s\n{}\n",
            findings.locality,
            findings.seconds,
            table.trim_fmt()
        ));
        for note in &findings.notes {
            text.push_str(&format!("note: {note}\n"));
        }
    }
    if let Some(load) = machine.busy() {
        text.push_str(&format!(
            "note: the machine is busy (load {load:.1}): tune again when it is idle\n"
        ));
    }
    if cfg!(debug_assertions) {
        text.push_str("note: this is a debug build: the profile means nothing\n");
    }
    text
}

/// Time over size: a line for each locality and table.
pub(super) fn plot(all: &[Findings], path: &FilePath) -> Result<(), MeasureError> {
    let mut lines: Lines = BTreeMap::new();
    for findings in all {
        for size in &findings.compared {
            for (name, times) in [("built-in", size.built_in), ("tuned", size.tuned)] {
                let line = format!("{}, {name}", findings.locality);
                let at = (size.bytes as f64, times.mean() * 1e6);
                lines.entry(line).or_default().push(at);
            }
        }
    }
    let axes = Axes {
        title: format!("limic tune: {}", Machine::describe().cpu),
        x: "message size in bytes",
        y: "us of a message: mean of ping-pong and stream",
        x_is_bytes: true,
    };
    draw(&lines, &axes, path)
}
