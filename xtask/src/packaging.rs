//! limic as others get it: the library crates built by the oldest Rust that they promise, and as
//! packages; Debian packages.

use std::fs;
use std::time::SystemTime;

use limic_runner::{Failure, Job, Summary, folders};

use crate::{deb, optional};

/// Crates that others depend on.
const LIBRARIES: [&str; 18] = [
    "limic-matching",
    "limic-shm",
    "limic-copy",
    "limic-fabric",
    "limic-heap",
    "limic-tcp",
    "limic-ofi-abi",
    "limic-libfabric",
    "limic-ffi",
    "limic-ibverbs",
    "limic-bootstrap",
    "limic-policy",
    "limic-pools",
    "limic-topology",
    "limic-counters",
    "limic-settings",
    "limic-records",
    "limic",
];

/// The `rust-version` of the library crates: that of Debian's stable release.
const OLDEST: &str = "1.85.0";

/// Builds the library crates with the oldest Rust. Their tests need a newer one.
pub(crate) fn oldest_rust(summary: &mut Summary) -> Result<(), Failure> {
    if let Err(why) = optional::toolchain(OLDEST) {
        summary.skip_check(&format!("Rust {OLDEST}: {why}"));
        return Ok(());
    }
    let mut words = vec!["run", OLDEST, "cargo", "check", "--all-features"];
    for package in &LIBRARIES {
        words.extend(["-p", package]);
    }
    Job::new("rustup", 10)
        .args(&words)
        // What the usual compiler has built stays valid.
        .env("CARGO_TARGET_DIR", "target/oldest-rust")
        .run()?;
    summary.pass();
    Ok(())
}

/// Packs the library crates as they would be published, and builds what is in the packages. Makes
/// the Debian packages.
pub(crate) fn package(summary: &mut Summary) -> Result<(), Failure> {
    let mut words = vec!["package", "--quiet", "--allow-dirty"];
    for package in &LIBRARIES {
        words.extend(["-p", package]);
    }
    // cargo keeps the sources of packages by the folder that they come from and their version, and
    // would build those of an earlier run.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let name = format!("target/packages-{}", now.map_or(0, |now| now.as_nanos()));
    let packed = Job::cargo(&words, 10).env("CARGO_TARGET_DIR", &name).run();
    // What stays is in the way of nobody.
    let _ = fs::remove_dir_all(folders::root().join(name));
    packed?;
    summary.pass();
    if let Err(why) = deb::tools() {
        summary.skip_check(&format!("Debian packages: {why}"));
        return Ok(());
    }
    // debhelper refuses a file that is in no package, and a package that lacks one.
    deb::run(true)?;
    summary.pass();
    Ok(())
}
