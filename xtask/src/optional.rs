//! Packages and toolchains that single checks need. They are installed where that is possible;
//! without them the check is skipped.

use std::path::Path;

use limic_runner::packages::{Need, has_library, install, install_packages, program, runs};
use limic_runner::{Failure, Job, console};

/// What the feature `hwloc` needs, which only checks switch on.
const HWLOC: [Need; 2] = [
    Need {
        package: "libhwloc-dev",
        present: || has_library("hwloc >= 2.1"),
    },
    // libhwloc.a, which pkg-config describes beside the shared library, needs it.
    Need {
        package: "libudev-dev",
        present: || has_library("libudev"),
    },
];

/// hwloc with its headers, for the checks of the feature `hwloc`.
pub(crate) fn hwloc() -> Result<(), Failure> {
    install("the feature hwloc", &HWLOC)
}

/// libfabric with its headers and tools, for the tests of the provider.
pub(crate) fn libfabric() {
    let tools = program("fi_info").is_some() && program("fi_pingpong").is_some();
    if tools && has_library("libfabric") {
        return;
    }
    let packages = ["libfabric-bin", "libfabric-dev"];
    if let Err(why) = install_packages(&packages, "libfabric and libfabric-devel") {
        console::detail(&why);
    }
}

/// valgrind, for the check `counts`.
pub(crate) fn valgrind() {
    if !runs("valgrind")
        && let Err(why) = install_packages(&["valgrind"], "valgrind")
    {
        console::detail(&why);
    }
}

/// A toolchain of rustup's. `Err` says why there is none.
pub(crate) fn toolchain(version: &str) -> Result<(), String> {
    let present = Job::new("rustup", 1).args(["run", version, "cargo", "--version"]);
    if present.succeeds() {
        return Ok(());
    }
    let install = Job::new("rustup", 10).args(["toolchain", "install", version]);
    let installed = install.args(["--profile", "minimal"]).run();
    installed.map_err(|why| format!("it is not installed ({why})"))
}

/// The nightly toolchain with Miri. `Err` says why there is none.
pub(crate) fn miri() -> Result<(), String> {
    let nightly = |words: &[&str]| Job::new("rustup", 1).args(["run", "nightly"]).args(words);
    let has_source = || {
        let sysroot = nightly(&["rustc", "--print", "sysroot"]).capture_quietly();
        let source = "lib/rustlib/src/rust/library/std";
        sysroot.is_some_and(|sysroot| Path::new(sysroot.trim()).join(source).is_dir())
    };
    let present = || nightly(&["cargo", "miri", "--version"]).succeeds() && has_source();
    if present() {
        return Ok(());
    }
    let components = ["-c", "miri", "-c", "rust-src"];
    let install = Job::new("rustup", 10)
        .args(["toolchain", "install", "nightly", "--profile", "minimal"])
        .args(components);
    let remedy = "rustup toolchain install nightly -c miri -c rust-src";
    match install.run() {
        Err(why) => Err(format!(
            "Miri is not installed ({why}); install it: {remedy}"
        )),
        Ok(()) if present() => Ok(()),
        Ok(()) => Err(format!("this nightly has no Miri; try: {remedy}")),
    }
}
