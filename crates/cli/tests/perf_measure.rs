//! `limic perf` between real ranks: the rows, and where they go.

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
    assert_eq!(report["rewritten"], false);
}

#[test]
fn each_forced_path_is_the_one_that_is_used() {
    let paths = "inline,eager,pipeline,cma,split-copy,loan,process";
    for pattern in ["latency", "bandwidth"] {
        let report = json(&[
            pattern,
            "--sizes",
            "16,4K,128K",
            "--paths",
            paths,
            "--check",
        ]);
        assert_eq!(report["checked"], true);
        for row in rows(&report) {
            check_row(row, pattern, 2);
            assert_eq!(row["path"], row["wanted"], "{row}");
        }
        let notes = report["notes"].to_string();
        for path in paths.split(',') {
            let found = rows(&report).iter().filter(|row| row["wanted"] == path);
            let expected = match path {
                "inline" => 1,
                "eager" => 2,
                _ => 3,
            };
            match found.count() {
                0 if matches!(path, "cma" | "split-copy") => {
                    println!("SKIPPED: {path} over {pattern}: {notes}");
                }
                count => assert_eq!(count, expected, "{path}: {notes}"),
            }
        }
        assert!(notes.contains("inline, 4K: not measured: holds at most 48 bytes"));
        assert!(notes.contains("eager, 128K: not measured: went by pipeline"));
    }
}

#[test]
fn messages_that_are_written_anew_arrive_as_they_were_written() {
    let paths = "hybrid,eager,pipeline,cma,split-copy,peer-readable,loan,process";
    for pattern in ["latency", "bandwidth", "bibandwidth"] {
        let words = [pattern, "--rewrite", "--check", "--sizes", "0,8,3000,20K"];
        let report = json(&[&words[..], &["--paths", paths]].concat());
        assert_eq!(report["rewritten"], true);
        for row in rows(&report) {
            check_row(row, pattern, 2);
        }
        for wanted in ["hybrid", "loan"] {
            let found = rows(&report).iter().filter(|row| row["wanted"] == wanted);
            assert_eq!(found.count(), 4, "{wanted}: {}", report["notes"]);
        }
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
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    for (ranks, rounds) in [("2", 1), ("3", 2), ("5", 3)] {
        let report = json(&["barrier", "--ranks", ranks, "--paths", "hybrid,process"]);
        let ranks: u64 = ranks.parse().unwrap();
        // An empty message has no path of its own to be forced.
        assert_eq!(rows(&report).len(), 1, "{}", report["notes"]);
        let row = &rows(&report)[0];
        check_row(row, "barrier", ranks);
        assert_eq!(row["bytes"], 0);
        let (rate, time) = (row["msgs_per_s"].as_f64(), row["time_us"].as_f64());
        let found = rate.unwrap() * time.unwrap() / 1e6;
        // Ranks that take turns meet by way of one of them.
        let messages = if ranks > cpus {
            2 * (ranks - 1)
        } else {
            ranks * rounds
        };
        assert!((found / messages as f64 - 1.0).abs() < 1e-6, "{row}");
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
        (&["floor", "--sizes", "0"], "at least 1 byte"),
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
            &["latency", "--sleep", "--ranks", "4"],
            "one sender and one receiver",
        ),
        (
            &["latency", "--sleep", "--warmup", "4"],
            "'--sleep' cannot be used with '--warmup",
        ),
        (
            &["latency", "--sleep", "--rewrite"],
            "'--sleep' cannot be used with '--rewrite",
        ),
        (
            &["bandwidth", "--rewrite", "--paths", "cma,kmod-region"],
            "kmod-region has none",
        ),
        (&["alltoall", "--ranks", "1"], "at least 2 ranks"),
        (&["speed"], "unrecognized subcommand 'speed'"),
        (
            &["rate", "--wqe", "5", "--paths", "cma"],
            "cannot be used with '--paths <LIST>'",
        ),
        (
            &["latency", "--plot", "/no/such/folder/x.svg"],
            "/no/such/folder/x.svg",
        ),
        (
            &["latency", "--plot", "x.png"],
            "name a file that ends in .svg",
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

/// Options of one measurement that another one takes no notice of.
#[test]
fn each_measurement_refuses_and_hides_what_it_does_not_honour() {
    for (pattern, not_its_own) in [
        ("latency", &["--reuse", "--c2", "--window", "--bytes"][..]),
        ("bandwidth", &["--sleep", "--reuse"]),
        ("rate", &["--rewrite", "--sleep"]),
        ("barrier", &["--sizes", "--sleep"]),
        ("skew", &["--sizes", "--paths", "--check", "--wqe"]),
        ("floor", &["--ranks", "--check", "--counters", "--warmup"]),
        ("breakdown", &["--ranks", "--paths", "--check"]),
        ("connect", &["--sizes", "--iterations", "--paths"]),
    ] {
        let help = out(&in_turn(limic(&["perf", pattern, "--help"])));
        assert!(
            help.contains("--json") && help.contains("--rounds"),
            "{help}"
        );
        for option in not_its_own {
            let listed = |line: &str| line.split_whitespace().any(|word| word == *option);
            assert!(!help.lines().any(listed), "{option} in: {help}");
            let output = in_turn(limic(&["perf", pattern, option]));
            assert_eq!(output.status.code(), Some(2), "{pattern} {option}");
            let said = format!("unexpected argument '{option}'");
            assert!(err(&output).contains(&said), "{}", err(&output));
        }
    }
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
