//! Who is compared, and how each runs a pattern.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use super::pairs;
use super::pattern::{Pattern, Plan};
use crate::bounded::{self, Ended};
use crate::failure::Failure;
use crate::job::target;
use crate::peers::{FoundTool, Kind, Mpi, Placement, Tool};

/// limic's own name among them.
pub(super) const LIMIC: &str = "limic";

/// One of those that are compared.
#[derive(Debug)]
pub(super) struct Contestant {
    name: &'static str,
    title: String,
    runner: Runner,
}

#[derive(Debug)]
enum Runner {
    Limic { program: PathBuf },
    Mpi { mpi: Mpi, program: PathBuf },
    Tool(Tool),
}

/// What one run gave.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Seconds of one message, or operation, by its bytes.
    pub(super) times: Vec<(u64, f64)>,
    /// Why there is nothing, or not everything.
    pub(super) failure: Option<String>,
    /// Whether it had to be killed: it is not tried again.
    pub(super) hung: bool,
    /// limic's description of the machine.
    pub(super) machine: Option<serde_json::Value>,
}

/// The command `limic`, as it was built for this.
pub(super) fn program() -> PathBuf {
    target().join("release/limic")
}

impl Contestant {
    pub(super) fn limic() -> Result<Self, Failure> {
        let program = program();
        if !program.is_file() {
            let what = format!("{} was built, but is not there", program.display());
            return Err(Failure::Missing(what));
        }
        Ok(Self {
            name: LIMIC,
            title: format!("limic {}", env!("CARGO_PKG_VERSION")),
            runner: Runner::Limic { program },
        })
    }

    pub(super) fn mpi(mpi: Mpi, program: PathBuf) -> Self {
        Self {
            name: mpi.kind.title(),
            title: mpi.title(),
            runner: Runner::Mpi { mpi, program },
        }
    }

    pub(super) fn tool(found: FoundTool) -> Self {
        Self {
            name: found.tool.title(),
            title: found.title(),
            runner: Runner::Tool(found.tool),
        }
    }

    /// `MPICH`
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// `MPICH 5.0.2`
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn can(&self, pattern: Pattern) -> bool {
        match &self.runner {
            Runner::Limic { .. } | Runner::Mpi { .. } => true,
            Runner::Tool(Tool::Ucx) => {
                matches!(
                    pattern,
                    Pattern::Latency | Pattern::Bandwidth | Pattern::Rate
                )
            }
            Runner::Tool(Tool::Libfabric) => pattern == Pattern::Latency,
        }
    }

    /// Runs a pattern over all its sizes.
    pub(super) fn measure(&self, pattern: Pattern, plan: &Plan, cpus: &[usize; 2]) -> Outcome {
        match &self.runner {
            Runner::Limic { program } => limic(program, pattern, plan, cpus),
            Runner::Mpi { mpi, program } => {
                let placement = match pattern.ranks() {
                    2 => Placement::OneEach(cpus),
                    _ => Placement::Free,
                };
                let mut command = mpi.mpiexec(pattern.ranks(), placement);
                command.arg(program).arg(pattern.name());
                command.arg(plan.seconds.to_string());
                command.args(plan.sizes(pattern).iter().map(u64::to_string));
                let ended = bounded::run(command, cpus, plan.limit(pattern));
                let placed = (pattern.ranks() == 2).then_some(cpus);
                of_patterns(&ended, plan.sizes(pattern).len(), placed)
            }
            Runner::Tool(tool) => pairs::measure(*tool, pattern, plan, cpus),
        }
    }

    /// Whether this is the MPI that issue and targets single out among the others.
    pub(super) fn is_intel(name: &str) -> bool {
        name == Kind::Intelmpi.title()
    }
}

fn limic(program: &PathBuf, pattern: Pattern, plan: &Plan, cpus: &[usize; 2]) -> Outcome {
    let mut command = Command::new(program);
    command.args(["perf", pattern.name(), "--ranks"]);
    command.arg(pattern.ranks().to_string());
    if pattern != Pattern::Barrier {
        let sizes: Vec<String> = plan.sizes(pattern).iter().map(u64::to_string).collect();
        command.args(["--sizes", &sizes.join(",")]);
    }
    let binding = if pattern.ranks() == 2 {
        "--bind"
    } else {
        "--no-bind"
    };
    command.args([
        binding,
        "--rounds",
        "1",
        "--json",
        "-",
        "--seconds-per-point",
    ]);
    command.arg(plan.seconds.to_string());
    of_limic(&bounded::run(command, cpus, plan.limit(pattern)))
}

