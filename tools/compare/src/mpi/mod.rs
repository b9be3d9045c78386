//! Unmodified MPIs over limic, through the libfabric provider. Installs them, says which variables
//! do it, and checks that they work and that limic moved their messages.

mod imb;
mod killed;
mod mpi4py;
mod over;
mod proof;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use limic_peers::{Kind, Machines, Mpi, Placement, build_heap, build_provider};
use limic_runner::folders::{root, target};
use limic_runner::timeout::{self, Ended};
use limic_runner::{Failure, Summary, console, cpus};

pub(crate) use self::over::OverLimic;
pub(crate) use self::proof::messages as proof;
use self::proof::{Expected, both_ways, inside_alone, judge};

/// The folder of the programs that check themselves.
const PROGRAMS: &str = "benches/mpi";
/// The longest that one program may take.
const LIMIT: Duration = Duration::from_secs(240);
/// The longest that a whole test suite may take, on CPUs that have much else to do.
const SUITE_LIMIT: Duration = Duration::from_secs(90 * 60);

/// The extent of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The MPIs that come as packages of Python, and a few benchmarks.
    Quick,
    /// Every MPI, and all of Intel's benchmarks.
    Usual,
    /// The tests of mpi4py too.
    Full,
}

/// `cargo xtask mpi`.
pub(crate) fn run(extent: Extent, summary: &mut Summary) -> Result<(), Failure> {
    let provider = build_provider()?;
    let heap = build_heap()?;
    let kinds = [
        (Kind::Mpich, "MPICH"),
        (Kind::Intelmpi, "Intel MPI, and its benchmarks (IMB)"),
        (Kind::Openmpi, "Open MPI 5"),
        (Kind::Openmpi4, "Open MPI 4"),
    ];
    let wanted = if extent == Extent::Quick { 3 } else { 4 };
    let mut all = Vec::new();
    for (kind, name) in &kinds[..wanted] {
        match Mpi::install(*kind).and_then(|mpi| OverLimic::new(mpi, &provider)) {
            Ok(over) => all.push(over),
            Err(why) => summary.skip_check(&format!("{name} over limic: {why}")),
        }
    }
    let cpus = cpus::allowed()
        .map_err(|why| Failure::Missing(format!("the CPUs of this process: {why}")))?;
    let mut checks = Checks {
        provider,
        heap,
        machines: Machines::make([&cpus, &cpus]).map(Rc::new),
        cpus,
        extent,
        failed: Vec::new(),
        summary,
    };
    let intel = all.iter().find(|over| over.mpi.kind() == Kind::Intelmpi);
    let benchmarks = intel.map(|over| over.mpi.root().join("bin"));
    for over in &all {
        checks.all(over, benchmarks.as_deref())?;
    }
    if let Err(why) = checks.wheel() {
        console::detail(&why);
        checks.failed.push("the wheel".to_owned());
    }
    if checks.failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Checks(checks.failed.join(", ")))
    }
}

struct Checks<'a> {
    /// The folder of the provider.
    provider: PathBuf,
    /// The library that serves long `malloc`s.
    heap: PathBuf,
    /// Two machines; or why there are none.
    machines: Result<Rc<Machines>, String>,
    cpus: Vec<usize>,
    extent: Extent,
    failed: Vec<String>,
    summary: &'a mut Summary,
}

