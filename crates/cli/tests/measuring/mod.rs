//! `limic perf` as a process: started in turn, with few rounds, and its JSON.
#![allow(
    dead_code,
    reason = "each test binary uses the part of these that it needs"
)]

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::launcher::{err, finish, out};

/// Few iterations and rounds: these tests look at what comes out, not at how fast.
pub(crate) const SHORT: [&str; 4] = ["--iterations", "3", "--rounds", "2"];

pub(crate) fn limic(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
    command.args(words);
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    command
}

pub(crate) fn perf(words: &[&str]) -> Output {
    let mut command = limic(&["perf"]);
    command.args(words).args(SHORT);
    in_turn(command)
}

/// Runs one job at a time: several at once would wait for each other's CPUs most of the time.
pub(crate) fn in_turn(command: Command) -> Output {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    finish(command)
}

/// The JSON that a measurement gives; it must succeed.
pub(crate) fn json(words: &[&str]) -> Value {
    let output = perf(&[words, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_str(&out(&output)).expect("one JSON object and nothing else")
}

pub(crate) fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().expect("rows")
}

/// Its numbers are there, and agree with each other.
pub(crate) fn check_row(row: &Value, pattern: &str, ranks: u64) {
    assert_eq!(row["pattern"], pattern);
    assert_eq!(row["ranks"], ranks);
    assert!(row["path"].is_string() && row["bytes"].is_u64(), "{row}");
    for number in ["time_us", "msgs_per_s"] {
        assert!(row[number].as_f64().is_some_and(|n| n > 0.0), "{row}");
    }
    assert_eq!(row["mb_per_s"].is_null(), row["wanted"] == "loan", "{row}");
    let expected = row["bytes"].as_f64().expect("a number")
        * row["msgs_per_s"].as_f64().expect("a number")
        / 1e6;
    let bandwidth = row["mb_per_s"].as_f64().unwrap_or(expected);
    assert!((bandwidth - expected).abs() <= expected * 1e-6, "{row}");
    assert!(row["spread"].as_f64().is_some_and(|n| n >= 0.0), "{row}");
}
