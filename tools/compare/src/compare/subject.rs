//! The subjects of a comparison, and how each runs a pattern.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use limic_peers::{FoundTool, Kind, Machines, Mpi, Placement, Tool};
use limic_runner::folders::target;
use limic_runner::{Failure, timeout};

use super::outcome::Outcome;
use super::pattern::{Pattern, Plan, Portion};
use super::{imb, pairs, reading, tcp};
use crate::mpi::{OverLimic, proof};

/// limic's own name among them.
pub(super) const LIMIC: &str = "limic";

/// What the machine allows: no peer, but measured in the same passes.
pub(super) const FLOOR: &str = "floor";

/// Sockets that block: beside the floor over TCP, which polls.
pub(super) const BLOCKING: &str = "blocking";

/// Intel MPI by its makers' own benchmark: a check of our patterns.
pub(super) const IMB: &str = "IMB";

/// limic, where its messages lie in memory that peers may read. It has rows of its own.
pub(super) const PEER_READABLE: &str = "limic, peer-readable";

/// The sizes of those messages: others are not measured.
const READABLE: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Measured in the same passes, but not compared with.
pub(super) const YARDSTICKS: [&str; 3] = [FLOOR, IMB, PEER_READABLE];

/// A message layer that is compared.
#[derive(Debug)]
pub(super) struct Subject {
    name: &'static str,
    title: String,
    runner: Runner,
    /// Where its two ranks reach each other over TCP alone.
    machines: Option<Rc<Machines>>,
}

#[derive(Debug)]
enum Runner {
    Limic,
    /// `limic perf --paths peer-readable`
    PeerReadable,
    /// Two copies without tags, requests and counters, by `limic perf floor`.
    Floor,
    /// An MPI as it comes.
    Mpi {
        mpi: Mpi,
        program: PathBuf,
    },
    /// An MPI with its messages over limic.
    Over {
        over: OverLimic,
        program: PathBuf,
    },
    Tool(Tool),
    Imb(Mpi),
    /// The program, and how its sockets wait.
    Sockets(PathBuf, &'static str),
}

/// The command `limic`, which is built before the comparison.
pub(crate) fn program() -> PathBuf {
    target().join("release/limic")
}

impl Subject {
    pub(super) fn limic() -> Result<Self, Failure> {
        let program = program();
        if !program.is_file() {
            let what = format!("{} was built, but is not there", program.display());
            return Err(Failure::Missing(what));
        }
        let title = format!("limic {}", env!("CARGO_PKG_VERSION"));
        Ok(Self::new(LIMIC, title, Runner::Limic))
    }

    fn new(name: &'static str, title: String, runner: Runner) -> Self {
        Self {
            name,
            title,
            runner,
            machines: None,
        }
    }

    pub(super) fn peer_readable() -> Self {
        let title = "limic from peer-readable memory".to_owned();
        Self::new(PEER_READABLE, title, Runner::PeerReadable)
    }

    pub(super) fn floor() -> Self {
        Self::new(FLOOR, "the floor of two copies".to_owned(), Runner::Floor)
    }

    /// benches/tcp/sockets.c, with sockets that are polled or that block.
    pub(super) fn sockets(program: &Path) -> [Self; 2] {
        let of = |name, title: &str, how| {
            let runner = Runner::Sockets(program.to_owned(), how);
            Self::new(name, title.to_owned(), runner)
        };
        [
            of(FLOOR, "bare sockets, polled", "poll"),
            of(BLOCKING, "bare sockets that block", "block"),
        ]
    }

    /// `program` is benches/mpi/patterns.c, compiled for the MPI.
    pub(super) fn mpi(name: &'static str, mpi: Mpi, program: PathBuf) -> Self {
        Self::new(name, mpi.title(), Runner::Mpi { mpi, program })
    }

    /// The benchmark that comes with Intel MPI.
    pub(super) fn imb(mpi: Mpi) -> Self {
        Self::new(IMB, format!("IMB of {}", mpi.title()), Runner::Imb(mpi))
    }

    pub(super) fn over(name: &'static str, over: OverLimic, program: PathBuf) -> Self {
        let title = format!("{} over limic", over.mpi.title());
        Self::new(name, title, Runner::Over { over, program })
    }

