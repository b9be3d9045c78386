//! `limic perf` between real ranks: the rows, and where they go.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

mod launcher;
use launcher::{err, finish, out};

/// Few iterations and rounds: these tests look at what comes out, not at how fast.
const SHORT: [&str; 4] = ["--iterations", "3", "--rounds", "2"];

fn limic(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
    command.args(words);
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    command
}

fn perf(words: &[&str]) -> Output {
    let mut command = limic(&["perf"]);
    command.args(words).args(SHORT);
    in_turn(command)
}

/// Runs one job at a time: several at once would wait for each other's CPUs most of the time.
fn in_turn(command: Command) -> Output {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    finish(command)
}

/// The JSON that a measurement gives; it must succeed.
fn json(words: &[&str]) -> Value {
    let output = perf(&[words, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_str(&out(&output)).expect("one JSON object and nothing else")
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().expect("rows")
}

fn check_row(row: &Value, pattern: &str, ranks: u64) {
    assert_eq!(row["pattern"], pattern);
    assert_eq!(row["ranks"], ranks);
    assert!(row["path"].is_string() && row["bytes"].is_u64(), "{row}");
    for number in ["time_us", "msgs_per_s"] {
        assert!(row[number].as_f64().is_some_and(|n| n > 0.0), "{row}");
    }
    let bandwidth = row["mb_per_s"].as_f64().expect("a number");
    let expected = row["bytes"].as_f64().unwrap() * row["msgs_per_s"].as_f64().unwrap() / 1e6;
    assert!((bandwidth - expected).abs() <= expected * 1e-6, "{row}");
    assert!(row["spread"].as_f64().is_some_and(|n| n >= 0.0), "{row}");
}

#[test]
fn every_pattern_gives_a_row_for_each_size() {
    for pattern in ["latency", "bandwidth", "bibandwidth", "rate"] {
        let report = json(&[pattern, "--sizes", "0,8,3000,100K"]);
        assert_eq!(report["pattern"], pattern);
        assert_eq!(report["limic"], env!("CARGO_PKG_VERSION"));
        let sizes: Vec<_> = rows(&report).iter().map(|row| &row["bytes"]).collect();
        assert_eq!(sizes, [0, 8, 3000, 102_400]);
        for row in rows(&report) {
            check_row(row, pattern, 2);
        }
        // Sent inline: also the row says so, since it counts.
        assert_eq!(rows(&report)[1]["path"], "inline");
    }
}

#[test]
fn the_machine_is_described() {
    let report = json(&["latency", "--sizes", "8"]);
    let machine = &report["machine"];
    for text in ["cpu", "kernel", "date", "build"] {
        assert!(
            machine[text].as_str().is_some_and(|t| !t.is_empty()),
            "{text}"
        );
    }
    assert_eq!(machine["load_average"].as_array().map(Vec::len), Some(3));
    assert!(machine["topology"]["cpus"].as_u64().is_some());
    assert!(machine["memory_bytes"].as_u64().is_some_and(|n| n > 0));
    assert_eq!(report["checked"], false);
}

#[test]
fn each_forced_path_is_the_one_that_is_used() {
    let paths = "inline,eager,pipeline,cma,both-sides,loan,process";
    for pattern in ["latency", "bandwidth"] {
        let report = json(&[pattern, "--sizes", "16,4K,64K", "--paths", paths, "--check"]);
        assert_eq!(report["checked"], true);
        for row in rows(&report) {
            check_row(row, pattern, 2);
            assert_eq!(row["path"], row["wanted"], "{row}");
        }
        let notes = report["notes"].to_string();
        for path in paths.split(',') {
            let found = rows(&report).iter().filter(|row| row["path"] == path);
            let expected = match path {
                "inline" => 1,
                "eager" => 2,
                _ => 3,
            };
            match found.count() {
                0 if matches!(path, "cma" | "both-sides") => {
                    println!("SKIPPED: {path} over {pattern}: {notes}");
                }
                count => assert_eq!(count, expected, "{path}: {notes}"),
            }
        }
        assert!(notes.contains("inline, 4K: not measured: holds at most 48 bytes"));
        assert!(notes.contains("eager, 64K: not measured: went by pipeline"));
    }
}

#[test]
fn pairs_of_four_ranks_with_and_without_reuse() {
    let report = json(&["pairs", "--ranks", "4", "--sizes", "8,10000", "--check"]);
    let found: Vec<_> = rows(&report)
        .iter()
        .map(|row| {
            (
                row["reuse"].as_bool().unwrap(),
                row["bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [(true, 8), (true, 10_000), (false, 8), (false, 10_000)]
    );
    for row in rows(&report) {
        check_row(row, "pairs", 4);
        // Two pairs at once.
        let (rate, time) = (row["msgs_per_s"].as_f64(), row["time_us"].as_f64());
        assert!(
            (rate.unwrap() * time.unwrap() / 2e6 - 1.0).abs() < 1e-6,
            "{row}"
        );
    }
    let one = json(&["pairs", "--sizes", "8", "--reuse", "off"]);
    assert_eq!(rows(&one).len(), 1);
    assert_eq!(rows(&one)[0]["reuse"], false);
}

#[test]
fn collective_patterns_take_any_number_of_ranks() {
    for (ranks, messages) in [("2", 1.0), ("3", 2.0), ("5", 3.0)] {
        let report = json(&["barrier", "--ranks", ranks, "--paths", "hybrid,process"]);
        let ranks: u64 = ranks.parse().unwrap();
        // An empty message has no path of its own to be forced.
        assert_eq!(rows(&report).len(), 1, "{}", report["notes"]);
        let row = &rows(&report)[0];
        check_row(row, "barrier", ranks);
        assert_eq!(row["bytes"], 0);
        let (rate, time) = (row["msgs_per_s"].as_f64(), row["time_us"].as_f64());
        let each = rate.unwrap() * time.unwrap() / 1e6 / ranks as f64;
        assert!((each / messages - 1.0).abs() < 1e-6, "{row}");
    }
    let words = [
        "alltoall",
        "--ranks",
        "3",
        "--check",
        "--sizes",
        "0,8,3000,100K",
    ];
    let report = json(&[&words[..], &["--paths", "hybrid,eager,process"]].concat());
    let found = |wanted: &str| {
        rows(&report)
            .iter()
            .filter(|row| row["wanted"] == wanted)
            .count()
    };
    let counts = [found("hybrid"), found("eager"), found("process")];
    assert_eq!(counts, [4, 2, 3], "{}", report["notes"]);
    rows(&report)
        .iter()
        .for_each(|row| check_row(row, "alltoall", 3));
}

#[test]
fn ranks_of_somebody_elses_launcher_measure_too() {
    let mut command = limic(&["run", "-n", "2", env!("CARGO_BIN_EXE_limic"), "perf"]);
    command
        .args(["latency", "--sizes", "8", "--json", "-"])
        .args(SHORT);
    let output = in_turn(command);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).expect("rank 0 alone prints");
    check_row(&rows(&report)[0], "latency", 2);
}

#[test]
fn a_table_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("plot.svg");
    let json = folder.path().join("rows.json");
    let output = perf(&[
        "bandwidth",
        "--sizes",
        "1..16",
        "--paths",
        "hybrid,eager",
        "--plot",
        plot.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    assert!(
        text.contains("MB/s") && text.contains("hybrid (inline)"),
        "{text}"
    );
    let path_is_eager = |line: &&str| line.split_whitespace().nth(1) == Some("eager");
    assert_eq!(text.lines().filter(path_is_eager).count(), 5, "{text}");
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("MB/s") && svg.contains("hybrid"));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(rows(&report).len(), 10);
}

#[test]
fn what_makes_no_sense_is_said_with_code_2() {
    for (words, part) in [
        (&["latency", "--sizes", "8x"][..], "'8x' is not a size"),
        (&["latency", "--sizes", "8..4"], "is empty"),
        (&["latency", "--paths", "smoke"], "hybrid, inline, eager"),
        (&["latency", "--ranks", "3"], "an even number of ranks"),
        (&["latency", "--ranks", "0"], "an even number of ranks"),
        (
            &["floor", "--ranks", "2"],
            "--ranks has no meaning for floor",
        ),
        (&["floor", "--sizes", "0"], "at least 1 byte"),
        (&["bandwidth", "--sleep"], "--sleep is for latency"),
        (
            &["latency", "--sleep", "--sizes", "4"],
            "4 bytes are too few, 8 are enough",
        ),
        (
            &["latency", "--sleep", "--paths", "loan"],
            "not measured over loan",
        ),
        (&["breakdown", "--sizes", "0"], "at least 1 byte"),
        (
            &["breakdown", "--ranks", "2"],
            "--ranks has no meaning for breakdown",
        ),
        (&["alltoall", "--ranks", "1"], "at least 2 ranks"),
        (&["barrier", "--sizes", "8"], "--sizes has no meaning"),
        (&["speed"], "latency, cliffs, bandwidth"),
        (
            &["latency", "--plot", "/no/such/folder/x.svg"],
            "/no/such/folder/x.svg",
        ),
        (&["latency", "--json", "/"], "/: "),
    ] {
        let output = perf(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", err(&output));
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{words:?}");
    }
    let mut command = limic(&["perf", "latency"]);
    command.env("LIMIC_EAGER_MAX", "much");
    let output = in_turn(command);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("LIMIC_EAGER_MAX=much"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_launcher_with_another_number_of_ranks_is_refused_once() {
    let mut command = limic(&["run", "-n", "2", env!("CARGO_BIN_EXE_limic"), "perf"]);
    command.args(["latency", "--ranks", "4"]);
    let output = in_turn(command);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    let part = "--ranks 4, but the launcher started 2";
    // Rank 0 says it, unless the launcher ended it before because another rank was faster.
    assert!(err(&output).matches(part).count() <= 1, "{}", err(&output));
}

#[test]
fn the_settings_of_the_environment_hold() {
    let mut command = limic(&["perf", "latency", "--sizes", "8", "--json", "-"]);
    command.args(SHORT).env("LIMIC_INLINE_MAX", "0");
    let output = in_turn(command);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(rows(&report)[0]["path"], "eager");
}

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
    for path in ["memcpy", "two-copy", "two-copy-stream", "one-copy"] {
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
    // Enough messages that some find the receiver asleep on a machine that does other things too.
    let mut command = limic(&[
        "perf", "latency", "--sleep", "--sizes", "8,4K", "--json", "-",
    ]);
    command.args(["--iterations", "100", "--rounds", "2"]);
    let output = in_turn(command);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).expect("one JSON object");
    let sizes: Vec<_> = rows(&report).iter().map(|row| &row["bytes"]).collect();
    assert_eq!(sizes, [8, 4096], "{report}");
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
        "skew", "--c1", "1", "--c2", "20", "--window", "32", "--bytes", "20K",
    ];
    let report = json(&words);
    let row = |phase: &str, wanted: &str| {
        let found = rows(&report)
            .iter()
            .find(|row| row["skew"]["phase"] == phase && row["wanted"] == wanted);
        found.unwrap_or_else(|| panic!("no {wanted} {phase}: {report}"))
    };
    for wanted in ["eager", "aware", "off"] {
        let row = row("skewed", wanted);
        check_row(row, "skew", 2);
        assert_eq!(row["bytes"], 20 << 10);
        assert_eq!(
            (&row["skew"]["c1_us"], &row["skew"]["c2_us"]),
            (&1.0.into(), &20.0.into())
        );
        assert_eq!(row["skew"]["window"], 32);
        assert!(
            row["skew"]["c3_us"].as_f64().is_some_and(|c3| c3 >= 32.0),
            "{row}"
        );
    }
    assert_eq!(row("skewed", "eager")["path"], "eager");
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
fn options_of_skew_are_for_skew() {
    for (words, part) in [
        (&["latency", "--c2", "5"][..], "are for skew"),
        (&["skew", "--sizes", "8"][..], "--bytes instead of --sizes"),
        (&["skew", "--bytes", "8M"][..], "do not fit a ring of 16M"),
        (&["skew", "-n", "4"][..], "one producer and one consumer"),
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

    let output = perf(&["floor", "--counters"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
}
