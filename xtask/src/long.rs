//! Checks that take long, or find little in most changes: `cargo xtask ci --long`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use limic_runner::folders::{self, root};
use limic_runner::{Failure, Job, Summary};

use crate::install::library::{LIMIC, NEEDED};
use crate::optional;

/// Other flags and other targets make other files, so that the usual builds stay valid.
const SANITIZER: &str = "target/sanitizer";

/// Its first report ends a program, with a bad status. Memory that nobody has is refused, as the
/// usual allocator does.
const OPTIONS: &str = "halt_on_error=1:allocator_may_return_null=1";

/// What an honest pair keeps of its rate beside each kind of attack, optimised: at least half where
/// there are three processors or more.
pub(crate) fn rates(summary: &mut Summary) -> Result<(), Failure> {
    let words = ["test", "--release", "-p", "limic-tests"];
    Job::cargo(&words, 15)
        .args(["--test", "rate_under_attack", "--", "--show-output"])
        .run_tests(summary)
}

/// Threads of one process under ThreadSanitizer, which sees the whole program: the standard library
/// is built anew.
pub(crate) fn sanitizer(summary: &mut Summary) -> Result<(), Failure> {
    if let Err(why) = optional::nightly_source() {
        summary.skip_check(&format!("ThreadSanitizer: {why}"));
        return Ok(());
    }
    let test = |words: &[&str], summary: &mut Summary| {
        sanitized("test")
            .args(words)
            .env("TSAN_OPTIONS", OPTIONS)
            .run_tests(summary)
    };
    let shared = ["ring::", "bytes::", "idle::"];
    test(
        &[&["-p", "limic-shm", "--lib", "--"], &shared[..]].concat(),
        summary,
    )?;
    let above = ["-p", "limic-counters", "-p", "limic-records"];
    test(
        &[&above[..], &["-p", "limic-pools", "-p", "limic", "--lib"]].concat(),
        summary,
    )?;
    test(
        &["-p", "limic-tests", "--test", "conformance", "threads"],
        summary,
    )?;
    sanitized_c(summary)
}

/// A command of cargo's, for programs with ThreadSanitizer in them.
fn sanitized(command: &str) -> Job {
    Job::new("rustup", 20)
        .args(["run", "nightly", "cargo", command, "-Zbuild-std"])
        .args(["--target", &host()])
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", SANITIZER)
}

fn host() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

/// The C programs that start threads, over the library for C.
///
/// The runtime is rustc's, for both: gcc's has not all that the code of rustc calls.
fn sanitized_c(summary: &mut Summary) -> Result<(), Failure> {
    const PROGRAMS: &str = "crates/capi/tests/c";
    sanitized("build")
        .args(["-p", LIMIC.package, "--lib"])
        .run()?;
    let target = root().join(SANITIZER);
    let library = target.join(host()).join("debug").join(LIMIC.built);
    let runtimes = Job::new("rustup", 1)
        .args(["run", "nightly", "rustc", "--print", "target-libdir"])
        .capture()?;
    let runtime = Path::new(runtimes.trim()).join("librustc-nightly_rt.tsan.a");
    let folder = target.join("c");
    folders::make(&folder)?;
    for name in with_threads(&root().join(PROGRAMS))? {
        let object = folder.join(&name).with_extension("o");
        Job::new("cc", 1)
            .args(["-std=c11", "-D_GNU_SOURCE", "-pthread", "-g", "-c"])
            // Copies that gcc writes out itself are not seen; calls of libc are.
            .args(["-fsanitize=thread", "-fno-builtin", "-Icrates/capi/include"])
            .arg(Path::new(PROGRAMS).join(&name))
            .arg("-o")
            .arg(&object)
            .run()?;
        let program = object.with_extension("");
        Job::new("cc", 2)
            .arg(&object)
            .arg(&library)
            .arg("-Wl,--whole-archive")
            .arg(&runtime)
            .arg("-Wl,--no-whole-archive")
            .args(NEEDED)
            .arg("-o")
            .arg(&program)
            .run()?;
        Job::new(&program, 2).env("TSAN_OPTIONS", OPTIONS).run()?;
        summary.pass();
    }
    Ok(())
}

/// The sources in a folder that start threads. Each runs as a world of one.
fn with_threads(folder: &Path) -> Result<Vec<OsString>, Failure> {
    let failed = |why| Failure::file("read", folder, why);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let text = fs::read_to_string(entry.path()).map_err(failed)?;
        if text.contains("pthread_create") {
            names.push(entry.file_name());
        }
    }
    Ok(names)
}

/// Unit and conformance tests on aarch64, whose memory is ordered less than that of x86-64, and
/// whose pages are often larger. An emulator shows what does not work at all, and little of what
/// the order of memory does.
pub(crate) fn aarch64(summary: &mut Summary) -> Result<(), Failure> {
    if env::consts::ARCH == "aarch64" {
        summary.skip_check("aarch64 in emulation: this is one, and its tests ran");
        return Ok(());
    }
    if let Err(why) = optional::aarch64() {
        summary.skip_check(&format!("aarch64 in emulation: {why}"));
        return Ok(());
    }
    let packages = [
        "limic-copy",
        "limic-shm",
        "limic-matching",
        "limic-heap",
        "limic-tcp",
        "limic-bootstrap",
        "limic-policy",
        "limic-pools",
        "limic-records",
        "limic-topology",
        "limic-counters",
        "limic-settings",
        "limic",
    ];
    let not_emulated = [
        // Single copy between processes.
        "engine::tests::third",
        "engine::tests::blamed",
        "engine::tests::left_buffers",
        // That descriptors found no room in a control message: the emulator has more of it.
        "nobody_waits_for_what_lies_in_the_queue",
        // Threads of a forked child.
        "a_child_with_its_parents_pid_does_not_wait_for_itself",
    ];
    for page in ["4096", "65536"] {
        emulated(page)
            .args(packages.iter().flat_map(|package| ["-p", package]))
            .args(["--lib", "--", "--show-output"])
            .args(not_emulated.iter().flat_map(|tests| ["--skip", tests]))
            .run_tests(summary)?;
        // Ranks that are threads need no single copy, and all of the suite runs with them.
        emulated(page)
            .args(["-p", "limic-tests", "--test", "conformance", "_threads::"])
            .run_tests(summary)?;
    }
    Ok(())
}

/// Tests of cargo's, with pages of this size.
fn emulated(page: &str) -> Job {
    Job::cargo(&["test", "--target", optional::AARCH64], 30)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("qemu-aarch64 -L {} -p {page}", optional::AARCH64_ROOT),
        )
        // A backtrace maps the program's file to its end, which is amidst an emulated page: the
        // emulator crashes.
        .env("RUST_BACKTRACE", "0")
}
