//! The report as a picture, in SVG: time over size for ping-pong, bandwidth over size for the
//! others.

use std::path::Path;

use limic_measure::MeasureError;
use limic_measure::plot::{Axes, Lines, draw};

use super::args::Pattern;
use super::report::{Report, Row};

/// Draws one line for each path, or each floor, and each use of buffers.
pub(super) fn write(report: &Report, path: &Path) -> Result<(), MeasureError> {
    let time = [Pattern::Latency.name(), Pattern::Cliffs.name()];
    let time = time.contains(&report.pattern);
    let skew = report.pattern == super::skew::NAME;
    let value = |row: &Row| match &row.skew {
        // The second phase is a few bandwidths, which the table shows.
        Some(skewed) => skewed.c3_us.unwrap_or(0.0),
        None if time => row.time_us,
        None => row.mb_per_s.unwrap_or(0.0),
    };
    let position = |row: &Row| match &row.skew {
        Some(skewed) => skewed.c2_us.max(0.1),
        // A message of 0 bytes has no place on a logarithmic axis but the first.
        None => row.bytes.max(1) as f64,
    };
    let mut lines = Lines::new();
    for row in report.rows.iter().filter(|row| value(row) > 0.0) {
        let at = (position(row), value(row));
        lines.entry(name(row)).or_default().push(at);
    }
    let axes = Axes {
        title: format!("limic {}: {}", report.pattern, report.machine.cpu),
        x: if skew {
            "c2: the consumer computes on each message, in us"
        } else {
            "message size in bytes"
        },
        y: match (skew, time) {
            (true, _) => "c3: the producer's time for a window, in us",
            (_, true) => "one way in us",
            _ => "MB/s",
        },
        x_is_bytes: !skew,
    };
    draw(&lines, &axes, path)
}

fn name(row: &Row) -> String {
    if let Some(verbs) = row.verbs {
        return verbs.name();
    }
    let path = match row.wanted {
        "hybrid" => "hybrid",
        _ if row.skew.is_some() => row.wanted,
        _ => row.path.as_str(),
    };
    match row.reuse {
        Some(true) => format!("{path}, buffers reused"),
        Some(false) => format!("{path}, buffers cold"),
        None => path.to_owned(),
    }
}
