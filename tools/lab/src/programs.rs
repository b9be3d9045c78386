//! The test programs of the packages that have guest tests, and the tests in each. The host builds
//! them.

use std::path::{Path, PathBuf};

use limic_peers::{Kind, Mpi, test_variables};
use limic_runner::folders::{self, root, target};
use limic_runner::{Failure, Job};
use serde::Deserialize;

use super::image::Contents;
use super::kernel::Kernel;
use super::{Flavour, needs};

const PACKAGES: [&str; 2] = ["limic-lab-tests", "limic-module-tests"];

/// The test that starts a C program over liblimic2, and the name of that program.
const STAND_IN: &str = "limic2";
const STAND_IN_PROGRAM: &str = "limic2-mpi";

/// The test that starts programs over `limic.h`, and the names of these, which are tests of the C
/// interface itself.
const C_INTERFACE: &str = "c_interface";
const C_PROGRAMS: [&str; 4] = [
    "limic-c-messages",
    "limic-c-requests",
    "limic-c-probe",
    "limic-c-vectored",
];

/// The beginning of the names of the tests that run a program of MPICH.
const MPICH_TESTS: &str = "mpich_runs_on_both";

/// One test program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) tests: Vec<String>,
}

/// Which tests are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Selection<'a> {
    All,
    /// Tests whose name, `program::test`, holds this.
    Named(&'a str),
    /// The tests that CI runs.
    Short,
}

impl Selection<'_> {
    fn holds(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(text) => name.contains(text),
            Self::Short => SHORT.iter().any(|start| name.starts_with(start)),
        }
    }
}

/// Beginnings of the names of the tests that CI runs: the guest itself, the module's interface and
/// what it does, the faults of LiMIC2, one conformance suite over the module, the fuzzer, an
/// endpoint over Soft-RoCE, and a part of the suite over libfabric's verbs.
const SHORT: [&str; 22] = [
    "machine::",
    "interface::",
    "access::",
    "primitives::",
    "messages::",
    "slots::",
    "latched::",
    "lifetime::",
    "ended::",
    "sessions::a_process",
    "sessions::all_sessions",
    "sessions::every_session",
    "limic2_faults::",
    "kernel_conformance::",
    "fuzz::honest_processes",
    "verbs_endpoint::",
    "libfabric_rxe::the_launcher",
    "libfabric_rxe::who_asks",
    "libfabric_rxe::rxe::every",
    "libfabric_rxe::rxe::what_was_sent",
    "libfabric_siw::siw::every",
    "libfabric_siw::siw::what_was_sent",
];

/// Variables for a short run.
pub(crate) const SHORT_SETTINGS: [(&str, &str); 1] = [("LIMIC_FUZZ_CALLS", "6000")];

/// The program that runs the kernel's own faulty code, on the image with KASAN alone. The module
/// with the code lies in the kernel's build folder, and the variable tells the program where.
const FAULTY: &str = "kasan";
const FAULTY_CODE: &str = "mm/kasan/kasan_test.ko";
const FAULTY_PATH: &str = "LIMIC_LAB_KASAN_TEST";

/// The beginning of the names of programs that load libfabric, and the variable that tells them
/// where it is.
const OVER_LIBFABRIC: &str = "libfabric_";
const LIBFABRIC_PATH: &str = "LIMIC_LAB_LIBFABRIC";

/// Programs whose processes have to meet inside the module at the same instant. All others are
/// quicker with one processor: emulated processors slow each other down, and a waiting process
/// yields a single one at once.
const TWO_PROCESSORS: [&str; 10] = [
    "ended",
    "fuzz",
    "in_flight",
    "kept",
    "killed",
    "latched",
    "limic2_faults",
    "primitives",
    "sessions",
    "slots",
];

impl Program {
    /// Processors of each of its guests.
    pub(crate) fn processors(&self) -> u8 {
        if TWO_PROCESSORS.contains(&self.name.as_str()) {
            2
        } else {
            1
        }
    }

    /// Puts the kernel's faulty code in, for the program that runs it.
    pub(crate) fn add_faulty_code(&self, kernel: &Kernel, contents: &mut Contents) {
        if self.name == FAULTY {
            contents.add(FAULTY_PATH, kernel.folder.join(FAULTY_CODE));
        }
    }

    /// Puts libfabric in, for programs that load it. They say so where it is missing.
    pub(crate) fn add_libfabric(&self, contents: &mut Contents) {
        if self.name.starts_with(OVER_LIBFABRIC)
            && let Some(path) = needs::libfabric()
        {
            contents.add(LIBFABRIC_PATH, path);
            // The completions that libfabric asks for by itself are more than Soft-RoCE has.
            let universe = ("FI_UNIVERSE_SIZE".to_owned(), "16".to_owned());
            contents.environment.push(universe);
        }
    }

    /// How many guests it runs in: a program for two guests says so in its name.
    pub(crate) fn guests(&self) -> usize {
        if self.name.ends_with("two_guests") {
            2
        } else {
            1
        }
    }
}

