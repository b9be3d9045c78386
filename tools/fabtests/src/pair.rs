//! Runs a test as fabtests' script does, but with a limit on its time.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use limic_runner::timeout::{self, Ended};

use crate::exclude::NOT_OFFERED as NOT_OFFERED_LIST;
use crate::list::{Kind, Test};

/// The longest that a test may take, as in the script.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a server gets before its client starts, as in the script: it does not say when it
/// listens.
const HEAD_START: Duration = Duration::from_secs(1);
/// How long a server gets once its client has failed, as in the script.
const AFTER_CLIENT: Duration = Duration::from_secs(2);
/// The pause between two looks at a server.
const LOOK: Duration = Duration::from_millis(10);

/// The address of the server and the client.
const ADDRESS: &str = "127.0.0.1";

/// Exit codes by which a program says that the provider does not offer what it tests: `FI_ENODATA`,
/// `FI_ENOSYS`.
const NOT_OFFERED: [i32; 2] = [61, 38];

/// How many last lines of a program that failed are shown.
const LAST_LINES: usize = 8;

/// How a test went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// With the last lines of its programs.
    Failed(String),
    /// The provider does not offer what it tests.
    NotOffered,
    Excluded,
}

impl Verdict {
    /// The same, but a failure if it is not known that the provider does not offer what is tested,
    /// or if it offers it now.
    pub(crate) fn expected(self, not_offered: bool) -> Self {
        match self {
            Self::NotOffered if !not_offered => Self::Failed(format!(
                "not offered, and it does not stand in {NOT_OFFERED_LIST}"
            )),
            Self::Passed if not_offered => {
                Self::Failed(format!("offered, though it stands in {NOT_OFFERED_LIST}"))
            }
            other => other,
        }
    }
}

/// How tests are run.
pub(crate) struct Pairs {
    /// The folder of the tests' programs.
    pub(crate) programs: PathBuf,
    /// The folder of the provider.
    pub(crate) provider: PathBuf,
    /// The CPUs of the tests.
    pub(crate) cpus: Vec<usize>,
}

impl Pairs {
    /// Runs a test to its end.
    pub(crate) fn run(&self, test: &Test) -> Verdict {
        match test.kind {
            Kind::Alone => {
                let ended = timeout::run(self.command(test, &[]), &self.cpus, LIMIT);
                judge(&[("it", &ended)])
            }
            Kind::Negative => {
                let ended = timeout::run(self.command(test, &[]), &self.cpus, LIMIT);
                if ended.code == Some(NOT_OFFERED[0]) {
                    Verdict::Passed
                } else {
                    Verdict::Failed(last_lines("it", &ended))
                }
            }
            Kind::Pair => self.pair(test),
        }
    }

    fn pair(&self, test: &Test) -> Verdict {
        let server = self.command(test, &["-s", ADDRESS]);
        let mut server = match timeout::start(server, &self.cpus, LIMIT) {
            Ok(server) => server,
            Err(why) => return Verdict::Failed(format!("the server cannot be started: {why}")),
        };
        thread::sleep(HEAD_START);
        let client = self.command(test, &["-s", ADDRESS, ADDRESS]);
        let client = timeout::run(client, &self.cpus, LIMIT);
        let begin = Instant::now();
        while client.failure.is_some() && !server.ended() && begin.elapsed() < AFTER_CLIENT {
            thread::sleep(LOOK);
        }
        let server = if client.failure.is_some() && !server.ended() {
            server.kill()
        } else {
            server.wait()
        };
        judge(&[("server", &server), ("client", &client)])
    }

    fn command(&self, test: &Test, addresses: &[&str]) -> Command {
        let words = test.words.replace("GOOD_ADDR", ADDRESS);
        let words = words.replace("SERVER_ADDR", ADDRESS);
        let mut words = words.split_whitespace();
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(self.programs.join(program));
        command
            .args(words)
            .args(["-p", "limic"])
            .args(addresses)
            .env("FI_PROVIDER", "limic")
            .env("FI_PROVIDER_PATH", &self.provider);
        command
    }
}

/// Judges the ends of a test's programs. A server that misses something may have gone before its
/// client looks for it, so the two need not miss the same.
fn judge(programs: &[(&str, &Ended)]) -> Verdict {
    let mut codes = programs.iter().map(|(_, ended)| ended.code);
    if codes.clone().all(|code| code == Some(0)) {
        return Verdict::Passed;
    }
    if codes.all(|code| code.is_some_and(|code| NOT_OFFERED.contains(&code))) {
        return Verdict::NotOffered;
    }
    let lines = programs.iter().map(|(who, ended)| last_lines(who, ended));
    Verdict::Failed(lines.collect::<Vec<_>>().join("\n"))
}

/// How a program ended, with its last lines.
fn last_lines(who: &str, ended: &Ended) -> String {
    let how = ended.failure.as_deref().unwrap_or("ended well");
    let lines: Vec<&str> = ended.out.lines().chain(ended.err.lines()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let mut text = format!("{who}: {how}");
    for line in last {
        text.push_str("\n    ");
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("echo said; exit {code}")]);
        let cpus = limic_runner::cpus::allowed().expect("an affinity");
        timeout::run(command, &cpus, LIMIT)
    }

    #[test]
    fn what_is_not_offered_is_known_and_nothing_else() {
        use Verdict::{Excluded, Failed, NotOffered, Passed};
        assert_eq!(Passed.expected(false), Passed);
        assert_eq!(NotOffered.expected(true), NotOffered);
        assert_eq!(Excluded.expected(false), Excluded);
        assert!(matches!(Passed.expected(true), Failed(_)));
        assert!(matches!(NotOffered.expected(false), Failed(_)));
        let failed = || Failed("it crashed".to_owned());
        assert_eq!(failed().expected(true), failed());
    }

    #[test]
    fn both_programs_have_to_say_that_something_is_not_offered() {
        let (good, bad) = (ended(0), ended(1));
        let (no_data, no_call) = (ended(61), ended(38));
        let judge = |server, client| judge(&[("server", server), ("client", client)]);
        assert_eq!(judge(&good, &good), Verdict::Passed);
        assert_eq!(judge(&no_data, &no_data), Verdict::NotOffered);
        assert_eq!(judge(&no_call, &no_data), Verdict::NotOffered);
        assert!(matches!(judge(&no_data, &good), Verdict::Failed(_)));
        let Verdict::Failed(lines) = judge(&good, &bad) else {
            panic!("a client failed");
        };
        let expected = "server: ended well\n    said\nclient: exit status: 1\n    said";
        assert_eq!(lines, expected);
    }
}
