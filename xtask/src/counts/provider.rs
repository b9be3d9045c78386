//! Calls of libfabric over the provider: a C program, since it is C that calls it.

use super::{Counted, Counts};
use crate::failure::Failure;
use crate::job::{Job, root, target};
use crate::mpi::build_provider;
use crate::setup::has_library;

/// Cases of that program begin with this, and no others do.
pub(super) const CASES: &str = "fi_";

/// Why the calls cannot be counted here.
pub(super) fn missing() -> Option<&'static str> {
    if !has_library("libfabric") {
        return Some(
            "there are no headers of libfabric; install them: apt-get install libfabric-dev",
        );
    }
    let header = Job::new("cc", 1).args(&["-E", "-include", "valgrind/callgrind.h", "-x", "c"]);
    (!header.args(&["/dev/null"]).succeeds())
        .then_some("the C compiler does not find valgrind/callgrind.h, which comes with valgrind")
}

/// Counts them.
pub(super) fn measure() -> Result<Counts, Failure> {
    let folder = build_provider()?;
    let program = target().join("mpi/counts");
    Job::new("cc", 2)
        .args(&["-std=gnu11", "-O2", "-Wall", "-o"])
        .arg(&program)
        .arg(&root().join("benches/ofi/counts.c"))
        .args(&["-lfabric"])
        .run()?;
    let folder = folder.display().to_string();
    let counted = Counted::run(
        &program,
        &[
            ("FI_PROVIDER_PATH", &folder),
            // Room for what is sent before it is received.
            ("LIMIC_RING_BYTES", "262144"),
        ],
    )?;
    Ok(counted.cases)
}
