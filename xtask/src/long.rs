//! Checks that take long, or find little in most changes: `cargo xtask ci --long`.

use std::env;

use limic_runner::{Failure, Job, Summary};

use crate::optional;

/// Other flags and other targets make other files, so that the usual builds stay valid.
const SANITIZER: &str = "target/sanitizer";

/// Threads of one process under ThreadSanitizer, which sees the whole program: the standard library
/// is built anew.
pub(crate) fn sanitizer(summary: &mut Summary) -> Result<(), Failure> {
    if let Err(why) = optional::nightly_source() {
        summary.skip_check(&format!("ThreadSanitizer: {why}"));
        return Ok(());
    }
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let run = |words: &[&str], summary: &mut Summary| {
        Job::new("rustup", 20)
            .args(["run", "nightly", "cargo", "test", "-Zbuild-std"])
            .args(["--target", &host])
            .args(words)
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .env("CARGO_TARGET_DIR", SANITIZER)
            .env("TSAN_OPTIONS", "halt_on_error=1")
            .run_tests(summary)
    };
    run(&["-p", "limic-shm", "--lib", "ring::"], summary)?;
    run(&["-p", "limic", "--lib"], summary)?;
    run(
        &["-p", "limic-tests", "--test", "conformance", "threads"],
        summary,
    )
}

/// Unit tests on aarch64, whose memory is ordered less than that of x86-64. An emulator shows what
/// does not work at all, and little of what the order of memory does.
pub(crate) fn aarch64(summary: &mut Summary) -> Result<(), Failure> {
    if env::consts::ARCH == "aarch64" {
        summary.skip_check("aarch64 in emulation: this is one, and its tests ran");
        return Ok(());
    }
    if let Err(why) = optional::aarch64() {
        summary.skip_check(&format!("aarch64 in emulation: {why}"));
        return Ok(());
    }
    let packages = ["limic-copy", "limic-shm", "limic-matching", "limic"];
    let packages = packages.iter().flat_map(|package| ["-p", package]);
    // The emulator has no single copy between processes, which these need.
    let single_copy = ["engine::tests::third", "a_copy_out_of_a_buffer"];
    let single_copy = single_copy.iter().flat_map(|tests| ["--skip", tests]);
    Job::cargo(&["test", "--target", optional::AARCH64], 30)
        .args(packages)
        .args(["--lib", "--", "--show-output"])
        .args(single_copy)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("qemu-aarch64 -L {}", optional::AARCH64_ROOT),
        )
        .run_tests(summary)
}
