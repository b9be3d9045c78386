//! `cargo xtask lab test`: every guest test, each reported by its name.
//!
//! The tests are ordinary integration tests of the package `limic-lab`. One program is one boot, in which each of
//! its tests runs as a process of its own; a guest that a test has brought down is replaced for those behind it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clap::Args;

use super::guest::{Guests, Heard};
use super::image::{Contents, Step, quoted};
use super::kernel::{self, Kernel};
use super::machine::Machine;
use super::programs::{self, Program};
use super::report::{Outcome, Report};
use super::{Flavour, module, needs};
use crate::failure::Failure;
use crate::tally::Tally;

#[derive(Debug, Default, Args)]
pub(crate) struct TestArguments {
    #[command(flatten)]
    machine: Machine,
    /// When one test is ended, in seconds [default: 180, on the debug image 900]
    #[arg(long)]
    limit: Option<u64>,
    /// Run the tests whose name (`program::test`) holds this.
    filter: Option<String>,
}

/// The step behind the tests of the debug image.
const LEAKS: &str = "kmemleak";

/// Objects younger than five seconds are not reported; the second scan sees what a stale pointer hid from the first.
const SCAN: &str = "sleep 6; echo scan > /sys/kernel/debug/kmemleak; echo scan > /sys/kernel/debug/kmemleak\n\
                    cat /sys/kernel/debug/kmemleak; ! grep -q . /sys/kernel/debug/kmemleak\n";

pub(crate) fn run(arguments: &TestArguments, tally: &mut Tally) -> Result<(), Failure> {
    let flavour = arguments.machine.flavour.flavour();
    let kernel = kernel::build(flavour, false)?;
    needs::machine(true)?;
    let machine = Machine {
        rdma: true,
        ..arguments.machine.clone()
    };
    let module = module::build(&kernel)?;
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let programs = programs::build(filter)?;
    if programs.is_empty() {
        return Err(Failure::Wrong(format!(
            "no guest test has '{filter}' in its name"
        )));
    }
    let limit = arguments.limit.unwrap_or(match flavour {
        Flavour::Fast => 180,
        Flavour::Debug => 900,
    });
    let mut failed = 0;
    for program in &programs {
        let mut contents = machine.contents()?;
        // Tests of several processes have a watchdog of their own, which is for real machines.
        let inner = (limit.saturating_sub(30)).to_string();
        contents
            .environment
            .push(("LIMIC_TEST_LIMIT".to_owned(), inner));
        if program.guests() > 1 {
            programs::add_launchers(&mut contents);
        }
        contents.modules.extend(module.clone());
        contents.programs.push(program.path.clone());
        contents.programs.extend(programs::started());
        let mut session = Session {
            kernel: &kernel,
            machine: &machine,
            contents,
            program,
            limit: Duration::from_secs(limit),
            early: Vec::new(),
        };
        failed += session.run(tally)?;
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::Checks(format!("{failed} guest tests")))
    }
}

/// The tests of one program, and the guests that run them one after the other.
#[derive(Debug)]
struct Session<'a> {
    kernel: &'a Kernel,
    machine: &'a Machine,
    contents: Contents,
    program: &'a Program,
    limit: Duration,
    /// By guest: exit statuses of later tests than the one that the other guest is at.
    early: Vec<VecDeque<i32>>,
}

/// Tests of this beginning take down their second guest, and pass by what the first one says then.
const SECOND_DIES: &str = "node_1_dies";

/// What is known of the test that runs.
#[derive(Debug)]
struct Running {
    since: Instant,
    /// By guest.
    output: Vec<Vec<u8>>,
    ended: Vec<Option<i32>>,
    /// The second guest is to go down, and whether it has.
    second_dies: bool,
    died: bool,
    /// How much the consoles had said before.
    said: Vec<usize>,
}

impl Running {
    /// When all guests have ended the test.
    fn outcome(&self) -> Outcome {
        let statuses: Vec<i32> = self.ended.iter().copied().flatten().collect();
        match statuses[..] {
            [status] if status != 0 => Outcome::Failed(format!("exit status {status}")),
            _ if self.second_dies && !self.died => {
                Outcome::Failed("the second guest should have gone down".to_owned())
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

    /// What the guests printed.
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

impl Session<'_> {
    /// Runs all tests; returns how many failed.
    fn run(&mut self, tally: &mut Tally) -> Result<usize, Failure> {
        let start = Instant::now();
        let mut tests = self.program.tests.clone();
        if self.kernel.flavour == Flavour::Debug {
            tests.push(LEAKS.to_owned());
        }
        let mut report = Report::begin(&self.program.name, tests.len(), tally);
        let mut next = 0;
        while next < tests.len() {
            // Each boot gets at least one test further.
            next = self.boot(&tests, next, &mut report)?;
        }
        Ok(report.end(start.elapsed()))
    }

    /// Runs the tests from `first` on in a new guest, until all are over or one has brought the guest down. Returns
    /// the first test that is still to be run.
    fn boot(
        &mut self,
        tests: &[String],
        first: usize,
        report: &mut Report<'_>,
    ) -> Result<usize, Failure> {
        self.contents.steps = (first..)
            .zip(&tests[first..])
            .map(|(number, test)| Step {
                name: format!("{number:05}"),
                script: self.script(test),
            })
            .collect();
        let count = self.program.guests();
        let mut guests = Guests::start(self.kernel, self.machine, &self.contents, count)?;
        self.early = vec![VecDeque::new(); count];
        for (test, name) in (first..).zip(&tests[first..]) {
            let mut running = Running {
                since: Instant::now(),
                output: vec![Vec::new(); count],
                ended: self.early.iter_mut().map(VecDeque::pop_front).collect(),
                second_dies: name.starts_with(SECOND_DIES),
                died: false,
                said: (0..count).map(|n| guests.console(n).len()).collect(),
            };
            let verdict = self.watch(&mut guests, &mut running, test == first);
            let brought_down = verdict.is_err() || running.died;
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
                // Each guest goes on with its next test without waiting for the other one.
                Heard::End(number, status) if running.ended[number].is_some() => {
                    self.early[number].push_back(status);
                }
                Heard::End(number, status) => running.ended[number] = Some(status),
                Heard::Died(1) if running.second_dies => {
                    running.ended[1] = Some(0);
                    running.died = true;
                }
                Heard::Complaint(number, words) => {
                    return Err(format!("the kernel of guest {number} says '{words}'"));
                }
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
        Ok(())
    }

    fn script(&self, test: &str) -> String {
        if test == LEAKS {
            return SCAN.to_owned();
        }
        // A test may have unloaded the module.
        let load = "grep -q '^limic ' /proc/modules || for m in /lab/modules/*.ko; do [ -e \"$m\" ] && insmod \"$m\"; done\n";
        format!(
            "{load}exec {} {} --exact --nocapture --test-threads=1 --include-ignored\n",
            quoted(&self.program.path.to_string_lossy()),
            quoted(test)
        )
    }
}
