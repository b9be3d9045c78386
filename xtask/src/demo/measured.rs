//! The JSON of the `limic` command, as far as the demo needs it.

use limic_runner::{Failure, Job};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The output of `limic perf --json`.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// Measurements that are missing and why, and reasons to doubt the numbers.
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Row {
    /// The path that was used.
    pub(super) path: String,
    /// The path that was asked for.
    pub(super) wanted: String,
    pub(super) bytes: u64,
    /// One way, median, in microseconds.
    pub(super) time_us: f64,
    /// In 10^6 bytes per second, all pairs together; loans move none.
    pub(super) mb_per_s: Option<f64>,
}

/// The output of `limic info --json`.
#[derive(Debug, Deserialize)]
pub(super) struct Info {
    paths: Vec<PathInfo>,
}

#[derive(Debug, Deserialize)]
struct PathInfo {
    path: String,
    state: State,
    reason: Option<String>,
    remedy: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum State {
    On,
    Off,
    NotInThisBuild,
}

impl Info {
    /// One line for each path that is off: why, and what to do.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        let off = self.paths.iter().filter(|path| path.state != State::On);
        off.map(|path| {
            let reason = path.reason.as_deref().unwrap_or("not in this build");
            let remedy = path.remedy.as_deref();
            let remedy = remedy.map_or_else(String::new, |remedy| format!(" ({remedy})"));
            format!("{} is off: {reason}{remedy}", path.path)
        })
    }
}

/// Runs a command that prints one JSON object.
pub(super) fn read<T: DeserializeOwned>(job: Job) -> Result<T, Failure> {
    let command = job.shown().to_owned();
    let text = job.capture()?;
    serde_json::from_str(&text).map_err(|why| Failure::Unreadable {
        command,
        why: why.to_string(),
    })
}
