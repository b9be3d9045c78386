//! The test suite.

use crate::console;
use crate::failure::Failure;
use crate::job::Job;
use crate::peers;
use crate::programs;
use crate::setup;
use crate::tally::Tally;

/// Features of the library, each of which has to do alone.
const FEATURES: [&str; 5] = ["cma", "ibverbs", "kmod", "topology", "pmix"];

/// Everything that `cargo xtask test` runs.
pub(crate) fn run(tally: &mut Tally) -> Result<(), Failure> {
    setup::run()?;
    console::step(&"tests");
    tests(tally)?;
    console::step(&"doctests");
    doctests(tally)?;
    console::step(&"examples");
    programs::run(tally)?;
    console::step(&"features");
    features()
}

/// The command and the examples: tests start them.
pub(crate) fn build() -> Result<(), Failure> {
    Job::cargo(&["build", "--workspace", "--bins", "--examples"], 20).run()
}

/// Unit and integration tests.
pub(crate) fn tests(tally: &mut Tally) -> Result<(), Failure> {
    setup::libfabric();
    build()?;
    let mut job = Job::cargo(
        &[
            "test",
            "--workspace",
            // Its tests run in a virtual machine: `cargo xtask lab test`.
            "--exclude",
            "limic-lab",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
            "--",
            "--show-output",
        ],
        25,
    );
    for (name, file) in peers::test_variables() {
        job = job.env(name, &file.to_string_lossy());
    }
    job.run_tests(tally)
}

/// The programs in the documentation.
pub(crate) fn doctests(tally: &mut Tally) -> Result<(), Failure> {
    Job::cargo(&["test", "--workspace", "--doc", "--no-fail-fast"], 15).run_tests(tally)
}

/// The library with no feature, and with each one alone.
pub(crate) fn features() -> Result<(), Failure> {
    let check = |more: &[&str]| {
        Job::cargo(&["check", "-p", "limic", "--no-default-features"], 10)
            .args(more)
            .run()
    };
    check(&[])?;
    FEATURES
        .iter()
        .try_for_each(|feature| check(&["--features", feature]))
}
