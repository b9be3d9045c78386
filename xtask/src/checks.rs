//! The checks that are one command each.

use limic_runner::{Failure, Job, Summary, setup};

use crate::optional;

/// rustfmt, without changing a file. The kernel module is no package of cargo's.
pub(crate) fn fmt() -> Result<(), Failure> {
    setup::run()?;
    Job::cargo(&["fmt", "--all", "--check"], 2).run()?;
    // A workspace of its own.
    let fuzz = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
    Job::cargo(&fuzz, 1).run()?;
    Job::new("rustfmt", 1)
        .args(["--check", "kernel/limic_rs/limic_main.rs"])
        .run()
}

/// clippy over all packages, targets and features.
pub(crate) fn clippy() -> Result<(), Failure> {
    optional::hwloc()?;
    Job::cargo(
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        20,
    )
    .run()
}

/// The documentation of all libraries. The command has the library's name, so that cargo would
/// write the documentation of both to one place. Users of the command read `--help`.
pub(crate) fn docs() -> Result<(), Failure> {
    Job::cargo(&["doc", "--workspace", "--no-deps", "--lib"], 15)
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

/// Writes the C header that a test compares with the sources.
pub(crate) fn header() -> Result<(), Failure> {
    Job::cargo(&["test", "-p", "limic-capi", "--test", "header"], 10)
        .env("LIMIC_WRITE_HEADER", "1")
        .run()
}

/// Writes the page of the settings, which a test compares with the sources.
pub(crate) fn settings() -> Result<(), Failure> {
    Job::cargo(
        &["test", "-p", "limic-tests", "--test", "settings_page"],
        10,
    )
    .env("LIMIC_TEST_WRITE", "1")
    .run()
}

/// Parts of `limic` that need nothing of the kernel but memory: who owns buffers, requests
/// and regions. The rest needs memfds and sockets, which Miri does not have.
const OWNERS: [&str; 3] = ["owners::", "engine::request::", "engine::regions::"];

/// Matching, records, the rings and pools on heap memory, the words that the kernel module shows,
/// and the owners of buffers, under Miri.
pub(crate) fn miri(summary: &mut Summary) -> Result<(), Failure> {
    if let Err(why) = optional::miri() {
        summary.skip_check(&format!("Miri: {why}"));
        return Ok(());
    }
    let job = |words: &[&str]| {
        Job::new("rustup", 60)
            .args(["run", "nightly", "cargo", "miri", "test"])
            .args(words)
            .arg("--show-output")
            // The property tests read the clock and look for their regression files.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            // A crash of the compiler is printed, and leaves no report in the checkout.
            .env("RUSTC_ICE", "0")
            // Those that do not say themselves how many they want.
            .env("PROPTEST_CASES", "4")
    };
    let owners = [&["-p", "limic", "--lib", "--"], &OWNERS[..]].concat();
    // Miri runs all threads of a program in one.
    let jobs: [&[&str]; 4] = [
        &[
            "-p",
            "limic-shm",
            "-p",
            "limic-copy",
            "--lib",
            "--",
            "ring::",
            "bytes::",
            "kmod::status::",
        ],
        &[
            "-p",
            "limic-matching",
            "-p",
            "limic-ffi",
            "-p",
            "limic-records",
            "--",
        ],
        &owners,
        &[
            "-p",
            "limic-pools",
            "--lib",
            "--",
            "slots::",
            "thread_rc::",
            "staging::",
        ],
    ];
    Job::run_tests_at_once(jobs.map(job), summary)
}

/// Every interleaving of the rings, the release flags and the wake-up, as far as loom bounds them.
pub(crate) fn loom(summary: &mut Summary) -> Result<(), Failure> {
    Job::cargo(
        &[
            "test",
            "-p",
            "limic-shm",
            "-p",
            "limic-models",
            "--profile",
            "simulator",
            "--lib",
            "--",
            "--show-output",
        ],
        20,
    )
    .env("RUSTFLAGS", "--cfg loom")
    // Most bugs show with two. Without a bound the longest model takes hours.
    .env("LOOM_MAX_PREEMPTIONS", "2")
    // Other flags make other files, so that the usual builds stay valid.
    .env("CARGO_TARGET_DIR", "target/loom")
    .run_tests(summary)
}

/// The criterion benches, each for one turn and without optimisation: they run.
pub(crate) fn bench() -> Result<(), Failure> {
    Job::cargo(&["test", "-p", "limic-benches", "--bench", "*"], 20).run()
}
