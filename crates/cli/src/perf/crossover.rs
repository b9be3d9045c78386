//! From which size on a path is faster than the eager one: what a threshold between the two would
//! be.

use limic::settings::ByteSize;

use super::report::{Report, Row};

/// The path that others are compared with.
const EAGER: &str = "eager";

/// A note for each path, if the eager one was measured beside it.
pub(super) fn note(report: &mut Report) {
    let mut paths: Vec<&'static str> = Vec::new();
    for row in &report.rows {
        if row.wanted != EAGER && !paths.contains(&row.wanted) {
            paths.push(row.wanted);
        }
    }
    let notes: Vec<String> = paths
        .into_iter()
        .filter_map(|path| {
            let from = crossover(&report.rows, path)?;
            Some(match from {
                Crossover::From(bytes) => {
                    format!("{path} is faster than eager from {} on", ByteSize(bytes))
                }
                Crossover::Nowhere(bytes) => {
                    format!("{path} is not faster than eager at {}", ByteSize(bytes))
                }
            })
        })
        .collect();
    report.notes.extend(notes);
}

#[derive(Debug, PartialEq, Eq)]
enum Crossover {
    /// At this size and all longer ones.
    From(u64),
    /// Not even at this one, the longest that both were measured at.
    Nowhere(u64),
}

/// `None` if the two have no two sizes in common.
fn crossover(rows: &[Row], path: &str) -> Option<Crossover> {
    let time = |wanted: &str, bytes| {
        let mut of = rows
            .iter()
            .filter(|row| row.wanted == wanted && row.bytes == bytes && row.reuse != Some(false));
        of.next().map(|row| row.time_us)
    };
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let both: Vec<(u64, bool)> = sizes
        .into_iter()
        .filter_map(|bytes| Some((bytes, time(path, bytes)? < time(EAGER, bytes)?)))
        .collect();
    let (longest, _) = *both.last().filter(|_| both.len() > 1)?;
    let faster = both.iter().rev().take_while(|(_, faster)| *faster).last();
    Some(match faster {
        Some((bytes, _)) => Crossover::From(*bytes),
        None => Crossover::Nowhere(longest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use limic_measure::numbers::Spread;

    fn row(wanted: &'static str, bytes: usize, time_us: f64) -> Row {
        Row::new("latency", wanted, 2, bytes, Spread::of(&[time_us]), 1.0)
    }

    #[test]
    fn it_is_the_size_behind_which_all_are_faster() {
        let times = |path, times: [f64; 4]| {
            let sizes = [1024, 4096, 16384, 65536];
            sizes.map(|bytes| row(path, bytes, times[bytes.ilog2() as usize / 2 - 5]))
        };
        let rows = [
            times("eager", [1.0, 2.0, 8.0, 30.0]),
            times("cma", [0.5, 3.0, 4.0, 10.0]),
            times("kmod", [2.0, 3.0, 9.0, 31.0]),
        ]
        .concat();
        assert_eq!(crossover(&rows, "cma"), Some(Crossover::From(16384)));
        assert_eq!(crossover(&rows, "kmod"), Some(Crossover::Nowhere(65536)));
        assert_eq!(crossover(&rows, "loan"), None);
        assert_eq!(crossover(&rows[..1], "eager"), None);
    }
}
