//! `limic model connections` beside what 64 endpoints use, which have a network for themselves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;

use limic_tests::namespaces;
use serde_json::Value;

mod launcher;
use launcher::{collect, err, out};

#[test]
fn connections_over_tcp_take_what_the_model_says() {
    let Some(machines) = namespaces::make("model") else {
        return;
    };
    let mut command = machines.command(0, env!("CARGO_BIN_EXE_limic"));
    command
        .args(["model", "connections", "--pairs=0", "--json=-"])
        .args(["--processes=2,64,100000", "--endpoints=64"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut tries = 5;
    loop {
        let output = collect(command.spawn().unwrap());
        assert!(output.status.success(), "{}", err(&output));
        let report: Value = serde_json::from_str(&out(&output)).unwrap();
        let tcp = &report["tcp"];
        if let Some(why) = tcp["not_measured"].as_str() {
            return println!("SKIPPED: {why}");
        }
        let rows = tcp["rows"].as_array().unwrap();
        let connections: Vec<_> = rows.iter().map(|row| row["connections"].as_u64()).collect();
        assert_eq!(connections, [Some(1), Some(63), Some(99_999)]);
        let ratio =
            |name| tcp["model"][name].as_f64().unwrap() / tcp["measured"][name].as_f64().unwrap();
        let here = &tcp["measured"];
        for name in [
            "process_kb",
            "start_packets",
            "start_bytes",
            "alive_packets",
        ] {
            assert!(
                (0.8..1.25).contains(&ratio(name)),
                "{name}: {} times {here}",
                ratio(name)
            );
        }
        // Other programs give and take memory of the kernel meanwhile.
        tries -= 1;
        if (0.5..2.0).contains(&ratio("kernel_kb")) {
            return println!("REPORT: of 64 endpoints: {here}");
        }
        assert!(tries > 0, "kernel_kb: {} times {here}", ratio("kernel_kb"));
    }
}
