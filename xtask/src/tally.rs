//! Counts what test programs report.

use std::collections::HashSet;

use crate::console;

/// Results of all tests that ran.
///
/// A test that finds that it cannot run here prints `SKIPPED: reason` and returns; to its harness
/// it has passed. Here it counts as skipped.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    /// Tests that their harness left out.
    ignored: u64,
    /// Reasons of the tests that skipped themselves.
    skipped: Vec<String>,
    section: Section,
    /// Tests of the running test program that were counted as skipped.
    seen: HashSet<String>,
}

/// Where in the output of a test program.
#[derive(Debug, Default, PartialEq)]
enum Section {
    #[default]
    Running,
    /// In what the named test printed.
    Output(String),
}

impl Tally {
    /// Takes one line of output in, without colour codes.
    pub(crate) fn read(&mut self, line: &str) {
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
    pub(crate) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Counts a check that could not run, and says so.
    pub(crate) fn skip_check(&mut self, reason: &str) {
        console::skipped(&reason);
        self.skipped.push(reason.to_owned());
    }

    fn skip(&mut self, reason: &str) {
        // Several lines of one test are one skip. A line that bypassed the harness has no test's name.
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
        let count = |what: &str| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(what)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        // A test may run its own program again for one function of it; that is no result of the suite.
        if count("filtered out") > 0 {
            return;
        }
        let skipped = u64::try_from(self.seen.len()).unwrap_or(u64::MAX);
        self.passed += count("passed").saturating_sub(skipped);
        self.failed += count("failed");
        self.ignored += count("ignored");
        self.seen.clear();
        self.section = Section::Running;
    }

    /// Prints the skips and, alone on the last line, the sums. A step that failed without a failed
    /// test counts as one that failed.
    pub(crate) fn report(&self, failed_steps: usize) {
        if !self.skipped.is_empty() {
            println!("\nSkipped here:");
            for reason in &self.skipped {
                println!("  {reason}");
            }
        }
        println!("\n{}", self.sums(failed_steps));
    }

    fn sums(&self, failed_steps: usize) -> String {
        let steps = u64::try_from(failed_steps).unwrap_or(u64::MAX);
        let skipped = self.ignored + u64::try_from(self.skipped.len()).unwrap_or(u64::MAX);
        format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed,
            self.failed.max(steps),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(output: &str) -> String {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally.sums(0)
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
    fn a_failed_step_never_reads_as_success() {
        assert_eq!(Tally::default().sums(1), "0 passed, 1 failed, 0 skipped");
    }
}
