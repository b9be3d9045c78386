//! Runs a test as fabtests' script does, but with a limit on its time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use limic_runner::Failure;
use limic_runner::timeout::{self, Ended};

use crate::build::Built;
use crate::exclude::Patterns;
use crate::list::{Kind, Test};
use crate::verdict::{Cases, NOT_OFFERED, Verdict};

/// How long the first process gets before the others start, as in the script: it does not say when
/// it listens.
const HEAD_START: Duration = Duration::from_secs(1);
/// How long the first process gets once another one has failed, as in the script.
const AFTER_OTHERS: Duration = Duration::from_secs(2);
/// How many cases of a list one pair of programs runs. If one does not end, all have no result.
const CASES_AT_ONCE: usize = 100;
/// The pause between two looks at it.
const LOOK: Duration = Duration::from_millis(10);

/// The address of all processes.
const ADDRESS: &str = "127.0.0.1";

/// A provider that is tested.
pub(crate) struct Provider {
    /// Its name.
    pub(crate) name: String,
    /// The folder that it is loaded from, unless it is libfabric's own.
    pub(crate) folder: Option<PathBuf>,
}

/// How tests are run.
pub(crate) struct Processes<'a> {
    /// The programs, and their source.
    pub(crate) built: &'a Built,
    /// The CPUs of the tests.
    pub(crate) cpus: &'a [usize],
    pub(crate) provider: Provider,
    /// The longest that a test may take.
    pub(crate) limit: Duration,
    /// Tests that are left out, and cases that may fail.
    pub(crate) excluded: Patterns,
}

impl Processes<'_> {
    /// Runs a test to its end, unless it is left out.
    ///
    /// # Errors
    /// If its list of cases cannot be copied.
    pub(crate) fn run(&self, test: &Test) -> Result<Verdict, Failure> {
        if self.excludes(&test.words) {
            return Ok(Verdict::Excluded);
        }
        let named = || self.command(test, &["-p", &self.provider.name]);
        Ok(match test.kind {
            Kind::Alone => Verdict::of(&[self.alone(named())]),
            Kind::Negative => {
                let (who, ended) = self.alone(named());
                if ended.code == Some(NOT_OFFERED[0]) {
                    Verdict::Passed
                } else {
                    Verdict::failed(&[(who, ended)])
                }
            }
            Kind::Pair => {
                let (mut server, mut client) = (named(), named());
                server.args(["-s", ADDRESS]);
                client.args(["-s", ADDRESS, ADDRESS]);
                Verdict::of(&self.together(vec![server, client]))
            }
            Kind::Ranks(count) => {
                let rank = || {
                    let mut rank = named();
                    rank.args(["-n", &count.to_string(), "-s", ADDRESS]);
                    rank
                };
                let ranks = std::iter::repeat_with(rank).take(count);
                Verdict::of(&self.together(ranks.collect()))
            }
            Kind::Cases(cases) => self.cases(test, cases)?,
        })
    }

    fn alone(&self, command: Command) -> (String, Ended) {
        let ended = timeout::run(command, self.cpus, self.limit);
        ("it".to_owned(), ended)
    }

    /// Runs processes of which the first listens to the others, and returns them with their names.
    fn together(&self, commands: Vec<Command>) -> Vec<(String, Ended)> {
        let mut running = Vec::new();
        for (rank, command) in commands.into_iter().enumerate() {
            match timeout::start(command, self.cpus, self.limit) {
                Ok(process) => running.push(process),
                Err(why) => {
                    running.into_iter().for_each(|process| drop(process.kill()));
                    return vec![(format!("process {rank}"), Ended::not_started(&why))];
                }
            }
            if rank == 0 {
                thread::sleep(HEAD_START);
            }
        }
        let mut first = running.remove(0);
        let others: Vec<Ended> = running.into_iter().map(timeout::Running::wait).collect();
        let failed = others.iter().any(|other| other.failure.is_some());
        let hung = others.iter().any(|other| other.hung);
        let begin = Instant::now();
        while failed && !first.ended() && begin.elapsed() < AFTER_OTHERS {
            thread::sleep(LOOK);
        }
        let first = if failed && !first.ended() {
            // It hangs as well if another one did.
            Ended {
                hung,
                ..first.kill()
            }
        } else {
            first.wait()
        };
        let ended = std::iter::once(first).chain(others).enumerate();
        ended
            .map(|(number, ended)| (format!("process {number}"), ended))
            .collect()
    }

    /// Runs all cases of a list, some at a time: the programs keep the buffers of each until they
    /// end.
    fn cases(&self, test: &Test, list: &str) -> Result<Verdict, Failure> {
        let list = self.list(list)?;
        let mut all = Cases::default();
        let mut there = None;
        let mut first = 1;
        while there.is_none_or(|there| first <= there) {
            let last = first + CASES_AT_ONCE - 1;
            let server = self.command(test, &["-x", "-s", ADDRESS]);
            let mut client = self.command(test, &["-u"]);
            client.arg(&list).args(["-y", &first.to_string()]);
            client.args(["-z", &last.to_string(), ADDRESS]);
            let ended = self.together(vec![server, client]);
            match (Cases::counted(&ended), there) {
                (Some((cases, count)), _) => {
                    all.add(cases);
                    there = Some(count);
                }
                (None, Some(there)) => all.add(Cases::lost(first, last.min(there), &ended)),
                // How many there are is not known either.
                (None, None) => return Ok(Verdict::failed(&ended)),
            }
            first = last + 1;
        }
        let may_fail = |case: &String| self.excludes(&format!("{}: {case}", test.words));
        let (known, failed) = all.failed.into_iter().partition(may_fail);
        Ok(Verdict::Cases(Cases {
            failed,
            known,
            ..all
        }))
    }

    fn excludes(&self, test: &str) -> bool {
        self.excluded.hold(&self.built.version, test)
    }

    /// A copy of a list of cases that names this provider.
    fn list(&self, name: &str) -> Result<PathBuf, Failure> {
        let of_shm = self.built.source.join("test_configs/shm").join(name);
        let text =
            fs::read_to_string(&of_shm).map_err(|why| Failure::file("read", &of_shm, why))?;
        let text = text.replace(
            "prov_name: shm",
            &format!("prov_name: {}", self.provider.name),
        );
        let copy = self
            .built
            .programs
            .join(format!("{}-{name}", self.provider.name));
        fs::write(&copy, text).map_err(|why| Failure::file("write", &copy, why))?;
        Ok(copy)
    }

    fn command(&self, test: &Test, more: &[&str]) -> Command {
        let words = test.words.replace("GOOD_ADDR", ADDRESS);
        let words = words.replace("SERVER_ADDR", ADDRESS);
        let mut words = words.split_whitespace();
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(self.built.programs.join(program));
        // The list of cases is no argument by itself.
        if !matches!(test.kind, Kind::Cases(_)) {
            command.args(words);
        }
        command.args(more).env("FI_PROVIDER", &self.provider.name);
        if let Some(folder) = &self.provider.folder {
            command.env("FI_PROVIDER_PATH", folder);
        }
        if let Some(library) = &self.built.library {
            command.env("LD_LIBRARY_PATH", library);
        }
        command
    }
}
