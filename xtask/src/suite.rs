//! The test suite.

use std::os::unix::fs::symlink;

use limic_runner::{Failure, Job, Summary, console, folders, packages, setup};

use crate::examples;
use crate::optional;

/// Features of the library, each of which has to compile alone.
const FEATURES: [&str; 2] = ["ibverbs", "pmix"];

/// `cargo xtask test`.
pub(crate) fn run(summary: &mut Summary) -> Result<(), Failure> {
    setup::run()?;
    console::step(&"tests");
    tests(summary)?;
    console::step(&"doctests");
    doctests(summary)?;
    console::step(&"examples");
    examples::run(summary)?;
    console::step(&"features");
    features(summary)
}

/// Builds the command and the examples, which tests start.
pub(crate) fn build() -> Result<(), Failure> {
    Job::cargo(&["build", "--workspace", "--bins", "--examples"], 20).run()
}

/// Unit and integration tests.
pub(crate) fn tests(summary: &mut Summary) -> Result<(), Failure> {
    optional::libfabric();
    optional::abidiff();
    build()?;
    let mut job = Job::cargo(
        &[
            "test",
            "--workspace",
            // Its tests run in a virtual machine: `cargo xtask lab test`.
            "--exclude",
            "limic-lab-tests",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
            "--",
            "--show-output",
        ],
        25,
    );
    for (name, file) in limic_peers::test_variables() {
        job = job.env(name, file);
    }
    job.run_tests(summary)
}

/// The programs in the documentation.
pub(crate) fn doctests(summary: &mut Summary) -> Result<(), Failure> {
    Job::cargo(&["test", "--workspace", "--doc", "--no-fail-fast"], 15).run_tests(summary)
}

/// What needs nothing but cargo and a linker: what `cargo build` builds, and the command without
/// its features. The library with no feature and with each one alone, and the topology's unit tests
/// with `hwloc`.
pub(crate) fn features(summary: &mut Summary) -> Result<(), Failure> {
    let check = |package: &str, more: &[&str]| {
        Job::cargo(&["check", "-p", package, "--no-default-features"], 10)
            .args(more)
            .run()
    };
    bare(&["build"])?.run()?;
    bare(&["check", "-p", "limic-cli", "--no-default-features"])?.run()?;
    check("limic", &[])?;
    for feature in FEATURES {
        check("limic", &["--features", feature])?;
    }
    if let Err(why) = optional::hwloc() {
        summary.skip_check(&format!("the feature hwloc: {why}"));
        return Ok(());
    }
    Job::cargo(&["test", "-p", "limic-topology", "--features", "hwloc"], 10)
        .args(["--lib", "--", "--show-output"])
        .run_tests(summary)
}

/// cargo with a linker, and no other program on its path. What was built with others is not at hand
/// either, since it would be taken as it is.
fn bare(words: &[&str]) -> Result<Job, Failure> {
    let built = folders::target().join("bare");
    let path = built.join("path");
    folders::make_anew(&path)?;
    for name in ["rustc", "cc", "ld"] {
        let program = packages::program(name)
            .ok_or_else(|| Failure::Missing(format!("{name} is nowhere on the path")))?;
        symlink(program, path.join(name)).map_err(|why| Failure::file("link", &path, why))?;
    }
    let cargo = Job::cargo(words, 10).env("PATH", path);
    Ok(cargo.env("CARGO_TARGET_DIR", built))
}
