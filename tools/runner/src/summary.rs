//! Counts what test programs report.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::folders::target;
use crate::{Failure, Job, console};

/// The variable that names the file for the summary of a program that another one has started.
const FILE: &str = "XTASK_SUMMARY";

/// Results of all tests that ran.
///
/// A test that finds that it cannot run here prints `SKIPPED: reason` and returns; to its harness
/// it has passed. Here it counts as skipped.
///
/// ```
/// let mut summary = limic_runner::Summary::default();
/// summary.read("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
/// summary.pass();
/// assert_eq!(summary.sums(0), "4 passed, 0 failed, 1 skipped");
/// ```
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    passed: usize,
    failed: usize,
    /// Tests that their harness left out.
    ignored: usize,
    /// Reasons of the tests that skipped themselves.
    skipped: Vec<String>,
    /// Why the program that counted these failed.
    #[serde(default)]
    failure: Option<String>,
    #[serde(skip)]
    section: Section,
    /// Tests of the running test program that were counted as skipped.
    #[serde(skip)]
    seen: HashSet<String>,
}

/// Where in the output of a test program.
#[derive(Debug, Default, PartialEq)]
enum Section {
    #[default]
    Running,
    /// In the output of the named test.
    Output(String),
}

impl Summary {
    /// Runs checks and reports what they counted, also if one of them failed.
    ///
    /// # Errors
    /// That of the checks.
    pub fn of(checks: impl FnOnce(&mut Self) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut summary = Self::default();
        let result = checks(&mut summary);
        summary.failure = result.as_ref().err().map(ToString::to_string);
        summary.report(usize::from(result.is_err()));
        result
    }

    /// Runs another program of this workspace that reports by [`Self::report`], and adds what it
    /// counted.
    ///
    /// # Errors
    /// If the program fails: what it says of its failure.
    pub fn include(&mut self, program: Job) -> Result<(), Failure> {
        let name = format!("summary-{}.json", std::process::id());
        let file = target().join(name);
        let command = program.shown().to_owned();
        let mut result = program.env(FILE, &file).run();
        // A program that broke down before its end has written nothing, and has failed.
        if let Ok(text) = std::fs::read(&file)
            && let Ok(counted) = serde_json::from_slice::<Self>(&text)
        {
            self.passed += counted.passed;
            self.failed += counted.failed;
            self.ignored += counted.ignored;
            self.skipped.extend(counted.skipped);
            if let (Err(failure), Some(why)) = (&mut result, counted.failure) {
                *failure = Failure::Told { command, why };
            }
        }
        let _ = std::fs::remove_file(&file);
        result
    }

    /// Takes in one line of a test program's output, without colour codes.
    pub fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(result) = line.strip_prefix("test result: ") {
            self.take_result(result);
        } else if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.section = Section::Output(name.to_owned());
        } else if line == "successes:" || line == "failures:" {
            self.section = Section::Running;
        } else if let Some((_, reason)) = line.split_once("SKIPPED: ") {
            self.skip(reason);
        }
    }

    /// Counts a check that passed outside of a test harness.
    pub fn pass(&mut self) {
        self.passed += 1;
    }

    /// Counts a check that could not run, and says so.
    pub fn skip_check(&mut self, reason: &str) {
        console::skipped(&reason);
        self.skipped.push(reason.to_owned());
    }

    fn skip(&mut self, reason: &str) {
        // Several lines of one test are one skip. A line that bypassed the harness names no test.
        let (name, key) = match &self.section {
            Section::Output(name) => (format!("{name}: "), name.clone()),
            Section::Running => (String::new(), reason.to_owned()),
        };
        if self.seen.insert(key) {
            self.skipped.push(format!("{name}{reason}"));
        }
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`
    fn take_result(&mut self, result: &str) {
        let count = |what: &str| -> usize {
            let mut parts = result.split([';', '.']);
            parts
                .find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok())
                .unwrap_or(0)
        };
        // A test may run its own program again for one function of it, which is no result of the
        // suite. A check that runs a part of the tests runs many.
        let ran = count("passed") + count("failed") + count("ignored");
        if ran <= 1 && count("filtered out") > 0 {
            return;
        }
        self.passed += count("passed").saturating_sub(self.seen.len());
        self.failed += count("failed");
        self.ignored += count("ignored");
        self.seen.clear();
        self.section = Section::Running;
    }

    /// Prints the skips and, alone on the last line, the sums. A program that another one has
    /// started leaves that to the other one.
    ///
    /// A step that failed without a failed test counts as one failed test.
    pub fn report(&self, failed_steps: usize) {
        if let Some(file) = std::env::var_os(FILE) {
            let written = serde_json::to_vec(self)
                .map_err(std::io::Error::from)
                .and_then(|text| std::fs::write(file, text));
            if let Err(why) = written {
                console::error(&format_args!("the results are not counted: {why}"));
            }
            return;
        }
        if !self.skipped.is_empty() {
            println!("\nSkipped here:");
            for reason in &self.skipped {
                println!("  {reason}");
            }
        }
        println!("\n{}", self.sums(failed_steps));
    }

    /// `3 passed, 0 failed, 1 skipped`
    #[must_use]
    pub fn sums(&self, failed_steps: usize) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.max(failed_steps),
            self.ignored + self.skipped.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(output: &str) -> String {
        let mut summary = Summary::default();
        output.lines().for_each(|line| summary.read(line));
        summary.sums(0)
    }

    #[test]
    fn results_add_up_and_skips_are_taken_out_of_the_passed() {
        let output = "\
running 3 tests
successes:

---- a stdout ----
SKIPPED: no hwloc
SKIPPED: no sysfs either

---- b stdout ----
fine

successes:
    a
    b

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
SKIPPED: one_more: no Yama
test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(sums(output), "5 passed, 2 failed, 3 skipped");
    }

    #[test]
    fn a_test_that_runs_itself_again_counts_once() {
        let output = "\
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 8 filtered out; finished in 0.10s
test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s
";
        assert_eq!(sums(output), "9 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn a_part_of_the_tests_counts() {
        let output = "\
test result: ok. 30 passed; 0 failed; 1 ignored; 0 measured; 8 filtered out; finished in 0.10s
";
        assert_eq!(sums(output), "30 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn results_of_another_program_are_added() {
        let counted = r#"{"passed": 2, "failed": 1, "ignored": 0, "skipped": ["no hwloc"],
            "failure": "no room"}"#;
        let script = format!("echo '{counted}' > \"$XTASK_SUMMARY\"; exit 3");
        let mut summary = Summary::default();
        summary.pass();
        let result = summary.include(Job::new("sh", 1).args(["-c", &script]));
        let why = result.expect_err("it ended with status 3").to_string();
        assert!(why.ends_with(" failed: no room"), "{why}");
        assert_eq!(summary.sums(1), "3 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_failed_step_never_reads_as_success() {
        assert_eq!(Summary::default().sums(1), "0 passed, 1 failed, 0 skipped");
    }
}
