//! Results in the words of Rust's test harness, which people and the tally read.

use std::time::Duration;

use crate::tally::Tally;

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// With the reason.
    Failed(String),
}

/// The results of one program.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    tally: &'a mut Tally,
    program: &'a str,
    passed: usize,
    failed: Vec<String>,
    /// Names and outputs of passed tests that say that they could not run.
    skipped: Vec<(String, String)>,
}

impl<'a> Report<'a> {
    pub(crate) fn begin(program: &'a str, tests: usize, tally: &'a mut Tally) -> Self {
        println!("\nrunning {tests} tests of {program} in a guest");
        Self {
            tally,
            program,
            passed: 0,
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// One test is over. `console` is what the kernel said meanwhile.
    pub(crate) fn test(
        &mut self,
        name: &str,
        outcome: Outcome,
        took: Duration,
        output: &str,
        console: &[String],
    ) {
        let name = format!("{}::{name}", self.program);
        let seconds = took.as_secs_f64();
        match outcome {
            Outcome::Passed => {
                println!("test {name} ... ok <{seconds:.1} s>");
                // What a test measured is worth reading, and marked by it. The first such line may stand behind the test's name.
                for (_, told) in output
                    .lines()
                    .filter_map(|line| line.split_once("REPORT: "))
                {
                    println!("    {told}");
                }
                if output.contains("SKIPPED: ") {
                    self.skipped.push((name.clone(), output.to_owned()));
                }
                self.passed += 1;
            }
            Outcome::Failed(why) => {
                println!("test {name} ... FAILED <{seconds:.1} s>: {why}");
                println!("---- {name} output ----\n{}", output.trim_end());
                println!("---- {name} console ----\n{}\n----", console.join("\n"));
                self.failed.push(name);
            }
        }
    }

    /// All tests are over; returns how many failed.
    pub(crate) fn end(self, took: Duration) -> usize {
        let mut lines = Vec::new();
        if !self.skipped.is_empty() {
            lines.push("\nsuccesses:\n".to_owned());
        }
        for (name, output) in &self.skipped {
            lines.push(format!("---- {name} stdout ----"));
            lines.extend(
                output
                    .lines()
                    .filter(|line| line.contains("SKIPPED: "))
                    .map(str::to_owned),
            );
        }
        if !self.failed.is_empty() {
            lines.push("\nfailures:".to_owned());
            lines.extend(self.failed.iter().map(|name| format!("    {name}")));
        }
        let verdict = if self.failed.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        lines.push(format!(
            "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s",
            self.passed,
            self.failed.len(),
            took.as_secs_f64()
        ));
        for line in lines.iter().flat_map(|line| line.lines()) {
            println!("{line}");
            self.tally.read(line);
        }
        self.failed.len()
    }
}
