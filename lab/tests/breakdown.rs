//! `limic perf breakdown`, as a user runs it where the module is loaded.

use std::fs;
use std::process::{Command, Output, Stdio};

use limic_lab_tests::{in_guest, program};
use serde_json::Value;

const FOLDER: &str = "/sys/kernel/debug/limic";

fn breakdown(words: &[&str]) -> Output {
    Command::new(program("limic"))
        .args(["perf", "breakdown", "--rounds", "2", "--iterations", "5"])
        .args(words)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A step of a row, in microseconds.
fn step(row: &Value, name: &str) -> f64 {
    row["breakdown"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name} in {row}"))
}

#[test]
fn both_tables_say_where_the_time_goes() {
    if !in_guest() {
        return;
    }
    let output = breakdown(&["--sizes", "64,64K,5M", "--json", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "two rows for each size");
    for row in rows {
        assert_eq!(row["iterations"], 5);
        assert!(step(row, "trap_us") > 0.0, "{row}");
        assert!(step(row, "queue_us") > 0.0, "{row}");
        let steps = ["trap_us", "pin_us", "map_us", "copy_us", "queue_us"];
        let sum: f64 = steps.iter().map(|name| step(row, name)).sum();
        assert!(sum > 0.0 && row["time_us"].as_f64().is_some_and(|time| time > 0.0));
        match row["path"].as_str() {
            Some("transfer") => {
                assert!(step(row, "copy_us") > 0.0, "a transfer copies: {row}");
                assert_eq!(step(row, "pin_us"), 0.0, "and pins nothing: {row}");
            }
            Some("post") => {
                assert!(step(row, "pin_us") > 0.0, "a post pins: {row}");
                assert_eq!(step(row, "copy_us"), 0.0, "and copies nothing: {row}");
            }
            other => panic!("a row of {other:?}"),
        }
    }
    let copy = |bytes: u64| {
        let row = rows
            .iter()
            .find(|row| row["path"] == "transfer" && row["bytes"] == bytes);
        step(row.expect("a row of the size"), "copy_us")
    };
    assert!(copy(5 << 20) > copy(64), "more bytes take longer to copy");
    // The switch is off again, and nothing is pinned.
    let measure = fs::read_to_string(format!("{FOLDER}/measure")).expect("the switch");
    assert_eq!(measure, "0\n");
    let counters = fs::read_to_string(format!("{FOLDER}/counters")).expect("the counters");
    assert!(counters.contains("pinned_pages 0\n"), "{counters}");

    let table = breakdown(&["--sizes", "4K,64K"]);
    let table = text(&table.stdout);
    for part in ["message transfer", "descriptor post", "queue+lock", "64K"] {
        assert!(table.contains(part), "no '{part}' in:\n{table}");
    }
    for line in table.lines() {
        println!("REPORT: {line}");
    }
}

#[test]
fn two_measurements_do_not_mix() {
    if !in_guest() {
        return;
    }
    fs::write(format!("{FOLDER}/measure"), "1").expect("the switch");
    let output = breakdown(&["--sizes", "64"]);
    fs::write(format!("{FOLDER}/measure"), "0").expect("the switch");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("somebody measures already"), "{said}");
}

/// Measuring costs every process that uses the module, so whoever turned it on does not leave it
/// on, however it ends.
#[test]
fn who_is_killed_does_not_leave_the_clock_on() {
    if !in_guest() {
        return;
    }
    let measuring = || {
        let word = fs::read_to_string(format!("{FOLDER}/measure")).expect("the switch");
        word == "1\n"
    };
    let mut child = Command::new(program("limic"))
        .args(["perf", "breakdown", "--rounds", "1", "--sizes", "64"])
        .args(["--iterations", "1000000000", "--warmup", "1"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    // The lab ends this test if it never begins.
    while !measuring() {
        assert_eq!(child.try_wait().expect("wait"), None, "it has ended early");
        std::thread::yield_now();
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("wait");
    assert!(!measuring(), "it is still on");
    // So the next one may measure.
    let output = breakdown(&["--sizes", "64"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn who_may_not_see_the_figures_is_told_so() {
    if !in_guest() {
        return;
    }
    // The device is for root's group alone here; one that all may open, as a udev rule may make it.
    let open = "chmod 666 /dev/limic && exec su one -c \"$0 perf breakdown --sizes 64\"";
    let output = Command::new("sh")
        .args(["-c", open])
        .arg(program("limic"))
        .output()
        .expect("a shell");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("run this as root"), "{said}");
}
