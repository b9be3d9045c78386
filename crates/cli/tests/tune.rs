//! `limic tune`: what it writes is what later runs load.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod launcher;
use launcher::{err, finish_slow, out};

/// A home of its own, so that nobody's profile is touched or read.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn limic(&self, words: &[&str]) -> Output {
        self.limic_with(words, &[])
    }

    fn limic_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
        command.args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("XDG_CONFIG_HOME", self.path());
        command
            .env_remove("LIMIC_PROFILE")
            .env_remove("LIMIC_CONFIG");
        command.envs(variables.iter().copied());
        finish_slow(command)
    }

    /// The one profile below this home.
    fn profile(&self) -> PathBuf {
        let files = std::fs::read_dir(self.path().join("limic")).unwrap();
        let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    /// The source of a locality's longest usual row.
    fn source(&self, variables: &[(&str, &str)]) -> String {
        let output = self.limic_with(&["info", "--json"], variables);
        let info: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        let rows = info["thresholds"].as_array().unwrap();
        let profiled = rows.iter().find(|row| row["source"] == "profile");
        profiled.map_or("built-in", |_| "profile").to_owned()
    }
}

#[test]
fn what_tune_writes_is_loaded_by_later_runs() {
    let home = Home::new();
    let plot = home.path().join("tuned.svg");
    // Too short for figures that mean anything: this looks at what comes out.
    let output = home.limic(&["tune", "--seconds", "1", "--plot", plot.to_str().unwrap()]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for part in ["before/after", "built-in", "4M", "written to"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(std::fs::read_to_string(&plot).unwrap().contains("<svg"));

    let path = home.profile();
    let profile = std::fs::read_to_string(&path).unwrap();
    for part in [
        "[profile]\nversion = 2\n",
        "[machine]\n",
        "[[rows]]\n",
        "path = \"inline\"",
    ] {
        assert!(profile.contains(part), "{part}: {profile}");
    }
    assert_eq!(home.source(&[]), "profile");
    assert_eq!(home.source(&[("LIMIC_PROFILE", "off")]), "built-in");
    let output = home.limic(&["info"]);
    assert!(err(&output).is_empty(), "{}", err(&output));
    // Real ranks too.
    let words = [
        "perf",
        "latency",
        "--sizes",
        "8,64K",
        "--iterations",
        "3",
        "--rounds",
        "1",
    ];
    let output = home.limic(&words);
    assert!(
        output.status.success() && !err(&output).contains("profile"),
        "{}",
        err(&output)
    );

    // On another machine it says so, once for each process, and nothing fails.
    let foreign = profile.replace("cpus = \"", "cpus = \"9");
    std::fs::write(&path, foreign).unwrap();
    let output = home.limic(&words);
    assert!(output.status.success(), "{}", err(&output));
    let told = err(&output);
    assert!(
        told.contains("measured on another machine: cpus is '9"),
        "{told}"
    );
    assert_eq!(home.source(&[]), "built-in");

    std::fs::write(&path, "eager_max = [[[").unwrap();
    let output = home.limic(&words);
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("not TOML"), "{}", err(&output));
}

#[test]
fn each_distance_between_the_cpus_has_rows_of_its_own() {
    let home = Home::new();
    // Localities that have rows of the profile; the others have the built-in ones.
    let profiled = || {
        let output = home.limic(&["info", "--json"]);
        let info: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        let rows = info["thresholds"].as_array().unwrap().clone();
        let of_profile = rows.iter().filter(|row| row["source"] == "profile");
        let mut localities: Vec<String> = of_profile
            .map(|row| row["locality"].as_str().unwrap().to_owned())
            .collect();
        localities.sort();
        localities.dedup();
        localities
    };
    // Too short for figures that mean anything. What stands in for the measured hand-over makes the
    // CPUs near, then far.
    let tune = |nanoseconds| {
        let output = home.limic_with(
            &["tune", "--seconds", "1"],
            &[("LIMIC_LINE_LATENCY", nanoseconds)],
        );
        assert!(output.status.success(), "{}", err(&output));
        err(&output)
    };
    tune("30");
    assert_eq!(profiled(), ["shared-cache"]);
    let told = tune("180");
    assert!(
        told.contains("shared-cache were measured before, and stay"),
        "{told}"
    );
    let far = profiled();
    assert!(
        far.len() == 2 && far.contains(&"shared-cache".to_owned()),
        "{far:?}"
    );
}

#[test]
fn nothing_is_written_on_a_dry_run_or_without_a_place() {
    let home = Home::new();
    let output = home.limic(&["tune", "--seconds", "1", "--dry-run"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("nothing written; the profile would be"));
    assert!(!home.path().join("limic").exists());

    let nowhere = [("XDG_CONFIG_HOME", ""), ("HOME", "")];
    let output = home.limic_with(&["tune"], &nowhere);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("give --output FILE"),
        "{}",
        err(&output)
    );
    let output = home.limic_with(&["tune"], &[("PMI_FD", "9")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("run it without a launcher"),
        "{}",
        err(&output)
    );
}