/// The program of MPICH that a test of two guests runs, and the libfabric provider for it.
fn mpich_program() -> [PathBuf; 2] {
    [
        target().join("lab/check-mpich"),
        target().join("debug/liblimic_fi.so"),
    ]
}

/// Builds them, where MPICH is installed.
fn mpich() -> Result<(), Failure> {
    let Some(mpich) = Mpi::installed(Kind::Mpich) else {
        return Ok(());
    };
    Job::cargo(&["build", "-p", "limic-ofi"], 20).run()?;
    let [program, _] = mpich_program();
    folders::make(&target().join("lab"))?;
    mpich.compile(&root().join("benches/mpi/check.c"), &program)
}

/// Adds what tests of two guests start, as far as `cargo xtask peers` has installed it: launchers,
/// and a program of an MPI.
pub(crate) fn add_launchers(contents: &mut Contents) {
    for (variable, path) in test_variables() {
        // The launcher starts it on each machine, from its own folder.
        let daemon = match variable {
            "LIMIC_TEST_HYDRA" => Some("hydra_pmi_proxy"),
            "LIMIC_TEST_PRTERUN" => Some("prted"),
            _ => None,
        };
        let daemon = daemon.map(|name| path.with_file_name(name));
        contents.programs.extend(daemon);
        contents.add(variable, path);
    }
    let names = ["LIMIC_TEST_MPICH", "LIMIC_TEST_PROVIDER"];
    for (variable, path) in names.into_iter().zip(mpich_program()) {
        if path.exists() {
            contents.add(variable, path);
        }
    }
}

/// One line that cargo prints with `--message-format=json`.
#[derive(Debug, Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds the test programs, and what tests start: the command, with the examples beside it.
/// Returns the programs with the tests that are wanted, and can run on this image.
pub(crate) fn build(selection: Selection<'_>, flavour: Flavour) -> Result<Vec<Program>, Failure> {
    Job::cargo(&["build", "-p", "limic-cli", "--bins"], 20).run()?;
    Job::cargo(&["build", "-p", "limic", "--features", "ibverbs"], 20)
        .arg("--examples")
        .run()?;
    let printed = Job::cargo(&["test", "-p", PACKAGES[0], "-p", PACKAGES[1]], 20)
        .args(["--tests", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .capture()?;
    let mut programs = Vec::new();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).map_err(|why| Failure::Unreadable {
            command: "cargo test --no-run".to_owned(),
            why: why.to_string(),
        })?;
        let (Some(path), Some(target)) = (message.executable, message.target) else {
            continue;
        };
        if !target.kind.iter().any(|kind| kind == "test") {
            continue;
        }
        // Test programs run on the host as well, which asks them what they hold.
        let listed = Job::new(&path, 1)
            .args(["--list", "--format", "terse"])
            .capture_quietly()
            .ok_or_else(|| Failure::Unreadable {
                command: format!("{} --list", path.display()),
                why: "it failed".to_owned(),
            })?;
        let tests: Vec<String> = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .filter(|test| selection.holds(&format!("{}::{test}", target.name)))
            .map(str::to_owned)
            .collect();
        let can_run = target.name != FAULTY || flavour == Flavour::Kasan;
        if can_run && !tests.is_empty() {
            programs.push(Program {
                name: target.name,
                path,
                tests,
            });
        }
    }
    if programs.iter().any(|program| program.name == STAND_IN) {
        let folder = root().join("crates/limic2");
        c_program(
            "limic2",
            &folder.join("include/limic2"),
            &folder.join("tests/c/mpi.c"),
            ("liblimic2_c.a", &[]),
            STAND_IN_PROGRAM,
        )?;
    }
    if programs.iter().any(|program| program.name == C_INTERFACE) {
        let folder = root().join("crates/capi");
        for name in C_PROGRAMS {
            let source = name.trim_start_matches("limic-c-");
            let source = folder.join("tests/c").join(source).with_extension("c");
            let include = folder.join("include");
            let library = ("liblimic_c.a", &[][..]);
            c_program("limic-capi", &include, &source, library, name)?;
        }
    }
    let mut tests = programs.iter().flat_map(|program| &program.tests);
    if tests.any(|test| test.starts_with(MPICH_TESTS)) {
        mpich()?;
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Programs that tests start, as far as they were built. Their libraries go into the guest too.
pub(crate) fn started() -> impl Iterator<Item = PathBuf> {
    let names = ["limic", STAND_IN_PROGRAM].into_iter().chain(C_PROGRAMS);
    let paths = names.map(|name| target().join("debug").join(name));
    paths.filter(|path| path.exists())
}

/// Builds a C program with the static library of a package and the libraries that this needs. The
/// program lies beside the command, where the guest's tests look for it.
fn c_program(
    package: &str,
    include: &Path,
    source: &Path,
    (library, needs): (&str, &[&str]),
    name: &str,
) -> Result<(), Failure> {
    Job::cargo(&["build", "-p", package], 20).run()?;
    Job::new("cc", 5)
        .args(["-std=gnu11", "-O1", "-I"])
        .arg(include)
        .arg(source)
        .arg(target().join("debug").join(library))
        .args(needs)
        .args([
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-o",
        ])
        .arg(target().join("debug").join(name))
        .run()
}
