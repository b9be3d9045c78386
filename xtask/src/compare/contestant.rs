//! Who is compared, and how each runs a pattern.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::outcome::Outcome;
use super::pattern::{Pattern, Plan};
use super::{pairs, reading};
use crate::bounded;
use crate::failure::Failure;
use crate::job::target;
use crate::mpi::{Library, proof};
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
    Limic {
        program: PathBuf,
    },
    Mpi {
        mpi: Mpi,
        program: PathBuf,
    },
    /// An MPI as it comes.
    Own {
        library: Library,
        program: PathBuf,
    },
    /// The same with its messages over limic, by this provider.
    Over {
        library: Library,
        provider: PathBuf,
        program: PathBuf,
    },
    Tool(Tool),
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

    pub(super) fn own(name: &'static str, library: Library, program: PathBuf) -> Self {
        Self {
            name,
            title: library.title(),
            runner: Runner::Own { library, program },
        }
    }

    pub(super) fn over(
        name: &'static str,
        library: Library,
        provider: PathBuf,
        program: PathBuf,
    ) -> Self {
        Self {
            name,
            title: format!("{} over limic", library.title()),
            runner: Runner::Over {
                library,
                provider,
                program,
            },
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
            Runner::Limic { .. } => true,
            // Nobody but limic has the patterns that it measures against something of its own.
            Runner::Mpi { .. } | Runner::Own { .. } | Runner::Over { .. } => {
                pattern.reference().is_none()
            }
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
        let ranks = plan.ranks(pattern);
        let placement = match ranks {
            2 => Placement::OneEach(cpus),
            _ => Placement::Free,
        };
        let (command, program) = match &self.runner {
            Runner::Limic { program } => return limic(program, pattern, plan, cpus),
            Runner::Tool(tool) => return pairs::measure(*tool, pattern, plan, cpus),
            Runner::Mpi { mpi, program } => (mpi.mpiexec(ranks, placement), program),
            Runner::Own { library, program } => (library.own_mpiexec(ranks, placement), program),
            Runner::Over {
                library,
                provider,
                program,
            } => (library.mpiexec(ranks, placement, provider), program),
        };
        self.under_mpi(command, program, pattern, plan, cpus)
    }

    fn under_mpi(
        &self,
        mut command: Command,
        program: &Path,
        pattern: Pattern,
        plan: &Plan,
        cpus: &[usize; 2],
    ) -> Outcome {
        let ranks = plan.ranks(pattern);
        command.arg(program).arg(pattern.name());
        command.arg(plan.seconds.to_string());
        command.args(plan.sizes(pattern).iter().map(u64::to_string));
        let ended = bounded::run(command, cpus, plan.patience(pattern));
        let placed = (ranks == 2).then_some(cpus);
        let mut outcome = reading::patterns(&ended, plan.sizes(pattern).len(), placed);
        if let Runner::Over { .. } = self.runner
            && outcome.failure.is_none()
            && let Err(why) = proof(&ended.out, &ended.err, ranks)
        {
            outcome.times.clear();
            outcome.failure = Some(why);
        }
        outcome
    }

    /// Whether this is the MPI that issue and targets single out among the others.
    pub(super) fn is_intel(name: &str) -> bool {
        name == Kind::Intelmpi.title()
    }
}

fn limic(program: &Path, pattern: Pattern, plan: &Plan, cpus: &[usize; 2]) -> Outcome {
    let sizes: Vec<String> = plan.sizes(pattern).iter().map(u64::to_string).collect();
    // One size in one run.
    let runs: Vec<Vec<String>> = match pattern {
        Pattern::Barrier => vec![words("barrier")],
        Pattern::Loan => vec![
            [
                words("latency --paths hybrid,loan --sizes"),
                vec![sizes.join(",")],
            ]
            .concat(),
        ],
        Pattern::Skew => sizes
            .iter()
            .map(|size| [words("skew --c1 1 --c2 50 --bytes"), vec![size.clone()]].concat())
            .collect(),
        _ => vec![vec![
            pattern.name().to_owned(),
            "--sizes".to_owned(),
            sizes.join(","),
        ]],
    };
    let ranks = plan.ranks(pattern);
    let mut outcome = Outcome::default();
    for run in runs {
        let mut command = Command::new(program);
        command.arg("perf").args(run);
        command.args(["--ranks", &ranks.to_string()]);
        command.arg(if ranks == 2 { "--bind" } else { "--no-bind" });
        command.args(words("--rounds 1 --json - --seconds-per-point"));
        command.arg(plan.seconds.to_string());
        let ended = bounded::run(command, cpus, plan.patience(pattern));
        outcome.add(reading::limic(&ended, pattern));
    }
    outcome
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
