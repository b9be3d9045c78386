//! Pictures of lines over two logarithmic axes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use limic::settings::ByteSize;
use plotters::prelude::*;

use crate::MeasureError;

const SIZE: (u32, u32) = (960, 600);

/// The file that `--plot` names. Another ending promises what is not written.
///
/// # Errors
/// What to write instead.
pub fn parse_file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension() {
        Some(ending) if ending.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err("pictures are SVG: name a file that ends in .svg".to_owned()),
    }
}

/// Points of each line, by its name.
pub type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// What the axes of a picture are, both logarithmic.
#[derive(Debug)]
pub struct Axes {
    /// Above the picture.
    pub title: String,
    /// Below it.
    pub x: &'static str,
    /// Beside it.
    pub y: &'static str,
    /// Whether the x axis is labelled with sizes.
    pub x_is_bytes: bool,
}

/// Draws lines.
///
/// # Errors
/// The file cannot be written.
pub fn draw(lines: &Lines, axes: &Axes, path: &Path) -> Result<(), MeasureError> {
    try_draw(lines, axes, path).map_err(|error| MeasureError::Plot {
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
