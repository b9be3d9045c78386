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
    one("valgrind", "valgrind");
}

/// abidiff, for the test of the C library's binary interface.
pub(crate) fn abidiff() {
    one("abidiff", "abigail-tools");
}

/// A program of a package.
fn one(program: &str, package: &str) {
    if !runs(program)
        && let Err(why) = install_packages(&[package], package)
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

/// A command of the nightly toolchain.
fn nightly(words: &[&str]) -> Job {
    Job::new("rustup", 1).args(["run", "nightly"]).args(words)
}

/// Whether the nightly toolchain has the sources of the standard library.
fn has_source() -> bool {
    let sysroot = nightly(&["rustc", "--print", "sysroot"]).capture_quietly();
    let source = "lib/rustlib/src/rust/library/std";
    sysroot.is_some_and(|sysroot| Path::new(sysroot.trim()).join(source).is_dir())
}

/// The nightly toolchain with these components. `Err` says why there is none.
fn nightly_with(components: &[&str], present: impl Fn() -> bool) -> Result<(), String> {
    if present() {
        return Ok(());
    }
    let components = components.iter().flat_map(|component| ["-c", component]);
    let components: Vec<&str> = components.collect();
    let install = Job::new("rustup", 10)
        .args(["toolchain", "install", "nightly", "--profile", "minimal"])
        .args(&components);
    let remedy = format!("rustup toolchain install nightly {}", components.join(" "));
    match install.run() {
        Err(why) => Err(format!("it is not installed ({why}); install it: {remedy}")),
        Ok(()) if present() => Ok(()),
        Ok(()) => Err(format!("this nightly does not have it; try: {remedy}")),
    }
}

/// The nightly toolchain with Miri. `Err` says why there is none.
pub(crate) fn miri() -> Result<(), String> {
    nightly_with(&["miri", "rust-src"], || {
        nightly(&["cargo", "miri", "--version"]).succeeds() && has_source()
    })
}

/// The nightly toolchain with the sources of the standard library. `Err` says why there is none.
pub(crate) fn nightly_source() -> Result<(), String> {
    nightly_with(&["rust-src"], has_source)
}

/// The target of the emulation.
pub(crate) const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// Where its system's libraries are.
pub(crate) const AARCH64_ROOT: &str = "/usr/aarch64-linux-gnu";

/// What builds and emulates programs for aarch64. `Err` says what is missing.
pub(crate) fn aarch64() -> Result<(), String> {
    const NEEDS: [Need; 3] = [
        Need {
            package: "qemu-user",
            present: || runs("qemu-aarch64"),
        },
        Need {
            package: "gcc-aarch64-linux-gnu",
            present: || runs("aarch64-linux-gnu-gcc"),
        },
        Need {
            package: "libc6-dev-arm64-cross",
            present: || Path::new(AARCH64_ROOT).join("lib/libc.so.6").exists(),
        },
    ];
    install("aarch64 in emulation", &NEEDS).map_err(|why| why.to_string())?;
    let target = Job::new("rustup", 5).args(["target", "add", AARCH64]);
    target.run().map_err(|why| why.to_string())
}
