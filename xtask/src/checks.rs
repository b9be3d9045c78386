//! The checks that are one command each.

use crate::failure::Failure;
use crate::job::Job;
use crate::setup;
use crate::tally::Tally;

/// rustfmt, without changing a file. The kernel module is no package of cargo's.
pub(crate) fn fmt() -> Result<(), Failure> {
    setup::run()?;
    Job::cargo(&["fmt", "--all", "--check"], 2).run()?;
    Job::new("rustfmt", 1)
        .args(&["--check", "kernel/limic_rs/limic_main.rs"])
        .run()
}

/// clippy over everything that is compiled anywhere.
pub(crate) fn clippy() -> Result<(), Failure> {
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

/// The documentation of all libraries. The command's own binary has the library's name, and cargo
/// would write both to one place; its users read `--help`.
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

/// Matching, and the rings on heap memory, under Miri.
pub(crate) fn miri(tally: &mut Tally) -> Result<(), Failure> {
    if let Err(why) = setup::miri() {
        tally.skip_check(&format!("Miri: {why}"));
        return Ok(());
    }
    // The property tests read the clock and look for their regression files.
    let flags = "-Zmiri-disable-isolation";
    let run = |words: &[&str], flags: &str, tally: &mut Tally| {
        Job::new("rustup", 15)
            .args(&["run", "nightly", "cargo", "miri", "test"])
            .args(words)
            .args(&["--", "--show-output"])
            .env("MIRIFLAGS", flags)
            // A crash of the compiler is printed; its report need not lie in the checkout.
            .env("RUSTC_ICE", "0")
            .run_tests(tally)
    };
    run(&["-p", "limic-matching"], flags, tally)?;
    run(&["-p", "limic-shm", "--lib", "ring::"], flags, tally)
}

/// Every interleaving of the rings, the release flags and the wake-up, as far as loom bounds them.
pub(crate) fn loom(tally: &mut Tally) -> Result<(), Failure> {
    Job::cargo(
        &[
            "test",
            "-p",
            "limic-shm",
            "--release",
            "--lib",
            "--",
            "--show-output",
        ],
        20,
    )
    .env("RUSTFLAGS", "--cfg loom")
    // Most bugs show with two; without a bound the longest model takes hours.
    .env("LOOM_MAX_PREEMPTIONS", "2")
    // Other flags, so other files: what is built for everything else stays valid.
    .env("CARGO_TARGET_DIR", "target/loom")
    .run_tests(tally)
}

/// The criterion benches, each with a short look: that they run, and roughly what they say.
pub(crate) fn bench() -> Result<(), Failure> {
    Job::cargo(
        &[
            "bench",
            "-p",
            "limic-benches",
            "--bench",
            "*",
            "--",
            "--quick",
        ],
        20,
    )
    .run()
}
