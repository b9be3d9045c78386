//! The measurements of `limic perf` that are no pattern between ranks, or have rows of their own:
//! breakdown, floor, skew, cliffs, and the processor's counters.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use serde_json::Value;

mod launcher;
mod measuring;
use launcher::{err, out};
use measuring::{SHORT, check_row, in_turn, json, limic, perf, rows};

#[test]
fn without_the_kernel_module_there_is_no_breakdown() {
    if std::path::Path::new("/dev/limic").exists() {
        println!("SKIPPED: this machine has the kernel module; the lab tests breakdown with it");
        return;
    }
    let output = perf(&["breakdown", "--sizes", "64"]);
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    for part in [
        "there is no /dev/limic",
        "docs/kernel-module.md",
        "cargo xtask lab run",
    ] {
        assert!(said.contains(part), "no '{part}' in: {said}");
    }
}

#[test]
fn the_floor_is_measured_without_ranks() {
    let report = json(&["floor", "--sizes", "64,20000"]);
    let found = |path: &str| {
        rows(&report)
            .iter()
            .filter(|row| row["path"] == path)
            .count()
    };
    for path in ["cache-line", "epoll-wake", "futex-wake"] {
        assert_eq!(found(path), 1, "{path}");
    }
    let sized = ["memcpy", "two-copy", "two-copy-stream"];
    for path in [&sized[..], &["one-copy", "one-copy-rewritten"]].concat() {
        assert_eq!(found(path), 2, "{path}");
    }
    if found("process_vm_readv") != 2 {
        println!("SKIPPED: process_vm_readv: {}", report["notes"]);
        assert!(
            report["notes"]
                .to_string()
                .contains("process_vm_readv: not measured")
        );
    }
    for row in rows(&report) {
        let ranks = if row["path"] == "memcpy" { 1 } else { 2 };
        check_row(row, "floor", ranks);
        let ring = row["path"].as_str().unwrap().starts_with("two-copy");
        assert_eq!(row["shape"].is_string(), ring, "{row}");
    }
    let table = perf(&["floor", "--sizes", "64"]);
    assert!(out(&table).contains("cache-line"), "{}", out(&table));
}

#[test]
fn a_sleeping_receiver_is_measured_beside_the_kernel() {
    // Enough messages that some find the receiver asleep on a machine that does other things too,
    // at one of the sizes.
    let mut command = limic(&[
        "perf", "latency", "--sleep", "--sizes", "8,4K", "--json", "-",
    ]);
    command.args(["--iterations", "50", "--rounds", "4"]);
    let output = in_turn(command);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).expect("one JSON object");
    let awake = report["notes"].to_string();
    if rows(&report).is_empty() && awake.contains("the receiver never slept") {
        // On a machine so busy that it did not even come to fall asleep.
        println!("SKIPPED: {awake}");
        return;
    }
    for row in rows(&report) {
        check_row(row, "latency", 2);
        let wake = |field: &str| row["wake"][field].as_f64().expect("a number");
        // It really slept, and the two figures belong together.
        assert!(wake("asleep") > 0.0 && wake("asleep") <= 1.0, "{row}");
        let ratio = row["time_us"].as_f64().unwrap() / wake("kernel_us");
        assert!((wake("ratio") - ratio).abs() < 1e-6 * ratio, "{row}");
    }
}

