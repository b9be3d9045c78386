//! What rows of this pattern have more than others, and the rows as text.

use comfy_table::{CellAlignment, Table, presets};
use limic_measure::numbers::significant;

use super::super::report::Row;

/// What only rows of this pattern have; its fields are those of the JSON.
#[derive(Debug, Clone, serde::Serialize)]
pub(in super::super) struct SkewRow {
    /// `skewed` or `after`.
    pub(in super::super) phase: &'static str,
    pub(in super::super) c1_us: f64,
    pub(in super::super) c2_us: f64,
    pub(in super::super) window: usize,
    /// From the first send of a window to the end of its last one, at the producer.
    pub(in super::super) c3_us: Option<f64>,
    /// The same in the very first window.
    pub(in super::super) first_c3_us: Option<f64>,
    /// Windows until the sender's thresholds followed the skew, or came back.
    pub(in super::super) windows_to_change: Option<u32>,
    /// Messages that went ahead of the consumer while the clock ran.
    pub(in super::super) ahead_messages: u64,
    /// `skewed`: c3 divided by that of the eager path. `after`: bandwidth divided by that of the
    /// best path.
    pub(in super::super) ratio: f64,
}

/// The rows as text: the two phases below each other.
pub(in super::super) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for (phase, heading) in [
        (
            "skewed",
            "while the consumer lags (c3 is the producer's time for a window)",
        ),
        ("after", "after it (nobody computes any more)"),
    ] {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(match phase {
            "skewed" => vec![
                "c2 us",
                "thresholds",
                "path",
                "c3 us",
                "of eager",
                "first c3 us",
                "windows to follow",
                "ahead",
                "spread",
            ],
            _ => vec![
                "thresholds",
                "path",
                "MB/s",
                "of best long path",
                "windows to come back",
                "ahead",
                "spread",
            ],
        });
        let with_skew = rows
            .iter()
            .filter_map(|row| Some((row, row.skew.as_ref()?)));
        let mut any = false;
        for (row, skew) in with_skew.filter(|(_, skew)| skew.phase == phase) {
            any = true;
            let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), significant);
            let change = skew
                .windows_to_change
                .map_or_else(|| "-".to_owned(), |windows| windows.to_string());
            let spread = format!("{:.0} %", row.spread * 100.0);
            let (name, path) = (row.wanted.to_owned(), row.path.clone());
            let (ratio, ahead) = (
                format!("{:.2}", skew.ratio),
                skew.ahead_messages.to_string(),
            );
            table.add_row(match phase {
                "skewed" => vec![
                    skew.c2_us.to_string(),
                    name,
                    path,
                    number(skew.c3_us),
                    ratio,
                    number(skew.first_c3_us),
                    change,
                    ahead,
                    spread,
                ],
                _ => vec![name, path, row.bandwidth(), ratio, change, ahead, spread],
            });
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            let names = if phase == "skewed" { 1..3 } else { 0..2 };
            if !names.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        if any {
            text.push_str(&format!("{heading}\n{}\n", table.trim_fmt()));
        }
    }
    text
}
