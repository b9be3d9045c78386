//! Results in the words of Rust's test harness, which people and [`Summary`] read.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use limic_runner::Summary;

/// The outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The reason.
    Failed(String),
}

/// The results of one program. Programs run side by side, so that each test is reported as a whole.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// Its lock also protects the standard output.
    summary: &'a Mutex<&'a mut Summary>,
    program: &'a str,
    begin: Instant,
    passed: usize,
    failed: Vec<String>,
    /// Names and outputs of passed tests that say that they could not run.
    skipped: Vec<(String, String)>,
}

/// The sums of a program.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) program: String,
    /// Tests that ran.
    pub(crate) tests: usize,
    pub(crate) failed: usize,
    pub(crate) took: Duration,
}

impl<'a> Report<'a> {
    pub(crate) fn new(program: &'a str, summary: &'a Mutex<&'a mut Summary>) -> Self {
        Self {
            summary,
            program,
            begin: Instant::now(),
            passed: 0,
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// This number of tests is going to run.
    pub(crate) fn begin(&mut self, tests: usize) {
        self.print(&format!(
            "\nrunning {tests} tests of {} in a guest\n",
            self.program
        ));
    }

    /// One test is over. `console` has the messages of the kernel meanwhile.
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
        let mut text = String::new();
        match outcome {
            Outcome::Passed => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "test {name} ... ok <{seconds:.1} s>");
                // A test marks its measurements. The first such line may stand behind its name.
                for (_, told) in output
                    .lines()
                    .filter_map(|line| line.split_once("REPORT: "))
                {
                    let _ = writeln!(text, "    {told}");
                }
                if output.contains("SKIPPED: ") {
                    self.skipped.push((name, output.to_owned()));
                }
                self.passed += 1;
            }
            Outcome::Failed(why) => {
                let _ = write!(
                    text,
                    "test {name} ... FAILED <{seconds:.1} s>: {why}\n\
                     ---- {name} output ----\n{}\n\
                     ---- {name} console ----\n{}\n----\n",
                    output.trim_end(),
                    console.join("\n")
                );
                self.failed.push(name);
            }
        }
        self.print(&text);
    }

    /// No test can run any more, for this reason, which counts as a failed test.
    pub(crate) fn broken(&mut self, why: &str) {
        self.print(&format!("{} could not go on: {why}\n", self.program));
        self.failed.push(format!("{} (broken off)", self.program));
    }

    /// All tests are over.
    pub(crate) fn end(self) -> Sum {
        let took = self.begin.elapsed();
        let mut text = String::new();
        if !self.skipped.is_empty() {
            text.push_str("\nsuccesses:\n\n");
        }
        for (name, output) in &self.skipped {
            let _ = writeln!(text, "---- {name} stdout ----");
            for line in output.lines().filter(|line| line.contains("SKIPPED: ")) {
                let _ = writeln!(text, "{line}");
            }
        }
        if !self.failed.is_empty() {
            text.push_str("\nfailures:\n");
        }
        for name in &self.failed {
            let _ = writeln!(text, "    {name}");
        }
        let verdict = if self.failed.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        // With the program's name, because the tests above may be those of another program.
        let _ = writeln!(
            text,
            "\ntests of {}\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; \
             0 filtered out; finished in {:.2}s",
            self.program,
            self.passed,
            self.failed.len(),
            took.as_secs_f64()
        );
        let mut summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        print!("{text}");
        text.lines().for_each(|line| summary.read(line));
        drop(summary);
        Sum {
            program: self.program.to_owned(),
            tests: self.passed + self.failed.len(),
            failed: self.failed.len(),
            took,
        }
    }

    /// Prints without lines of another program in between.
    fn print(&self, text: &str) {
        let _printing = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        print!("{text}");
    }
}

/// The time of each program, the longest first, then their sum and the time side by side.
pub(crate) fn times(sums: &[Sum], took: Duration) -> String {
    let mut sorted: Vec<&Sum> = sums.iter().collect();
    sorted.sort_by_key(|sum| std::cmp::Reverse(sum.took));
    let mut text = String::from("\nseconds  tests  program\n");
    for sum in &sorted {
        let failed = match sum.failed {
            0 => String::new(),
            some => format!(" ({some} FAILED)"),
        };
        let _ = writeln!(
            text,
            "{:>7.1}  {:>5}  {}{failed}",
            sum.took.as_secs_f64(),
            sum.tests,
            sum.program
        );
    }
    let seconds: f64 = sums.iter().map(|sum| sum.took.as_secs_f64()).sum();
    let tests: usize = sums.iter().map(|sum| sum.tests).sum();
    let _ = writeln!(
        text,
        "{seconds:>7.1}  {tests:>5}  all of them; side by side they took {:.1} s",
        took.as_secs_f64()
    );
    text
}