#[test]
fn skew_shows_both_the_effect_and_the_way_back() {
    let words = [
        "skew", "--c1", "1", "--c2", "200", "--window", "64", "--bytes", "64K",
    ];
    // A window of these does not fit the pool, so they wait for their receiver as long as nobody
    // knows that it lags. The receiver computes long enough for that even where its sender has half
    // a CPU.
    let mut command = limic(&["perf"]);
    command.args(words).args(SHORT).args(["--json", "-"]);
    let output = in_turn(command);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    let row = |phase: &str, wanted: &str| {
        let found = rows(&report)
            .iter()
            .find(|row| row["skew"]["phase"] == phase && row["wanted"] == wanted);
        found.unwrap_or_else(|| panic!("no {wanted} {phase}: {report}"))
    };
    for wanted in ["eager", "aware", "off"] {
        let row = row("skewed", wanted);
        check_row(row, "skew", 2);
        assert_eq!(row["bytes"], 64 << 10);
        assert_eq!(
            (&row["skew"]["c1_us"], &row["skew"]["c2_us"]),
            (&1.0.into(), &200.0.into())
        );
        assert_eq!(row["skew"]["window"], 64);
        assert!(
            row["skew"]["c3_us"].as_f64().is_some_and(|c3| c3 >= 64.0),
            "{row}"
        );
    }
    assert_eq!(row("skewed", "eager")["path"], "eager-fragments");
    assert_eq!(row("skewed", "eager")["skew"]["ratio"], 1.0);
    // The thresholds followed, messages went ahead, and afterwards they did no longer.
    assert!(
        row("skewed", "aware")["skew"]["windows_to_change"].is_u64(),
        "{report}"
    );
    assert!(row("skewed", "aware")["skew"]["ahead_messages"].as_u64() > Some(0));
    assert_eq!(row("skewed", "off")["skew"]["ahead_messages"], 0);
    assert!(
        row("after", "aware")["skew"]["windows_to_change"].is_u64(),
        "{report}"
    );
    assert_eq!(row("after", "aware")["skew"]["ahead_messages"], 0);
    assert_eq!(row("after", "pipeline")["path"], "pipeline");
}

#[test]
fn skew_says_what_does_not_fit_it() {
    for (words, part) in [
        (&["skew", "--bytes", "8M"][..], "do not fit a ring of 16M"),
        (&["skew", "-n", "4"][..], "one sender and one receiver"),
        (&["skew", "--c2=-1"][..], "0 to 1000000"),
    ] {
        let output = perf(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", err(&output));
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
    }
}

#[test]
fn cliffs_are_counted_and_each_is_marked() {
    let report = json(&["cliffs", "--sizes", "8,16,17,1K"]);
    let growths: Vec<Option<f64>> = rows(&report)
        .iter()
        .map(|row| row["growth"].as_f64())
        .collect();
    assert_eq!(growths.len(), 4);
    assert!(growths[0].is_none() && growths[1..].iter().all(Option::is_some));
    let steep = growths.iter().flatten().filter(|growth| **growth > 2.5);
    let steep = steep.count();
    let notes = report["notes"].as_array().expect("notes");
    let notes = || notes.iter().filter_map(Value::as_str);
    let told = notes().filter(|note| note.starts_with("cliff: hybrid: "));
    assert_eq!(told.count(), steep, "{report}");
    let summary = match steep {
        0 => "no cliff: none of 3 times".to_owned(),
        some => format!("{some} of 3 times are cliffs"),
    };
    assert!(notes().any(|note| note.starts_with(&summary)), "{report}");
}

#[test]
fn hardware_counters_are_given_or_explained() {
    const NAMES: [&str; 9] = [
        "cycles",
        "instructions",
        "l1d_misses",
        "llc_misses",
        "page_faults",
        "context_switches",
        "unexpected",
        "waited",
        "sleeps",
    ];
    let report = json(&["latency", "--sizes", "8", "--counters"]);
    let row = &rows(&report)[0];
    let notes = report["notes"].as_array().expect("notes");
    for name in NAMES {
        let why = notes
            .iter()
            .filter_map(Value::as_str)
            .find(|note| note.starts_with("not granted: ") && note.contains(name));
        match why {
            Some(why) => println!("SKIPPED: {why}"),
            None => assert!(row[name].as_f64().is_some_and(|n| n >= 0.0), "{row}"),
        }
    }
    // limic's own need nobody's leave.
    assert!(NAMES[6..].iter().all(|name| row[name].is_f64()), "{row}");
    let output = perf(&["latency", "--sizes", "8", "--counters"]);
    let table = out(&output);
    for name in NAMES {
        // A column, or a note.
        assert!(table.contains(name), "{name}: {table}");
    }
    let without = json(&["latency", "--sizes", "8"]);
    assert!(NAMES.iter().all(|name| rows(&without)[0][name].is_null()));
}
