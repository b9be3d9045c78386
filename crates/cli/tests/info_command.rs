//! `limic info`: what it says, and in which form.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use std::fs::File;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

mod launcher;
use launcher::{err, finish, out};

fn info(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
    command.arg("info").args(words);
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command)
}

fn json(variables: &[(&str, &str)]) -> Value {
    let output = info(&["--json"], variables);
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_str(&out(&output)).expect("one JSON object")
}

fn path<'a>(info: &'a Value, name: &str) -> &'a Value {
    let paths = info["paths"].as_array().expect("paths");
    let found = paths.iter().find(|path| path["path"] == name);
    found.unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn everything_is_in_the_text() {
    let output = info(&[], &[]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for part in [
        "Topology",
        "allowed CPUs:",
        "Paths",
        "pipeline",
        "one copy, by the kernel module",
        "Memory",
        "segment of an endpoint:",
        "Thresholds",
        "shared-cache",
        "Settings",
        "limic info --all: every setting",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let text = out(&info(&["--all"], &[]));
    for part in [
        "LIMIC_RING_BYTES",
        "payload bytes of a private ring",
        "one line moves",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn what_is_set_stands_out() {
    let set = [("LIMIC_EAGER_MAX", "2K"), ("LIMIC_PROFILE", "off")];
    let text = out(&info(&[], &set));
    let line = |part: &str| text.lines().find(|line| line.contains(part));
    let near = line("shared-cache   usual").expect("a line of thresholds");
    assert!(near.contains("eager to 2K (LIMIC_EAGER_MAX)"), "{text}");
    assert!(line("from LIMIC_EAGER_MAX").is_some(), "{text}");
    assert!(line("LIMIC_RING_BYTES").is_none(), "{text}");
}

#[test]
fn a_screen_is_wide_enough() {
    for words in [&[][..], &["--all"]] {
        let text = out(&info(words, &[]));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn every_path_has_a_state_and_those_that_are_off_a_reason() {
    let info = json(&[]);
    for name in ["self", "process", "inline", "eager", "pipeline", "loan"] {
        assert_eq!(path(&info, name)["state"], "on");
    }
    for name in ["cma", "split-copy", "kmod"] {
        let cma = path(&info, name);
        if cma["state"] == "off" {
            println!("SKIPPED: {name} as it is when it is on: {}", cma["reason"]);
            assert!(cma["reason"].is_string() && cma["remedy"].is_string());
        } else {
            assert_eq!(cma["state"], "on");
        }
    }
    assert!(
        info["placement"]["segment_bytes"]
            .as_u64()
            .is_some_and(|n| n > 0)
    );
    assert!(
        info["topology"]["allowed_count"]
            .as_u64()
            .is_some_and(|n| n > 0)
    );
    let rows = info["thresholds"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["reason"].is_string()));
}

#[test]
fn networks_are_no_paths_to_set() {
    let output = info(&[], &[("LIMIC_PATHS", "eager,network")]);
    assert!(!output.status.success());
    assert!(err(&output).contains("LIMIC_FABRIC"), "{}", err(&output));
}

#[test]
fn settings_show_where_they_come_from() {
    let info = json(&[
        ("LIMIC_EAGER_MAX", "2K"),
        ("LIMIC_PATHS", "inline,eager,pipeline"),
    ]);
    let settings = info["settings"].as_array().expect("settings");
    let eager = settings.iter().find(|s| s["name"] == "LIMIC_EAGER_MAX");
    let eager = eager.expect("it is listed");
    assert_eq!(eager["value"], "2K");
    assert_eq!(eager["source"], "LIMIC_EAGER_MAX");
    let cma = path(&info, "cma");
    assert_eq!(cma["state"], "off");
    assert!(cma["reason"].as_str().unwrap().contains("from LIMIC_PATHS"));
    assert!(
        cma["remedy"]
            .as_str()
            .unwrap()
            .contains("add cma to LIMIC_PATHS")
    );
}

#[test]
fn why_names_the_path_the_row_and_the_reason() {
    let output = info(&["--why", "shared-cache", "128K"], &[]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    assert!(
        text.starts_with("shared-cache: 128K (131072 bytes) go by pipeline"),
        "{text}"
    );
    assert!(text.contains("row: ") && text.contains("why: "), "{text}");

    let text = out(&info(&["--why", "other-package", "8"], &[]));
    assert!(text.contains("8 bytes go by inline"), "{text}");
    let text = out(&info(&["--why", "self", "1G"], &[]));
    assert!(text.contains("go by self"), "{text}");
}

#[test]
fn why_follows_the_settings() {
    let without = [
        ("LIMIC_PATHS", "inline,eager,cma,split-copy"),
        ("LIMIC_LONG", "pipeline"),
    ];
    let text = out(&info(&["--why", "shared-cache", "1M"], &without));
    assert!(text.contains("not pipeline: "), "{text}");
    assert!(
        text.contains("pipeline is off here: not among the allowed paths"),
        "{text}"
    );
    // More than goes in pieces.
    let eager = [("LIMIC_EAGER_MAX", "unlimited")];
    let text = out(&info(&["--why", "shared-cache", "1M"], &eager));
    assert!(text.contains("not eager: holds at most 64K"), "{text}");
    // They go as is asked for.
    let eager = [("LIMIC_EAGER_MAX", "unlimited"), ("LIMIC_LONG", "cma")];
    let text = out(&info(&["--why", "shared-cache", "1M"], &eager));
    assert!(text.contains("go by cma"), "{text}");
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
    command.args(["info", "--json"]).stdin(Stdio::null());
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    command.stderr(Stdio::piped());
    let output = finish(command);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("No space left"), "{}", err(&output));
}

#[test]
fn what_makes_no_sense_is_said_with_code_2() {
    for (words, variables, part) in [
        (
            &["--why", "next-door", "8"][..],
            &[][..],
            "'next-door' is not a receiver",
        ),
        (
            &["--why", "self", "big"],
            &[],
            "'big' is not a number of bytes",
        ),
        (&["--why", "self"], &[], "2 values"),
        (&[], &[("LIMIC_LONG", "smoke")], "LIMIC_LONG=smoke"),
        (
            &["--json", "--why", "self", "1"],
            &[],
            "cannot be used with",
        ),
    ] {
        let output = info(words, variables);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", err(&output));
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
    }
}

#[test]
fn help_is_there_for_all() {
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["info", "--help"],
        &["perf", "--help"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
        command.args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command);
        assert!(output.status.success(), "{words:?}");
        assert!(out(&output).contains("Usage: limic"), "{words:?}");
    }
}

#[test]
fn why_knows_receivers_that_lag_behind() {
    let profile = [("LIMIC_PROFILE", "off")];
    let words = ["--why", "shared-cache", "32K", "--slow-receiver"];
    let text = out(&info(&words, &profile));
    assert!(
        text.contains("go by send-ahead") && text.contains("slow-receiver, up to 256K"),
        "{text}"
    );
    let off = [("LIMIC_PROFILE", "off"), ("LIMIC_SKEW", "off")];
    let text = out(&info(&words, &off));
    assert!(text.contains("LIMIC_SKEW is off"), "{text}");
    let output = info(&["--slow-receiver"], &profile);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn why_knows_networks_the_module_loans_and_slices() {
    for (words, parts) in [
        (
            &["tcp", "1M"][..],
            &["tcp: 1M", "go by network", "eager limit"][..],
        ),
        (&["kernel", "8"], &["go by eager", "the module keeps it"]),
        (&["kernel", "64K"], &["go by kmod"]),
        (
            &["shared-cache", "64K", "--loan"],
            &["go by loan", "no copy"],
        ),
        (&["tcp", "64K", "--loan"], &["go by network", "not loan: "]),
        (
            &["same-package", "1M", "--slices", "3"],
            &[
                "go by pipeline",
                "needs the sender's bytes in one slice",
                "but: the first path",
            ],
        ),
    ] {
        let words: Vec<_> = ["--why"].iter().chain(words).copied().collect();
        let text = out(&info(&words, &[("LIMIC_PROFILE", "off")]));
        for part in parts {
            assert!(text.contains(part), "{words:?}: {text}");
        }
    }
    let output = info(&["--why", "tcp", "8", "--slow-receiver"], &[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_warning_in_a_file_has_no_escape_sequences() {
    let output = info(&[], &[("LIMIC_EAGR_MAX", "1K")]);
    let told = err(&output);
    assert!(told.contains("did you mean LIMIC_EAGER_MAX?"), "{told}");
    assert!(
        !told.contains('\x1b') && !told.contains("limic::"),
        "{told:?}"
    );
}
