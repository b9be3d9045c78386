//! Tests that need a kernel of their own: one that loads modules, has Soft-RoCE, and may break.
//!
//! They lie in `lab/tests` and are ordinary integration tests. `cargo xtask lab test` builds them
//! on the host and runs them in a virtual machine, as root, each in a process of its own. Elsewhere
//! they skip themselves, by [`in_guest`]. Programs whose name ends with `two_guests` run in two
//! machines at a time, with a network between them.
//!
//! A line of a test is shown even if the test passes, from `REPORT: ` on.

/// A program that was built beside the tests: the command, or `examples/NAME`.
///
/// # Panics
/// If the test's own path is not known.
#[must_use]
pub fn program(name: &str) -> std::path::PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    // target/debug/deps/test
    let folder = test.ancestors().nth(2).expect("a folder of programs");
    folder.join(name)
}

/// Runs a command of the guest.
///
/// # Panics
/// If it fails.
pub fn run(command: &str) {
    let mut words = command.split(' ');
    let program = words.next().expect("a program");
    let status = std::process::Command::new(program).args(words).status();
    assert!(status.expect("it starts").success(), "{command}");
}

/// libfabric's provider for messages over verbs.
pub const OFI_VERBS: &str = "verbs;ofi_rxm";

/// An endpoint over that provider alone.
///
/// # Errors
/// As [`HybridEndpoint::with`](limic::HybridEndpoint::with).
pub fn over_ofi_verbs() -> limic::Result<limic::HybridEndpoint> {
    let settings = limic_tests::conformance::settings(|settings| {
        let settings = settings.fabric(limic::settings::FabricUse::OfiOnly);
        settings.ofi_provider(OFI_VERBS)
    });
    limic::HybridEndpoint::with(settings?)
}

/// Whether this is a guest of the lab with libfabric in it. Prints `SKIPPED` if it is not.
#[must_use]
pub fn has_libfabric() -> bool {
    let here = in_guest();
    let there = std::env::var_os("LIMIC_LAB_LIBFABRIC").is_some();
    if here && !there {
        limic_tests::skip("the host has no libfabric to put into the guest (package libfabric1)");
    }
    here && there
}

/// Whether this is a guest of the lab. Prints `SKIPPED` if it is not.
#[must_use]
pub fn in_guest() -> bool {
    let words = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let here = words.split_whitespace().any(|word| word == "lab.on=1");
    if !here {
        limic_tests::skip("this needs the lab's virtual machine; run it by `cargo xtask lab test`");
    }
    here
}
