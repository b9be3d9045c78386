//! The conformance suite over libfabric's verbs, over Soft-RoCE; and how libfabric is told to ask
//! for no more than that has.

use std::process::Command;

use limic_lab_tests::{OFI_VERBS, has_libfabric, over_ofi_verbs, program};
use limic_tests::conformance;

const UNIVERSE: &str = "FI_UNIVERSE_SIZE";

conformance!(rxe, over_ofi_verbs, only crate::has_libfabric);

/// The command over libfabric, which nobody has told how many endpoints there are.
fn limic(words: &[&str], fabric: &str) -> Command {
    let mut command = Command::new(program("limic"));
    command.args(words).env_remove(UNIVERSE);
    command.env("LIMIC_FABRIC", fabric);
    command.env("LIMIC_OFI_PROVIDER", OFI_VERBS);
    command
}

#[test]
fn who_asks_for_too_many_completions_is_told_the_remedy() {
    if !has_libfabric() {
        return;
    }
    let output = limic(&["info"], "ofi").output().expect("limic info");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("fi_enable") && text.contains(UNIVERSE),
        "{text}"
    );
}

#[test]
fn the_launcher_tells_libfabric_how_many_ranks_there_are() {
    if !has_libfabric() {
        return;
    }
    let example = program("examples/hello").display().to_string();
    let status = limic(&["run", "-n", "2", &example], "ofi-only").status();
    assert!(status.expect("limic run").success());
}
