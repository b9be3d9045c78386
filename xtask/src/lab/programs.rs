//! The test programs of the packages that have guest tests, built on the host, and the tests in each.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Flavour;
use super::archive::text;
use super::image::Contents;
use super::kernel::Kernel;
use crate::failure::Failure;
use crate::job::{Job, root, target};
use crate::peers::{self, Mpi};

const PACKAGES: [&str; 2] = ["limic-lab", "limic-module-tests"];

/// The test that starts a C program over liblimic2, and the name of that program.
const STAND_IN: &str = "limic2";
const STAND_IN_PROGRAM: &str = "limic2-mpi";

/// The test that starts programs over `limic.h`, and their names: of the C interface's own tests.
const C_INTERFACE: &str = "c_interface";
const C_PROGRAMS: [&str; 4] = [
    "limic-c-messages",
    "limic-c-requests",
    "limic-c-probe",
    "limic-c-vectored",
];

/// The test that runs a program of MPICH.
const MPICH_TEST: &str = "mpich_runs_on_both";

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
    /// Those whose name, `program::test`, holds this.
    Named(&'a str),
    /// What CI runs.
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

/// Beginnings of the names of the tests that CI runs: the guest itself, the module's interface, what it does and what LiMIC2 did
/// wrong, one conformance suite over it, the fuzzer, and an endpoint over Soft-RoCE.
const SHORT: [&str; 12] = [
    "machine::",
    "interface::",
    "access::",
    "primitives::",
    "messages::",
    "slots::",
    "latched::",
    "lifetime::",
    "limic2_faults::",
    "kernel_conformance::",
    "fuzz::honest_processes",
    "verbs_endpoint::",
];

/// Variables for a short run.
pub(crate) const SHORT_SETTINGS: [(&str, &str); 1] = [("LIMIC_FUZZ_CALLS", "6000")];

/// The program that runs the kernel's own faulty code, on the image with KASAN alone; the module that has the code, in the
/// kernel's build folder; and the variable that tells the program where that is.
const FAULTY: &str = "kasan";
const FAULTY_CODE: &str = "mm/kasan/kasan_test.ko";
const FAULTY_PATH: &str = "LIMIC_LAB_KASAN_TEST";

/// Programs whose processes have to meet inside the module at the same instant. All others are quicker with one: emulated processors
/// pay for each other, and waiting processes give the only one up at once.
const TWO_PROCESSORS: [&str; 8] = [
    "fuzz",
    "in_flight",
    "kept",
    "killed",
    "latched",
    "limic2_faults",
    "primitives",
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
    pub(crate) fn add_faulty_code(
        &self,
        kernel: &Kernel,
        contents: &mut Contents,
    ) -> Result<(), Failure> {
        if self.name == FAULTY {
            let path = kernel.folder.join(FAULTY_CODE);
            let told = (FAULTY_PATH.to_owned(), text(&path)?.to_owned());
            contents.environment.push(told);
            contents.programs.push(path);
        }
        Ok(())
    }

    /// Programs for two guests say so in their name.
    pub(crate) fn guests(&self) -> usize {
        if self.name.ends_with("two_guests") {
            2
        } else {
            1
        }
    }
}

/// The program of MPICH that a test of two machines runs, and the libfabric provider for it.
fn mpich_program() -> [PathBuf; 2] {
    [
        target().join("lab/check-mpich"),
        target().join("debug/liblimic_fi.so"),
    ]
}

/// Builds them, where MPICH is installed.
fn mpich() -> Result<(), Failure> {
    let Some(mpich) = Mpi::installed(peers::Kind::Mpich) else {
        return Ok(());
    };
    Job::cargo(&["build", "-p", "limic-ofi"], 20).run()?;
    let [program, _] = mpich_program();
    let folder = target().join("lab");
    std::fs::create_dir_all(&folder)
        .map_err(|why| Failure::Missing(format!("{}: {why}", folder.display())))?;
    mpich.compile(&root().join("benches/mpi/check.c"), &program)
}

/// Puts in what tests of two machines start, as far as `cargo xtask peers` has installed it: launchers, and an MPI's program.
pub(crate) fn add_launchers(contents: &mut Contents) {
    for (variable, path) in peers::test_variables() {
        // What it starts, from its own folder, on each machine.
        let daemon = match variable {
            "LIMIC_TEST_HYDRA" => Some("hydra_pmi_proxy"),
            "LIMIC_TEST_PRTERUN" => Some("prted"),
            _ => None,
        };
        let daemon = daemon.map(|name| path.with_file_name(name));
        contents.programs.extend(daemon);
        contents.programs.push(path.clone());
        contents
            .environment
            .push((variable.to_owned(), path.display().to_string()));
    }
    let names = ["LIMIC_TEST_MPICH", "LIMIC_TEST_PROVIDER"];
    for (variable, path) in names.into_iter().zip(mpich_program()) {
        if path.exists() {
            contents
                .environment
                .push((variable.to_owned(), path.display().to_string()));
            contents.programs.push(path);
        }
    }
}

/// One line of what cargo prints with `--message-format=json`.
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

/// Builds the test programs, and what tests start: the command, with the examples beside it. Lists the tests that are wanted, and can run
/// on this image.
pub(crate) fn build(selection: Selection<'_>, flavour: Flavour) -> Result<Vec<Program>, Failure> {
    Job::cargo(&["build", "-p", "limic-cli", "--bins"], 20).run()?;
    Job::cargo(&["build", "-p", "limic", "--features", "ibverbs"], 20)
        .args(&["--examples"])
        .run()?;
    let printed = Job::cargo(&["test", "-p", PACKAGES[0], "-p", PACKAGES[1]], 20)
        .args(&["--tests", "--no-run"])
        .args(&["--message-format", "json-render-diagnostics"])
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
        // Test programs run here as well, which is where they are asked what they hold.
        let listed = Job::new(&path, 1)
            .args(&["--list", "--format", "terse"])
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
        text(&path)?;
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
            let library = ("liblimic_c.a", &["-lhwloc"][..]);
            c_program("limic-capi", &include, &source, library, name)?;
        }
    }
    if programs
        .iter()
        .any(|program| program.tests.iter().any(|test| test == MPICH_TEST))
    {
        mpich()?;
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// What tests start beside themselves, as far as it was built: their libraries go into the guest too.
pub(crate) fn started() -> impl Iterator<Item = PathBuf> {
    let names = ["limic", STAND_IN_PROGRAM].into_iter().chain(C_PROGRAMS);
    let paths = names.map(|name| target().join("debug").join(name));
    paths.filter(|path| path.exists())
}

/// Builds a C program with the static library of a package and what that needs, where the guest's tests look for it: beside
/// the command.
fn c_program(
    package: &str,
    include: &Path,
    source: &Path,
    (library, needs): (&str, &[&str]),
    name: &str,
) -> Result<(), Failure> {
    Job::cargo(&["build", "-p", package], 20).run()?;
    Job::new("cc", 5)
        .args(&["-std=gnu11", "-O1", "-I"])
        .arg(include)
        .arg(source)
        .arg(&target().join("debug").join(library))
        .args(needs)
        .args(&[
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-o",
        ])
        .arg(&target().join("debug").join(name))
        .run()
}
