//! Results over size as a plot, one line for each subject.

use limic_runner::Failure;
use plotters::prelude::*;

use super::table::bytes;

const PANEL: (u32, u32) = (960, 520);

/// One diagram of the plot.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) unit: &'static str,
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    pub(super) name: String,
    /// Place in the palette.
    pub(super) color: usize,
    pub(super) bold: bool,
    /// Bytes, and the result.
    pub(super) points: Vec<(u64, f64)>,
}

/// The plot as SVG. Panels without a point are left out.
pub(super) fn render(panels: &[Panel]) -> Result<String, Failure> {
    let mut text = String::new();
    draw(panels, &mut text).map_err(|why| Failure::Wrong(format!("drawing the results: {why}")))?;
    Ok(text + "\n")
}

fn draw(panels: &[Panel], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let filled = |panel: &&Panel| panel.lines.iter().any(|line| !line.points.is_empty());
    let panels: Vec<&Panel> = panels.iter().filter(filled).collect();
    let rows = panels.len().max(1);
    let height = PANEL.1 * u32::try_from(rows)?;
    let root = SVGBackend::with_string(text, (PANEL.0, height)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((rows, 1)).iter().zip(panels) {
        draw_panel(area, panel)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    // On a logarithmic axis, 0 bytes have no place of their own.
    let place = |point: &(u64, f64)| (point.0.max(1) as f64, point.1);
    let all: Vec<(f64, f64)> = panel
        .lines
        .iter()
        .flat_map(|line| line.points.iter().map(place))
        .collect();
    let extent = |of: fn(&(f64, f64)) -> f64| {
        let least = all.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
        (least.min(most) / 1.2)..(most * 1.2)
    };
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(
            extent(|at| at.0).log_scale().base(2.0),
            extent(|at| at.1).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc(panel.unit)
        .x_label_formatter(&|size| bytes(size.round() as u64))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    for line in panel.lines.iter().filter(|line| !line.points.is_empty()) {
        let color = Palette99::pick(line.color).to_rgba();
        let width = if line.bold { 4 } else { 2 };
        let points = || line.points.iter().map(place);
        chart
            .draw_series(LineSeries::new(points(), color.stroke_width(width)))?
            .label(&line.name)
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 20, y)], color.stroke_width(width))
            });
        chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
