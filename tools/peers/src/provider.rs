//! limic's libraries for programs as they are: its libfabric provider, and its heap.

use std::fs;
use std::path::PathBuf;

use limic_runner::folders::{self, target};
use limic_runner::{Failure, Job};

/// Builds the provider and returns the folder for `FI_PROVIDER_PATH`. Nothing else lies in that
/// folder, because libfabric loads all that it finds there.
///
/// # Errors
/// If it cannot be built.
pub fn build_provider() -> Result<PathBuf, Failure> {
    Job::cargo(&["build", "--release", "-p", "limic-ofi"], 15).run()?;
    let folder = target().join("mpi/provider");
    folders::make(&folder)?;
    let provider = folder.join("liblimic-fi.so");
    // Programs that run with the old file keep it, because the new one takes its place by a rename.
    let fresh = provider.with_extension("so.new");
    fs::copy(target().join("release/liblimic_fi.so"), &fresh)
        .and_then(|_| fs::rename(&fresh, &provider))
        .map_err(|why| Failure::file("write", &provider, why))?;
    Ok(folder)
}

/// Builds `liblimic-heap.so`, to be preloaded, and returns the file.
///
/// # Errors
/// If it cannot be built.
pub fn build_heap() -> Result<PathBuf, Failure> {
    Job::cargo(&["build", "--release", "-p", "limic-heap-preload"], 15).run()?;
    Ok(target().join("release/liblimic_heap_preload.so"))
}