impl Checks<'_> {
    fn all(&mut self, over: &OverLimic, benchmarks: Option<&Path>) -> Result<(), Failure> {
        console::step(&over.mpi.title());
        for line in over.recipe() {
            println!("    {line}");
        }
        self.programs(over)?;
        self.killed(over)?;
        if over.mpi.kind() == Kind::Mpich {
            self.own_choice(over);
            self.later_libfabric(over);
        }
        if over.mpi.kind() == Kind::Openmpi {
            self.under_lnx(over);
        }
        if let Some(folder) = benchmarks {
            self.benchmarks(over, folder);
        }
        if self.extent == Extent::Full && over.mpi.kind() == Kind::Mpich {
            self.python(over);
        }
        Ok(())
    }

    /// The path of a program of [`PROGRAMS`] that is compiled for this MPI.
    fn program(over: &OverLimic, name: &str) -> PathBuf {
        let name = format!("{name}-{}", over.mpi.kind().name());
        target().join("mpi").join(name)
    }

    fn compile(over: &OverLimic, name: &str) -> Result<PathBuf, Failure> {
        let program = Self::program(over, name);
        let source = root().join(PROGRAMS).join(format!("{name}.c"));
        over.mpi.compile(&source, &program)?;
        Ok(program)
    }

    /// The programs of [`PROGRAMS`], with two and four ranks, and with two on each of two machines.
    fn programs(&mut self, over: &OverLimic) -> Result<(), Failure> {
        let programs = [
            Self::compile(over, "check")?,
            Self::compile(over, "windows")?,
        ];
        for ranks in [2, 4] {
            self.both_programs(over, &programs, ranks, Placement::Free);
        }
        self.with_heap(over, &programs[0]);
        match self.machines.clone() {
            Ok(machines) => self.both_programs(over, &programs, 4, Placement::Apart(&machines)),
            Err(why) => {
                let name = format!("{} on two machines", over.mpi.title());
                self.summary.skip_check(&format!("{name}: {why}"));
            }
        }
        Ok(())
    }

    /// A program as it is, with its long `malloc`s in memory that its peers may read.
    fn with_heap(&mut self, over: &OverLimic, program: &Path) {
        let mut command = over.mpiexec(2, Placement::Free);
        let heap = self.heap.display().to_string();
        over.mpi.set_for_ranks(&mut command, "LD_PRELOAD", &heap);
        command.arg(program);
        let name = format!("{}: check with liblimic-heap.so", over.mpi.title());
        let wanted = ["any source: right", "collectives: right"];
        self.check(&name, command, 2, &wanted, Expected::PeerReadable);
    }

    fn both_programs(
        &mut self,
        over: &OverLimic,
        [check, windows]: &[PathBuf; 2],
        ranks: u32,
        placement: Placement<'_>,
    ) {
        let apart = matches!(placement, Placement::Apart(_));
        let proof = |ended: &Ended, expected| {
            let proof = judge(&ended.out, &ended.err, ranks, expected)?;
            if !apart {
                return Ok(proof);
            }
            Ok(format!("{proof}; {}", both_ways(&ended.out, &ended.err)?))
        };
        let place = if apart { " on two machines" } else { "" };
        let mut command = over.mpiexec(ranks, placement);
        command.arg(check);
        let name = format!("{}: check with {ranks} ranks{place}", over.mpi.title());
        let wanted = ["any source: right", "collectives: right", "threads: "];
        self.prove(&name, command, &wanted, |ended| {
            proof(ended, Expected::Messages)
        });
        let name = format!("{}: windows with {ranks} ranks{place}", over.mpi.title());
        if over.mpi.kind() == Kind::Openmpi4 {
            let why = "it crashes in its own shared-memory atomics, without limic too";
            return self.summary.skip_check(&format!("{name}: {why}"));
        }
        let mut command = over.mpiexec(ranks, placement);
        command.arg(windows);
        let wanted = ["one-sided: right", "atomics: right", "in flight: right"];
        self.prove(&name, command, &wanted, |ended| {
            proof(ended, Expected::OneSided)
        });
    }

    /// A rank is killed.
    fn killed(&mut self, over: &OverLimic) -> Result<(), Failure> {
        let program = Self::compile(over, "killed")?;
        let name = format!("{}: a rank is killed", over.mpi.title());
        self.judge(&name, killed::job(over, &program, &self.cpus));
        let name = format!("{}: a rank dies unseen by its launcher", over.mpi.title());
        self.judge(&name, killed::survivors(over, &program, &self.cpus));
        Ok(())
    }

    /// Under libfabric's `lnx`: two and four ranks, and two on each of two machines, with its `tcp`
    /// between them.
    fn under_lnx(&mut self, over: &OverLimic) {
        let program = Self::program(over, "check");
        let start = |ranks, placement: Placement<'_>| {
            let mut command = over.mpiexec_under_lnx(ranks, placement);
            // What `lnx` has not, with libfabric's own `shm` below it either.
            let without = ["no-cancel", "no-communicators", "no-threads"];
            command.arg(&program).args(without);
            command
        };
        let wanted = [
            "any source: right",
            "collectives: right",
            "datatypes: right",
        ];
        let name = |ranks| format!("{} under lnx: check with {ranks} ranks", over.mpi.title());
        for ranks in [2, 4] {
            let command = start(ranks, Placement::Free);
            self.check(&name(ranks), command, ranks, &wanted, Expected::Messages);
        }
        let name = name(4) + " on two machines";
        match self.machines.clone() {
            Ok(machines) => {
                let command = start(4, Placement::Apart(&machines));
                self.prove(&name, command, &wanted, |ended| {
                    inside_alone(&ended.out, &ended.err, 4)
                });
            }
            Err(why) => self.summary.skip_check(&format!("{name}: {why}")),
        }
    }

    /// MPICH picks the provider by itself if no variable names one, because the provider offers all
    /// that MPICH asks for.
    fn own_choice(&mut self, over: &OverLimic) {
        let mut command = over.mpiexec(2, Placement::Free);
        // The provider `sockets` offers as much and comes first, and is obsolete.
        command.env("FI_PROVIDER", "^sockets");
        command.arg(Self::program(over, "check"));
        let name = format!("{}: picks limic by itself", over.mpi.title());
        let wanted = ["collectives: right"];
        self.check(&name, command, 2, &wanted, Expected::Messages);
    }

    /// Asks the libfabric 2 that MPICH brings for the provider.
    fn later_libfabric(&mut self, over: &OverLimic) {
        let name = "fi_info with MPICH's libfabric";
        if Command::new("fi_info").arg("-h").output().is_err() {
            let why = "no fi_info (package libfabric-bin)";
            self.summary.skip_check(&format!("{name}: {why}"));
            return;
        }
        let fi_info = |words: &[&str]| {
            let mut command = Command::new("fi_info");
            command
                .args(words)
                .env("FI_PROVIDER_PATH", &self.provider)
                .env("LD_LIBRARY_PATH", over.mpi.root().join("lib/mpich"));
            timeout::run(command, &self.cpus, LIMIT)
        };
        let version = fi_info(&["--version"]).out;
        let mut lines = version.lines();
        let version = lines.find_map(|line| line.strip_prefix("libfabric: "));
        let listed = fi_info(&["-p", "limic", "-v"]);
        let wanted = [
            "type: FI_EP_RDM",
            "prov_name: limic",
            "FI_TAGGED",
            "FI_ATOMIC",
        ];
        let missing = wanted.iter().find(|words| !listed.out.contains(**words));
        let verdict = match (listed.explain(), version, missing) {
            (Some(why), _, _) => Err(why),
            (None, Some(version), None) if version.starts_with("2.") => {
                Ok(format!("libfabric {version}"))
            }
            (None, Some(version), Some(words)) if version.starts_with("2.") => {
                Err(format!("it does not list '{words}'"))
            }
            (None, version, _) => Err(format!("its libfabric is {}", version.unwrap_or("silent"))),
        };
        self.judge(name, verdict);
    }

    /// The tests of mpi4py.
    fn python(&mut self, over: &OverLimic) {
        let suite = match mpi4py::Suite::install() {
            Ok(suite) => suite,
            Err(why) => {
                let skip = format!("the tests of mpi4py over limic: {why}");
                return self.summary.skip_check(&skip);
            }
        };
        for ranks in [2, 4] {
            let mut command = over.mpiexec(ranks, Placement::Free);
            suite.add_to(&mut command, &over.mpi);
            let name = format!("{}: mpi4py with {ranks} ranks", over.mpi.title());
            let ended = timeout::run(command, &self.cpus, SUITE_LIMIT);
            let verdict = suite.judge(&ended.out, &ended.err).and_then(|ran| {
                let proof = judge(&ended.out, &ended.err, ranks, Expected::Spawns)?;
                Ok(format!("{ran}; {proof}"))
            });
            self.judge(&name, verdict);
        }
    }

    /// The Python wheel.
    fn wheel(&mut self) -> Result<(), Failure> {
        let name = "limic-ofi with MPICH in a fresh Python environment";
        match wheel::environment() {
            Ok(environment) => {
                let shell = wheel::shell(&environment)?;
                let wanted = ["I am process 0 of 2", "I am process 1 of 2"];
                self.check(name, shell, 2, &wanted, Expected::Messages);
            }
            Err(why) => self.summary.skip_check(&format!("{name}: {why}")),
        }
        Ok(())
    }

    /// Runs ranks, which have to print `wanted` and to end well. Each rank has to have sent through
    /// limic.
    fn check(
        &mut self,
        name: &str,
        command: Command,
        ranks: u32,
        wanted: &[&str],
        expected: Expected,
    ) {
        self.prove(name, command, wanted, |ended| {
            judge(&ended.out, &ended.err, ranks, expected)
        });
    }

    /// The same, with another proof.
    fn prove(
        &mut self,
        name: &str,
        command: Command,
        wanted: &[&str],
        proof: impl FnOnce(&Ended) -> Result<String, String>,
    ) {
        let ended = timeout::run(command, &self.cpus, LIMIT);
        let missing = wanted.iter().find(|words| !ended.out.contains(**words));
        let verdict = match (ended.explain(), missing) {
            (Some(why), _) => Err(why),
            (None, Some(words)) => Err(format!("it did not say '{words}'")),
            (None, None) => proof(&ended),
        };
        self.judge(name, verdict);
    }

    fn judge(&mut self, name: &str, verdict: Result<String, String>) {
        match verdict {
            Ok(how) => {
                println!("{name}: ok ({how})");
                self.summary.pass();
            }
            Err(why) => {
                console::error(&format_args!("{name}: FAILED: {why}"));
                self.failed.push(name.to_owned());
            }
        }
    }
}
