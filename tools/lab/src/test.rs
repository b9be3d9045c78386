//! `cargo xtask lab test`: every guest test, each reported by its name.
//!
//! The tests are ordinary integration tests. One program is one boot. Several programs run side by
//! side ([`schedule`]), and each test is a process of its own ([`session`](super::session)).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use limic_runner::folders::target;
use limic_runner::{Failure, Summary, console};

use super::kernel::{self, Kernel};
use super::machine::Machine;
use super::programs::{self, Program, Selection};
use super::report::{self, Report, Sum};
use super::schedule::{self, Piece};
use super::session::Session;
use super::{Flavour, module, needs};

/// The tests that run, and where.
#[derive(Debug, Default, Args)]
pub struct TestArguments {
    #[command(flatten)]
    machine: Machine,
    /// How many guests of one processor run side by side; those of two count twice [default: the
    /// processors of this machine, as far as its memory goes]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
    /// When one test is ended, in seconds [default: 300, on the debug image 900, with KASAN 1800]
    #[arg(long)]
    limit: Option<u64>,
    /// The part that CI runs: some of each kind, and a short run of the fuzzer.
    #[arg(long, conflicts_with = "filter")]
    short: bool,
    /// Run the tests whose name (`program::test`) holds this.
    filter: Option<String>,
}

impl TestArguments {
    /// The part that CI runs.
    pub(crate) fn short() -> Self {
        Self {
            short: true,
            ..Self::default()
        }
    }

    fn selection(&self) -> Selection<'_> {
        match &self.filter {
            _ if self.short => Selection::Short,
            Some(text) => Selection::Named(text),
            None => Selection::All,
        }
    }

    fn limit(&self) -> u64 {
        self.limit.unwrap_or(match self.machine.flavour.flavour() {
            Flavour::Fast => 300,
            Flavour::Debug => 900,
            Flavour::Kasan => 1800,
        })
    }
}

pub(crate) fn run(arguments: &TestArguments, summary: &mut Summary) -> Result<(), Failure> {
    let flavour = arguments.machine.flavour.flavour();
    let kernel = kernel::build(flavour, false)?;
    needs::machine(true)?;
    let module = module::build(&kernel)?;
    let selection = arguments.selection();
    let programs = programs::build(selection, flavour)?;
    if programs.is_empty() {
        return Err(Failure::Wrong(format!(
            "no guest test of the {} image has '{}' in its name",
            flavour.name(),
            arguments.filter.as_deref().unwrap_or_default()
        )));
    }
    let tests = Tests {
        arguments,
        kernel,
        module,
    };
    let times = Times::read(flavour);
    let pieces: Vec<Piece> = programs
        .iter()
        .map(|program| Piece {
            weight: program.guests() * usize::from(tests.machine(program).processors()),
            length: times.of(program),
        })
        .collect();
    let jobs = arguments.jobs.map_or_else(
        || room(arguments.machine.memory),
        |jobs| usize::from(jobs.max(1)),
    );
    console::step(&format_args!(
        "lab: {} programs in guests of the {} image, {jobs} at a time",
        programs.len(),
        flavour.name()
    ));
    let begin = Instant::now();
    let shared = Mutex::new(summary);
    let sums = schedule::side_by_side(&pieces, jobs, |place| {
        tests.program(&programs[place], &shared)
    });
    print!("{}", report::times(&sums, begin.elapsed()));
    if matches!(selection, Selection::All) {
        times.write(&sums);
    }
    match sums.iter().map(|sum| sum.failed).sum() {
        0 => Ok(()),
        failed => Err(Failure::Checks(format!("{failed} guest tests"))),
    }
}

/// The number of guests' processors that this machine carries at a time.
fn room(memory: u32) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let available = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find(|line| line.starts_with("MemAvailable:"))?;
            line.split_whitespace().nth(1)?.parse::<usize>().ok()
        });
    // In KiB. QEMU needs a little memory beside each guest's.
    let each = (memory as usize + 200) << 10;
    let carried = available.map_or(processors, |available| available / each);
    processors.min(carried).max(1)
}

/// The machine, kernel and module for all programs.
struct Tests<'a> {
    arguments: &'a TestArguments,
    kernel: Kernel,
    module: PathBuf,
}

impl Tests<'_> {
    fn machine(&self, program: &Program) -> Machine {
        let wanted = &self.arguments.machine;
        Machine {
            rdma: true,
            cpus: wanted.cpus.or_else(|| Some(program.processors())),
            ..wanted.clone()
        }
    }

    /// Runs the tests of one program. A failure to run its guests leaves other programs alone.
    fn program<'a>(&'a self, program: &'a Program, summary: &'a Mutex<&'a mut Summary>) -> Sum {
        let mut report = Report::new(&program.name, summary);
        let result = self
            .session(program)
            .and_then(|mut session| session.run(&mut report));
        if let Err(why) = result {
            report.broken(&why.to_string());
        }
        report.end()
    }

    fn session<'a>(&'a self, program: &'a Program) -> Result<Session<'a>, Failure> {
        let machine = self.machine(program);
        let mut contents = machine.contents()?;
        let limit = self.arguments.limit();
        // Tests have watchdogs of their own, which end a little before this one and say more.
        let mut set = vec![
            ("LIMIC_TEST_LIMIT", limit.saturating_sub(30).to_string()),
            ("LIMIC_TEST_SECONDS", limit.saturating_sub(20).to_string()),
        ];
        if self.arguments.short {
            set.extend(programs::SHORT_SETTINGS.map(|(name, value)| (name, value.to_owned())));
        }
        // A variable that the user has set holds in the guest too.
        set.retain(|(name, _)| std::env::var_os(name).is_none());
        let set = set
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        contents.environment.extend(set);
        if program.guests() > 1 {
            programs::add_launchers(&mut contents);
        }
        contents.modules.push(self.module.clone());
        contents.programs.push(program.path.clone());
        contents.programs.extend(programs::started());
        program.add_faulty_code(&self.kernel, &mut contents);
        program.add_libfabric(&mut contents);
        let limit = Duration::from_secs(limit);
        Ok(Session::new(
            &self.kernel,
            machine,
            contents,
            program,
            limit,
        ))
    }
}

/// The time of each program in the last run, so that the longest begin first.
#[derive(Debug, Default)]
struct Times {
    path: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl Times {
    fn read(flavour: Flavour) -> Self {
        let path = target().join(format!("lab/times-{}.json", flavour.name()));
        // It only helps. A file that cannot be read is as good as none.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let seconds = serde_json::from_str(&text).unwrap_or_default();
        Self { path, seconds }
    }

    /// A program that never ran here counts by the number of its tests.
    fn of(&self, program: &Program) -> f64 {
        let guess = program.tests.len() as f64;
        self.seconds.get(&program.name).copied().unwrap_or(guess)
    }

    fn write(&self, sums: &[Sum]) {
        let seconds: BTreeMap<&str, f64> = sums
            .iter()
            .map(|sum| (sum.program.as_str(), sum.took.as_secs_f64()))
            .collect();
        let written = serde_json::to_vec_pretty(&seconds)
            .map_err(std::io::Error::from)
            .and_then(|text| std::fs::write(&self.path, text));
        if let Err(why) = written {
            console::detail(&Failure::file("write", &self.path, why));
        }
    }
}
