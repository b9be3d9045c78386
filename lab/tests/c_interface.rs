//! The C interface over an endpoint whose messages the kernel matches: its own test programs, with
//! another kind of endpoint.

use std::process::Command;

use limic_lab_tests::{in_guest, program};

/// `LIMIC_KIND_KERNEL` and `LIMIC_KIND_HYBRID` of `limic.h`.
const KERNEL: &str = "2";
const HYBRID: &str = "0";

/// Runs one of the programs, which check their bytes and end with 0.
fn run(name: &str, ranks: u32, kind: &str) {
    let output = Command::new(program("limic"))
        .args(["run", "-n", &ranks.to_string()])
        .arg(program(name))
        .env("LIMIC_TEST_KIND", kind)
        // Long messages of a hybrid endpoint go through the module too.
        .env("LIMIC_PATHS", "inline,eager,pipeline,kmod")
        .output()
        .expect("the command starts");
    assert!(
        output.status.success(),
        "{name} with kind {kind}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

macro_rules! programs {
    ($($test:ident: $name:literal, $ranks:literal;)*) => { $(
        #[test]
        fn $test() {
            if in_guest() {
                run($name, $ranks, KERNEL);
                run($name, $ranks, HYBRID);
            }
        }
    )* };
}

programs! {
    messages: "limic-c-messages", 3;
    requests: "limic-c-requests", 2;
    probes: "limic-c-probe", 2;
    lists_of_pieces: "limic-c-vectored", 2;
}
