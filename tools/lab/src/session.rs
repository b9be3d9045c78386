//! The tests of one program, one after the other in a guest, or in two guests with a cable between
//! them.
//!
//! Each test is a process of its own. A guest that a test has brought down is replaced for the
//! tests that follow.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use limic_runner::Failure;

use super::Flavour;
use super::guest::{Guests, Heard};
use super::image::{Contents, Step, quoted};
use super::kernel::Kernel;
use super::machine::Machine;
use super::programs::Program;
use super::report::{Outcome, Report};

/// The step behind the tests of the debug image.
const LEAKS: &str = "kmemleak";

/// kmemleak does not report objects younger than five seconds. The second scan sees what a stale
/// pointer hid from the first one. A detector that has given up refuses both.
const SCAN: &str = "\
sleep 6
for time in 1 2; do
    echo scan > /sys/kernel/debug/kmemleak || { echo 'kmemleak does not scan'; exit 1; }
done
cat /sys/kernel/debug/kmemleak
! grep -q . /sys/kernel/debug/kmemleak
";

/// A program and the guests that run its tests.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    kernel: &'a Kernel,
    machine: Machine,
    contents: Contents,
    program: &'a Program,
    limit: Duration,
    /// By guest: exit statuses of tests that the other guest has not reached yet.
    early: Vec<VecDeque<i32>>,
}

/// Tests of this beginning take down their second guest, and the first one says whether they pass.
const SECOND_DIES: &str = "node_1_dies";

/// Tests of this beginning run the kernel's own faulty code, and pass only if KASAN reports it.
const KASAN_REPORTS: &str = "kasan_reports";
const KASAN_REPORT: &str = "BUG: KASAN";

/// The state of the test that runs.
#[derive(Debug)]
struct Running {
    /// Its place in the program.
    test: usize,
    since: Instant,
    /// By guest.
    output: Vec<Vec<u8>>,
    ended: Vec<Option<i32>>,
    /// Whether the second guest is to go down, and whether it has.
    second_dies: bool,
    died: bool,
    /// Whether KASAN is to report something, and whether it has.
    kasan_reports: bool,
    complained: bool,
    /// By guest: lines of the console before the test.
    said: Vec<usize>,
}

impl Running {
    /// A kernel complains, which ends the test unless it is expected.
    fn complaint(&mut self, guests: &mut Guests, number: usize, words: &str) -> Result<(), String> {
        if !(self.kasan_reports && words.starts_with(KASAN_REPORT)) {
            return Err(format!("the kernel of guest {number} says '{words}'"));
        }
        self.complained = true;
        guests.pardon(number);
        Ok(())
    }

