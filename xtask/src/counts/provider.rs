//! Calls of libfabric over the provider, by a program in C as MPIs are.

use limic_peers::build_provider;
use limic_runner::folders::{root, target};
use limic_runner::packages::has_library;
use limic_runner::{Failure, Job};

use super::Counted;
use crate::committed::Figures;

/// The beginning of the names of its cases, and of no others.
pub(super) const CASES: &str = "fi_";

/// The reason why the calls cannot be counted here, if there is one.
pub(super) fn missing() -> Option<&'static str> {
    if !has_library("libfabric") {
        return Some(
            "there are no headers of libfabric; install them: apt-get install libfabric-dev",
        );
    }
    let header = Job::new("cc", 1).args(["-E", "-include", "valgrind/callgrind.h", "-x", "c"]);
    (!header.arg("/dev/null").succeeds())
        .then_some("the C compiler does not find valgrind/callgrind.h, which comes with valgrind")
}

/// Counts the calls.
pub(super) fn measure() -> Result<Figures, Failure> {
    let folder = build_provider()?;
    let program = target().join("mpi/counts");
    Job::new("cc", 2)
        .args(["-std=gnu11", "-O2", "-Wall", "-o"])
        .arg(&program)
        .arg(root().join("benches/ofi/counts.c"))
        .arg("-lfabric")
        .run()?;
    let folder = folder.display().to_string();
    let counted = Counted::run(
        &program,
        &[
            ("FI_PROVIDER_PATH", &folder),
            // Room for messages that are sent before they are received.
            ("LIMIC_RING_BYTES", "262144"),
        ],
    )?;
    Ok(counted.cases)
}
