//! Time and bandwidth over size, one line for each contestant.

use plotters::prelude::*;

use super::report::{Report, Row};
use super::table::bytes;
use crate::failure::Failure;

const PANEL: (u32, u32) = (960, 520);
const PATTERNS: [(&str, &str); 3] = [
    ("latency", "one way in us"),
    ("bandwidth", "MB/s, one direction"),
    ("bibandwidth", "MB/s, both directions"),
];

/// The picture as SVG.
pub(super) fn render(report: &Report) -> Result<String, Failure> {
    let mut text = String::new();
    draw(report, &mut text).map_err(|why| Failure::Wrong(format!("drawing the results: {why}")))?;
    Ok(text + "\n")
}

fn draw(report: &Report, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let of = |pattern: &str| -> Vec<&Row> {
        report
            .rows
            .iter()
            .filter(|row| row.pattern == pattern)
            .collect()
    };
    let panels: Vec<_> = PATTERNS
        .iter()
        .map(|(pattern, unit)| (*pattern, *unit, of(pattern)))
        .filter(|(_, _, rows)| {
            rows.iter()
                .any(|row| row.results.iter().any(Option::is_some))
        })
        .collect();
    let height = PANEL.1 * u32::try_from(panels.len().max(1))?;
    let root = SVGBackend::with_string(text, (PANEL.0, height)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, (pattern, unit, rows)) in root
        .split_evenly((panels.len().max(1), 1))
        .iter()
        .zip(&panels)
    {
        panel(report, area, pattern, unit, rows)?;
    }
    root.present()?;
    Ok(())
}

fn panel<B: DrawingBackend>(
    report: &Report,
    area: &DrawingArea<B, plotters::coord::Shift>,
    pattern: &str,
    unit: &str,
    rows: &[&Row],
) -> Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let line = |at: usize| -> Vec<(f64, f64)> {
        // A message of 0 bytes has no place on a logarithmic axis but the first.
        let points = rows
            .iter()
            .filter_map(|row| Some((row.bytes.max(1) as f64, row.results[at]?.median)));
        points.collect()
    };
    let all: Vec<(f64, f64)> = (0..report.names.len()).flat_map(line).collect();
    let extent = |of: fn(&(f64, f64)) -> f64| {
        let least = all.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
        (least.min(most) / 1.2)..(most * 1.2)
    };
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("{pattern}: {}", report.of_machine("cpu")),
            ("sans-serif", 20),
        )
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(
            extent(|at| at.0).log_scale().base(2.0),
            extent(|at| at.1).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("message size in bytes")
        .y_desc(unit)
        .x_label_formatter(&|size| bytes(size.round() as u64))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    for (at, name) in report.names.iter().enumerate() {
        let points = line(at);
        if points.is_empty() {
            continue;
        }
        let color = Palette99::pick(at).to_rgba();
        let width = if at == 0 { 4 } else { 2 };
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                color.stroke_width(width),
            ))?
            .label(*name)
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 20, y)], color.stroke_width(width))
            });
        chart.draw_series(
            points
                .iter()
                .map(|point| Circle::new(*point, 3, color.filled())),
        )?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