    pub(super) fn tool(found: FoundTool) -> Self {
        let name = found.tool.title();
        Self::new(name, found.title(), Runner::Tool(found.tool))
    }

    /// The same over TCP, with one rank on each machine.
    pub(super) fn over_tcp(self, machines: &Rc<Machines>) -> Self {
        Self {
            machines: Some(Rc::clone(machines)),
            ..self
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

    /// Whether it has this pattern, of so many ranks.
    pub(super) fn can(&self, pattern: Pattern, ranks: u32) -> bool {
        match &self.runner {
            Runner::Limic => true,
            // These know a single pair.
            Runner::PeerReadable | Runner::Floor | Runner::Tool(_) | Runner::Imb(_)
                if ranks > 2 =>
            {
                false
            }
            Runner::PeerReadable => matches!(pattern, Pattern::Latency | Pattern::Bandwidth),
            Runner::Floor => floor_kind(pattern).is_some(),
            // limic alone has the patterns that it measures against a reference of its own.
            Runner::Mpi { .. } | Runner::Over { .. } => pattern.reference().is_none(),
            Runner::Tool(Tool::Ucx) => {
                matches!(
                    pattern,
                    Pattern::Latency | Pattern::Bandwidth | Pattern::Rate
                )
            }
            Runner::Tool(Tool::Libfabric) => pattern == Pattern::Latency,
            Runner::Imb(_) => imb::can(pattern),
            Runner::Sockets(..) => true,
        }
    }

    /// Whether it has this pattern, of so many ranks, at this size.
    pub(super) fn has(&self, (pattern, bytes): (Pattern, u64), ranks: u32) -> bool {
        let all = !matches!(self.runner, Runner::PeerReadable);
        self.can(pattern, ranks) && (all || READABLE.contains(&bytes))
    }

    /// Runs a pattern over the sizes of a portion.
    pub(super) fn measure(&self, portion: &Portion, plan: &Plan, cpus: &[usize]) -> Outcome {
        let ranks = plan.ranks(portion.pattern);
        let machines = self.machines.as_deref();
        let placement = match machines {
            Some(machines) => Placement::Apart(machines),
            None if plan.one_each(portion.pattern) => Placement::OneEach(cpus),
            None => Placement::Free,
        };
        let (mut command, program) = match &self.runner {
            Runner::Limic => return limic(portion, plan, cpus, machines),
            Runner::PeerReadable => return peer_readable(portion, plan, cpus),
            Runner::Floor => return floor(portion, plan, cpus),
            Runner::Sockets(program, how) => {
                return tcp::sockets(program, how, portion, plan, cpus, machines);
            }
            Runner::Imb(mpi) => return imb::measure(mpi, portion, plan, cpus),
            Runner::Tool(tool) => return pairs::measure(*tool, portion, plan, cpus, machines),
            Runner::Mpi { mpi, program } => (mpi.mpiexec(ranks, placement), program),
            Runner::Over { over, program } => (over.mpiexec(ranks, placement), program),
        };
        if let (Runner::Mpi { mpi, .. }, Some(_)) = (&self.runner, machines) {
            command.envs(tcp::variables(mpi));
        }
        self.under_mpi(command, program, portion, plan, cpus)
    }

    fn under_mpi(
        &self,
        mut command: Command,
        program: &Path,
        portion: &Portion,
        plan: &Plan,
        cpus: &[usize],
    ) -> Outcome {
        let ranks = plan.ranks(portion.pattern);
        command.arg(program).arg(portion.pattern.name());
        command.arg(plan.seconds.to_string());
        command.args(portion.sizes.iter().map(u64::to_string));
        let ended = timeout::run(command, cpus, plan.patience(portion));
        let placed = plan.one_each(portion.pattern).then_some(cpus);
        let mut outcome = reading::patterns(&ended, portion.sizes.len(), placed);
        if let Runner::Over { .. } = self.runner
            && outcome.failure.is_none()
            && let Err(why) = proof(&ended.out, &ended.err, ranks)
        {
            outcome.times.clear();
            outcome.failure = Some(why);
        }
        outcome
    }

    /// Whether this is Intel MPI, for which there are targets of its own.
    pub(super) fn is_intel(name: &str) -> bool {
        name == Kind::Intelmpi.title()
    }
}

/// The kind of `limic perf floor` with the shape of a pattern.
fn floor_kind(pattern: Pattern) -> Option<&'static str> {
    match pattern {
        Pattern::Latency => Some("two-copy"),
        Pattern::Bandwidth => Some("two-copy-stream"),
        _ => None,
    }
}

fn floor(portion: &Portion, plan: &Plan, cpus: &[usize]) -> Outcome {
    let pattern = portion.pattern;
    let sizes = portion.sizes.iter().filter(|bytes| **bytes > 0);
    let sizes: Vec<String> = sizes.map(|bytes| bytes.to_string()).collect();
    let mut command = Command::new(program());
    command.args(words("perf floor --rounds 1 --json - --only"));
    command.arg(floor_kind(pattern).unwrap_or_default());
    command.args(["--sizes", &sizes.join(",")]);
    command.args(["--seconds-per-point", &plan.seconds.to_string()]);
    let ended = timeout::run(command, cpus, plan.patience(portion));
    reading::limic(&ended, pattern)
}

fn peer_readable(portion: &Portion, plan: &Plan, cpus: &[usize]) -> Outcome {
    let pattern = portion.pattern;
    let mut portion = portion.clone();
    portion.sizes.retain(|bytes| READABLE.contains(bytes));
    if portion.sizes.is_empty() {
        return Outcome::default();
    }
    let sizes = listed(&portion.sizes);
    let run = format!("{} --paths peer-readable --sizes {sizes}", pattern.name());
    let mut outcome = perf(&run, &portion, plan, cpus, None);
    outcome.expect(&portion.sizes);
    outcome
}

fn limic(portion: &Portion, plan: &Plan, cpus: &[usize], machines: Option<&Machines>) -> Outcome {
    let pattern = portion.pattern;
    let sizes = listed(&portion.sizes);
    let runs: Vec<String> = match pattern {
        Pattern::Barrier => vec!["barrier".to_owned()],
        Pattern::Loan => vec![format!("latency --paths hybrid,loan --sizes {sizes}")],
        Pattern::Skew => {
            let of = |size: &u64| format!("skew --c1 1 --c2 50 --bytes {size}");
            portion.sizes.iter().map(of).collect()
        }
        _ => vec![format!("{} --sizes {sizes}", pattern.name())],
    };
    let mut outcome = Outcome::default();
    for run in runs {
        outcome.add(perf(&run, portion, plan, cpus, machines));
    }
    outcome
}

/// Runs `limic perf` with these words.
fn perf(
    run: &str,
    portion: &Portion,
    plan: &Plan,
    cpus: &[usize],
    machines: Option<&Machines>,
) -> Outcome {
    let pattern = portion.pattern;
    let mut command = match machines {
        Some(machines) => tcp::limic(machines),
        None => Command::new(program()),
    };
    command.arg("perf").args(words(run));
    if machines.is_none() {
        command.args(["--ranks", &plan.ranks(pattern).to_string()]);
        let bind = plan.one_each(pattern);
        command.arg(if bind { "--bind" } else { "--no-bind" });
    }
    command.args(words("--rounds 1 --json - --seconds-per-point"));
    command.arg(plan.seconds.to_string());
    let ended = timeout::run(command, cpus, plan.patience(portion));
    reading::limic(&ended, pattern)
}

/// `8,16`
fn listed(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    sizes.join(",")
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_of_one_pair_are_measured_from_peer_readable_memory_too() {
        let subject = Subject::peer_readable();
        for pattern in [Pattern::Latency, Pattern::Bandwidth] {
            assert!(subject.has((pattern, 16 << 10), 2) && subject.has((pattern, 4 << 20), 2));
            assert!(!subject.has((pattern, 8), 2) && !subject.has((pattern, 16 << 10), 16));
        }
        assert!(!subject.has((Pattern::Bibandwidth, 16 << 10), 2));
        assert!(Subject::floor().has((Pattern::Latency, 8), 2));
    }
}
