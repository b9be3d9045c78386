//! The report as a picture, in SVG: time over size for ping-pong, bandwidth over size for the
//! others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use limic::settings::ByteSize;
use plotters::prelude::*;

use super::PerfError;
use super::args::Pattern;
use super::report::{Report, Row};

const SIZE: (u32, u32) = (960, 600);

/// The file that `--plot` names. Another ending promises what is not written.
pub(crate) fn parse_file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension() {
        Some(ending) if ending.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err("pictures are SVG: name a file that ends in .svg".to_owned()),
    }
}

/// Points of each line, by its name.
pub(crate) type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// What the axes of a picture are, both logarithmic.
#[derive(Debug)]
pub(crate) struct Axes {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// Whether the x axis is labelled with sizes.
    pub(crate) x_is_bytes: bool,
}

/// Draws one line for each path, or each floor, and each use of buffers.
pub(super) fn write(report: &Report, path: &Path) -> Result<(), PerfError> {
    let time = [
        Pattern::Latency.name(),
        Pattern::Cliffs.name(),
        super::breakdown::NAME,
    ];
    let time = time.contains(&report.pattern);
    let skew = report.pattern == super::skew::NAME;
    let value = |row: &Row| match &row.skew {
        // The second phase is a few bandwidths, which the table shows.
        Some(skewed) => skewed.c3_us.unwrap_or(0.0),
        None if time => row.time_us,
        None => row.mb_per_s,
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

/// Draws lines.
pub(crate) fn draw(lines: &Lines, axes: &Axes, path: &Path) -> Result<(), PerfError> {
    try_draw(lines, axes, path).map_err(|error| PerfError::Plot {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn try_draw(lines: &Lines, axes: &Axes, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let all = || lines.values().flatten();
    let extent = |of: fn(&(f64, f64)) -> f64| {
        let least = all().map(of).fold(f64::INFINITY, f64::min);
        let most = all().map(of).fold(f64::MIN_POSITIVE, f64::max);
        (least.min(most) / 1.2)..(most * 1.2)
    };

    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(&axes.title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(
            extent(|at| at.0).log_scale().base(2.0),
            extent(|at| at.1).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|at| match axes.x_is_bytes {
            true => ByteSize(at.round() as u64).to_string(),
            false => format!("{at}"),
        })
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    for (index, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                color.stroke_width(2),
            ))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        let dots = points.iter().map(|at| Circle::new(*at, 3, color.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
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
