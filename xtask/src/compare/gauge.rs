//! How fast the two CPUs reach each other's caches at this moment.
//!
//! On a virtual machine this changes by a factor of two and more when the hypervisor moves a virtual
//! CPU to another part of the machine, and stays so for seconds or minutes. Results from before and
//! after such a change cannot be compared.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use super::samples::Spread;
use crate::bounded;

/// Factor beyond which two readings mean that the machine has changed.
const CHANGED: f64 = 1.3;

const LIMIT: Duration = Duration::from_secs(20);

/// One pass of a pattern through all contestants, and what a hand-over of one cache line took then.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pass {
    pub(super) round: u32,
    pub(super) pattern: &'static str,
    pub(super) before_us: Option<f64>,
    pub(super) after_us: Option<f64>,
}

impl Pass {
    pub(super) fn new(round: u32, pattern: Pattern, before_us: Option<f64>) -> Self {
        Self {
            round,
            pattern: pattern.name(),
            before_us,
            after_us: None,
        }
    }

    /// Whether the machine changed meanwhile, as far as that is known.
    pub(super) fn changed(&self) -> bool {
        match (self.before_us, self.after_us) {
            (Some(before), Some(after)) => before.max(after) > CHANGED * before.min(after),
            _ => false,
        }
    }
}

/// Microseconds to hand one cache line over, as `limic perf floor` measures it.
pub(super) fn read(limic: &Path, cpus: &[usize; 2]) -> Option<f64> {
    let mut command = Command::new(limic);
    command.args(["perf", "floor", "--sizes", "64", "--rounds", "3"]);
    command.args(["--seconds-per-point", "0.03", "--json", "-"]);
    let ended = bounded::run(command, cpus, LIMIT);
    ended.failure.is_none().then(|| parse(&ended.out)).flatten()
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

/// Over all passes, in microseconds.
pub(super) fn spread(passes: &[Pass]) -> Option<Spread> {
    let readings = passes
        .iter()
        .flat_map(|pass| [pass.before_us, pass.after_us]);
    Spread::of(readings.flatten())
}

/// What the readings say about the results.
pub(super) fn warnings(passes: &[Pass]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(all) = spread(passes)
        && all.most > CHANGED * all.least
    {
        warnings.push(format!(
            "the CPUs did not keep their distance: a cache line changed hands in {:.3} to {:.3} us (median {:.3}), so \
             times differ between rounds; ratios are taken within each round",
            all.least, all.most, all.median
        ));
    }
    let changed = passes.iter().filter(|pass| pass.changed()).count();
    if changed > 0 {
        warnings.push(format!(
            "that changed within {changed} of {} passes of a pattern through all peers",
            passes.len()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(before: f64, after: f64) -> Pass {
        Pass {
            after_us: Some(after),
            ..Pass::new(1, Pattern::Rate, Some(before))
        }
    }

    #[test]
    fn a_machine_that_changes_is_noticed() {
        assert!(!pass(0.06, 0.07).changed());
        assert!(pass(0.06, 0.18).changed() && pass(0.18, 0.06).changed());
        assert!(!Pass::new(1, Pattern::Rate, None).changed());
        assert!(warnings(&[pass(0.06, 0.07)]).is_empty());
        assert_eq!(warnings(&[pass(0.06, 0.07), pass(0.17, 0.18)]).len(), 1);
        assert_eq!(warnings(&[pass(0.06, 0.18)]).len(), 2);
    }

    #[test]
    fn the_floor_is_read() {
        let json = r#"{"rows": [{"path": "memcpy", "time_us_min": 1.0}, {"path": "cache-line", "time_us_min": 0.06}]}"#;
        assert_eq!(parse(json), Some(0.06));
        assert_eq!(parse(r#"{"rows": []}"#), None);
    }
}
