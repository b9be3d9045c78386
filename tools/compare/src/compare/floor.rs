//! What `limic perf floor` says of the machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use limic_runner::timeout;
use serde::Deserialize;

use super::cpus::first_pair;

/// For one reading.
const LIMIT: Duration = Duration::from_secs(20);

/// Reads the line latency of the first pair in microseconds, by `limic perf floor`.
pub(crate) fn read(limic: &Path, cpus: &[usize]) -> Option<f64> {
    parse(&floor(limic, cpus)?)
}

/// limic's description of the machine.
pub(super) fn machine(limic: &Path, cpus: &[usize]) -> Option<serde_json::Value> {
    let mut floor: serde_json::Value = serde_json::from_str(&floor(limic, cpus)?).ok()?;
    Some(floor["machine"].take())
}

fn floor(limic: &Path, cpus: &[usize]) -> Option<String> {
    let mut command = Command::new(limic);
    command.args(["perf", "floor", "--only", "cache-line", "--rounds", "3"]);
    command.args(["--seconds-per-point", "0.03", "--json", "-"]);
    let ended = timeout::run(command, &first_pair(cpus), LIMIT);
    ended.failure.is_none().then_some(ended.out)
}

#[derive(Deserialize)]
struct Floor {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    path: String,
    time_us_min: f64,
}

fn parse(json: &str) -> Option<f64> {
    let floor: Floor = serde_json::from_str(json).ok()?;
    let row = floor
        .rows
        .into_iter()
        .find(|row| row.path == "cache-line")?;
    (row.time_us_min > 0.0).then_some(row.time_us_min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_read() {
        let json = r#"{"rows": [{"path": "memcpy", "time_us_min": 1.0},
            {"path": "cache-line", "time_us_min": 0.06}]}"#;
        assert_eq!(parse(json), Some(0.06));
        assert_eq!(parse(r#"{"rows": []}"#), None);
    }
}