#[derive(Deserialize)]
struct LimicReport {
    machine: serde_json::Value,
    rows: Vec<LimicRow>,
}

#[derive(Deserialize)]
struct LimicRow {
    bytes: u64,
    time_us: f64,
}

/// Reads what `limic perf --json -` printed.
fn of_limic(ended: &Ended) -> Outcome {
    let mut outcome = Outcome::of(ended);
    if outcome.failure.is_some() {
        return outcome;
    }
    match serde_json::from_str::<LimicReport>(&ended.out) {
        Ok(report) => {
            let rows = report.rows.iter();
            outcome.times = rows.map(|row| (row.bytes, row.time_us / 1e6)).collect();
            outcome.machine = Some(report.machine);
        }
        Err(why) => outcome.failure = Some(format!("printed something unreadable: {why}")),
    }
    outcome
}

/// Reads what benches/mpi/patterns.c printed. Each of the ranks has to be on one of the CPUs in
/// `placed`, in their order.
fn of_patterns(ended: &Ended, sizes: usize, placed: Option<&[usize; 2]>) -> Outcome {
    let mut outcome = Outcome::of(ended);
    let mut places = Vec::new();
    for line in ended.out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["rank", _, "cpus", list] => places.push(list.to_owned()),
            ["row", bytes, seconds, steps] => {
                let row = (bytes.parse(), seconds.parse::<f64>(), steps.parse::<f64>());
                if let (Ok(bytes), Ok(seconds), Ok(steps)) = row
                    && seconds > 0.0
                    && steps >= 1.0
                {
                    outcome.times.push((bytes, seconds / steps));
                }
            }
            // Launchers print what they like.
            _ => {}
        }
    }
    let expected = placed.map(|cpus| cpus.map(|cpu| cpu.to_string()));
    if let Some(expected) = expected
        && !places.is_empty()
        && places != expected
    {
        outcome.times.clear();
        let found = places.join(" and ");
        outcome.failure = Some(format!("its ranks ran on CPUs {found}, not one on each"));
    } else if outcome.failure.is_none() && outcome.times.len() < sizes {
        outcome.failure = Some("it ended well, but results are missing".to_owned());
    }
    outcome
}

impl Outcome {
    pub(super) fn of(ended: &Ended) -> Self {
        Self {
            failure: ended.explain(),
            hung: ended.hung,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(out: &str, failure: Option<&str>) -> Ended {
        Ended {
            out: out.to_owned(),
            err: String::new(),
            failure: failure.map(str::to_owned),
            hung: false,
        }
    }

    #[test]
    fn the_mpi_programs_lines_are_read() {
        let out = "rank 0 cpus 0\nrank 1 cpus 1\nsome warning\nrow 8 0.5 1000000\nrow 64 1 4\n";
        let outcome = of_patterns(&ended(out, None), 2, Some(&[0, 1]));
        assert_eq!(outcome.times, [(8, 0.5e-6), (64, 0.25)]);
        assert_eq!(outcome.failure, None);
        let missing = of_patterns(&ended(out, None), 3, Some(&[0, 1]));
        assert!(missing.failure.is_some() && missing.times.len() == 2);
    }

    #[test]
    fn what_was_measured_before_a_failure_counts() {
        let out = "rank 0 cpus 0\nrank 1 cpus 1\nrow 8 0.5 1000000\nrow 64 ";
        let outcome = of_patterns(&ended(out, Some("hung")), 2, Some(&[0, 1]));
        assert_eq!(outcome.times.len(), 1);
        assert!(outcome.failure.is_some_and(|why| why.starts_with("hung")));
    }

    #[test]
    fn ranks_in_the_wrong_place_are_not_compared() {
        for places in [
            "rank 0 cpus 0,1\nrank 1 cpus 0,1\n",
            "rank 0 cpus 0\nrank 1 cpus 0\n",
        ] {
            let out = format!("{places}row 8 1 1\n");
            let outcome = of_patterns(&ended(&out, None), 1, Some(&[0, 1]));
            assert!(outcome.times.is_empty() && outcome.failure.is_some());
            assert_eq!(of_patterns(&ended(&out, None), 1, None).times.len(), 1);
        }
    }

    #[test]
    fn limics_json_is_read() {
        let out = r#"{"machine": {"cpu": "x"}, "rows": [{"bytes": 8, "time_us": 2.0, "path": "inline"}]}"#;
        let outcome = of_limic(&ended(out, None));
        assert_eq!(outcome.times, [(8, 2e-6)]);
        assert_eq!(outcome.machine.map(|m| m["cpu"].clone()), Some("x".into()));
        assert!(of_limic(&ended("oops", None)).failure.is_some());
    }
}