    /// The outcome once all guests have ended the test.
    fn outcome(&self) -> Outcome {
        let statuses: Vec<i32> = self.ended.iter().copied().flatten().collect();
        match statuses[..] {
            [status] if status != 0 => Outcome::Failed(format!("exit status {status}")),
            _ if self.second_dies && !self.died => {
                Outcome::Failed("the second guest should have gone down".to_owned())
            }
            _ if self.kasan_reports && !self.complained => {
                Outcome::Failed("KASAN should have reported something".to_owned())
            }
            _ if statuses.iter().all(|status| *status == 0) => Outcome::Passed,
            _ => {
                let sides = statuses
                    .iter()
                    .enumerate()
                    .map(|(guest, status)| match status {
                        0 => format!("guest {guest} passed"),
                        status => format!("guest {guest}: exit status {status}"),
                    });
                Outcome::Failed(sides.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The output of the guests.
    fn text(&self) -> String {
        let texts = self.output.iter().map(|text| String::from_utf8_lossy(text));
        if self.output.len() == 1 {
            return texts.collect();
        }
        let numbered = texts.enumerate();
        numbered
            .map(|(guest, text)| format!("[guest {guest}]\n{text}\n"))
            .collect()
    }
}

impl<'a> Session<'a> {
    /// Guests of this kind for the program. Each of its tests is ended after `limit`.
    pub(crate) fn new(
        kernel: &'a Kernel,
        machine: Machine,
        contents: Contents,
        program: &'a Program,
        limit: Duration,
    ) -> Self {
        Self {
            kernel,
            machine,
            contents,
            program,
            limit,
            early: Vec::new(),
        }
    }

    /// Runs all tests.
    pub(crate) fn run(&mut self, report: &mut Report<'_>) -> Result<(), Failure> {
        let mut tests = self.program.tests.clone();
        if self.kernel.flavour == Flavour::Debug {
            tests.push(LEAKS.to_owned());
        }
        report.begin(tests.len());
        let mut next = 0;
        while next < tests.len() {
            // Each boot runs at least one test.
            next = self.boot(&tests, next, report)?;
        }
        Ok(())
    }

    /// Runs the tests from `first` on in new guests, until all are over or one has brought a guest
    /// down. Returns the first test that is still to be run.
    fn boot(
        &mut self,
        tests: &[String],
        first: usize,
        report: &mut Report<'_>,
    ) -> Result<usize, Failure> {
        self.contents.steps = (first..)
            .zip(&tests[first..])
            .map(|(number, test)| Step {
                name: step_name(number),
                script: self.script(test),
            })
            .collect();
        let count = self.program.guests();
        let mut guests = Guests::start(self.kernel, &self.machine, &self.contents, count)?;
        self.early = vec![VecDeque::new(); count];
        for (test, name) in (first..).zip(&tests[first..]) {
            let own_name = name.rsplit("::").next().unwrap_or(name);
            let mut running = Running {
                test,
                since: Instant::now(),
                output: vec![Vec::new(); count],
                ended: self.early.iter_mut().map(VecDeque::pop_front).collect(),
                second_dies: own_name.starts_with(SECOND_DIES),
                died: false,
                kasan_reports: own_name.starts_with(KASAN_REPORTS),
                complained: false,
                said: (0..count).map(|n| guests.console(n).len()).collect(),
            };
            let verdict = self.watch(&mut guests, &mut running, test == first);
            let brought_down = verdict.is_err() || running.died || running.complained;
            let outcome = match verdict {
                Ok(()) => running.outcome(),
                Err(why) => Outcome::Failed(why),
            };
            let console: Vec<String> = (0..count)
                .flat_map(|n| guests.console(n).iter().skip(running.said[n]).cloned())
                .collect();
            let took = running.since.elapsed();
            report.test(name, outcome, took, &running.text(), &console);
            if brought_down {
                return Ok(test + 1);
            }
        }
        Ok(tests.len())
    }

    /// Waits until all guests have ended the test, or says how one went down.
    fn watch(
        &mut self,
        guests: &mut Guests,
        running: &mut Running,
        boots: bool,
    ) -> Result<(), String> {
        let boot = if boots {
            Duration::from_secs(120)
        } else {
            Duration::ZERO
        };
        let deadline = Instant::now() + self.limit + boot;
        while running.ended.iter().any(Option::is_none) {
            match guests.next(deadline) {
                Heard::Output(number, _, bytes) => running.output[number].extend(bytes),
                Heard::Begin => {
                    if boots && running.output.iter().all(Vec::is_empty) {
                        running.since = Instant::now();
                    }
                }
                // Each guest goes on with its next test without waiting for the other guest.
                Heard::End(number, status) if running.ended[number].is_some() => {
                    self.early[number].push_back(status);
                }
                Heard::End(number, status) => running.ended[number] = Some(status),
                Heard::Died(1) if running.second_dies => {
                    running.ended[1] = Some(0);
                    running.died = true;
                }
                Heard::Complaint(number, words) => running.complaint(guests, number, &words)?,
                Heard::Died(number) => return Err(format!("guest {number} ended by itself")),
                Heard::Late => {
                    let late: Vec<String> = (0..running.ended.len())
                        .filter(|guest| running.ended[*guest].is_none())
                        .map(|guest| guest.to_string())
                        .collect();
                    let (late, limit) = (late.join(" and "), self.limit.as_secs());
                    return Err(format!("it hung for {limit} s (guest {late})"));
                }
            }
        }
        // A complaint just before the end belongs to this test too.
        while let Some((number, words)) = guests.complaint_in(&step_name(running.test)) {
            running.complaint(guests, number, &words)?;
        }
        Ok(())
    }

    fn script(&self, test: &str) -> String {
        if test == LEAKS {
            return SCAN.to_owned();
        }
        // A test may have unloaded the module.
        let load = "grep -q '^limic ' /proc/modules || \
                    for m in /lab/modules/*.ko; do [ -e \"$m\" ] && insmod \"$m\"; done\n";
        format!(
            "{load}exec {} {} --exact --nocapture --test-threads=1 --include-ignored\n",
            quoted(&self.program.path.to_string_lossy()),
            quoted(test)
        )
    }
}

/// The name of a test's step, by the test's place in the program: steps run in the order of their
/// names.
fn step_name(test: usize) -> String {
    format!("{test:05}")
}
