//! How a test went, by the ends of its processes and what they printed.

use std::fmt;

use limic_runner::timeout::Ended;

use crate::exclude::NOT_OFFERED as NOT_OFFERED_LIST;

/// Exit codes by which a program says that the provider does not offer what it tests: `FI_ENODATA`,
/// `FI_ENOSYS`. Some programs end with the negative number.
pub(crate) const NOT_OFFERED: [i32; 4] = [61, 38, 256 - 61, 256 - 38];

/// How many last lines of a program that failed are shown.
const LAST_LINES: usize = 8;

/// How a test went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// With the last lines of its programs.
    Failed(String),
    /// A program did not end within its time, and none crashed. With their last lines.
    NoResult(String),
    /// The provider does not offer what it tests.
    NotOffered,
    Excluded,
    Cases(Cases),
}

/// How the cases of a test went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cases {
    pub(crate) passed: usize,
    pub(crate) not_offered: usize,
    /// What was tested where it failed, and how: `unit, sendv: Input/output error`.
    pub(crate) failed: Vec<String>,
    /// The same, of those that are known to fail by no fault of the provider.
    pub(crate) known: Vec<String>,
    /// How many ran in programs that have not counted them, since one of them crashed or hung.
    pub(crate) no_result: usize,
    /// Which these are, and the last lines of their programs.
    pub(crate) lost: Vec<String>,
}

impl fmt::Display for Cases {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            not_offered,
            failed,
            known,
            no_result,
            lost: _,
        } = self;
        let (failed, excluded) = (failed.len(), known.len());
        write!(
            text,
            "{passed} cases passed, {failed} failed, {no_result} without a result, {not_offered} \
             not offered, {excluded} excluded"
        )
    }
}

impl Verdict {
    /// The same, but a failure if it is not known that the provider does not offer what is tested,
    /// or if it offers it now. Of a test with cases, it is known that some are not offered.
    pub(crate) fn expected(self, not_offered: bool) -> Self {
        let unknown = format!("not offered, and it does not stand in {NOT_OFFERED_LIST}");
        let offered = format!("offered, though it stands in {NOT_OFFERED_LIST}");
        match self {
            Self::NotOffered if !not_offered => Self::Failed(unknown),
            Self::Passed if not_offered => Self::Failed(offered),
            Self::Cases(cases) if cases.not_offered > 0 && !not_offered => {
                Self::Failed(format!("{} cases are {unknown}", cases.not_offered))
            }
            Self::Cases(cases) if cases.not_offered + cases.no_result == 0 && not_offered => {
                Self::Failed(format!("all cases are {offered}"))
            }
            other => other,
        }
    }

    /// Judges the ends of a test's programs. If the first misses something, it has gone before the
    /// others look for it, and some of them fail with codes of their own then. None may crash or
    /// hang.
    pub(crate) fn of(programs: &[(String, Ended)]) -> Self {
        let mut all = programs.iter().map(|(_, ended)| ended);
        if all.clone().all(|ended| ended.code == Some(0)) {
            return Self::Passed;
        }
        let first = programs.first().and_then(|(_, ended)| ended.code);
        let is_missing = first.is_some_and(|code| NOT_OFFERED.contains(&code));
        if is_missing && all.all(|ended| ended.code.is_some_and(|code| code != 0)) {
            return Self::NotOffered;
        }
        Self::failed(programs)
    }

    /// A failure or no result, with how the programs ended.
    pub(crate) fn failed(programs: &[(String, Ended)]) -> Self {
        let lines = lines_of(programs);
        // One that loses another one, since its time is over, may end before its own is.
        let hung = programs.iter().any(|(_, ended)| ended.hung);
        let crashed = |ended: &Ended| ended.code.is_none() && !ended.hung;
        if hung && !programs.iter().any(|(_, ended)| crashed(ended)) {
            Self::NoResult(lines)
        } else {
            Self::Failed(lines)
        }
    }
}

impl Cases {
    /// The cases that a client has counted, and how many there are in its list. Its exit code does
    /// not show each case that is wrong; a client that ended early has not counted. A server that
    /// crashed, or did not count either, is one more that failed.
    pub(crate) fn counted(programs: &[(String, Ended)]) -> Option<(Self, usize)> {
        let out = programs.last().map_or("", |(_, ended)| &ended.out);
        let count_of = |kind| count(out, kind);
        let [no_call, io, error] = ["ENOSYS", "EIO", "ERROR"].map(count_of);
        let mut failed: Vec<String> = failed_cases(out).collect();
        // A case whose server is gone ends without a word.
        let counted = (no_call? + io? + error?).max(failed.len());
        failed.resize(counted, "a case: it did not end".to_owned());
        if let Some((who, server)) = programs.first()
            && let Some(how) = &server.failure
            // The exit code of one that counted says which kinds of cases there were.
            && (server.code.is_none() || count(&server.out, "Success").is_none())
        {
            failed.push(format!("{who}: {how}"));
        }
        let cases = Self {
            passed: count_of("Success")?,
            not_offered: count_of("ENODATA")?,
            failed,
            ..Self::default()
        };
        Some((cases, count_of("Test configurations loaded")?))
    }

    /// The cases from one to another, whose programs have not counted them.
    pub(crate) fn lost(first: usize, last: usize, programs: &[(String, Ended)]) -> Self {
        Self {
            no_result: last + 1 - first,
            lost: vec![format!("cases {first} to {last}: {}", lines_of(programs))],
            ..Self::default()
        }
    }

    /// Adds other cases of the same list.
    pub(crate) fn add(&mut self, others: Self) {
        self.passed += others.passed;
        self.not_offered += others.not_offered;
        self.failed.extend(others.failed);
        self.known.extend(others.known);
        self.no_result += others.no_result;
        self.lost.extend(others.lost);
    }
}

/// How many cases of a kind a program has counted.
fn count(out: &str, kind: &str) -> Option<usize> {
    let mut lines = out.lines().filter_map(|line| line.split_once(':'));
    let (_, count) = lines.find(|(what, _)| what.trim() == kind)?;
    count.trim().parse().ok()
}

/// The cases that failed, each as what it tested and how it ended: `unit, sendv: Input/output
/// error`. The client says what it tests as `[limic, unit, sendv--, FI_EP_RDM, ...]`.
fn failed_cases(out: &str) -> impl Iterator<Item = String> {
    let mut tested = "?";
    out.lines().filter_map(move |line| {
        if line.starts_with("Starting") {
            tested = "?";
        } else if let Some((_, words)) = line.strip_prefix('[').and_then(|it| it.split_once(", ")) {
            tested = words.split("--").next().unwrap_or(words);
        }
        let (_, result) = line.split_once("result: ")?;
        let failed = !matches!(result, "Success" | "No data available");
        failed.then(|| format!("{tested}: {result}"))
    })
}

/// How the programs of a test ended, with their last lines.
fn lines_of(programs: &[(String, Ended)]) -> String {
    let lines = programs.iter().map(|(who, ended)| last_lines(who, ended));
    lines.collect::<Vec<_>>().join("\n")
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
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use limic_runner::timeout;

    fn ended(script: &str) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let cpus = limic_runner::cpus::allowed().expect("an affinity");
        timeout::run(command, &cpus, Duration::from_secs(120))
    }

    fn pair(server: &str, client: &str) -> [(String, Ended); 2] {
        [("server", server), ("client", client)]
            .map(|(who, script)| (who.to_owned(), ended(script)))
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
    fn the_first_program_has_to_say_that_something_is_not_offered() {
        let judge = |server, client| Verdict::of(&pair(server, client));
        assert_eq!(judge("exit 0", "exit 0"), Verdict::Passed);
        assert_eq!(judge("exit 61", "exit 61"), Verdict::NotOffered);
        assert_eq!(judge("exit 38", "exit 61"), Verdict::NotOffered);
        assert_eq!(judge("exit 61", "exit 107"), Verdict::NotOffered);
        assert!(matches!(judge("exit 107", "exit 61"), Verdict::Failed(_)));
        assert!(matches!(judge("exit 61", "exit 0"), Verdict::Failed(_)));
        let crashed = judge("exit 61", "kill -SEGV $$");
        assert!(matches!(crashed, Verdict::Failed(_)));
        let Verdict::Failed(lines) = judge("echo said", "echo said; exit 1") else {
            panic!("a client failed");
        };
        let expected = "server: ended well\n    said\nclient: exit status: 1\n    said";
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_test_that_hangs_has_no_result() {
        let hung = || {
            let mut command = Command::new("/bin/sleep");
            command.arg("1000");
            let cpus = limic_runner::cpus::allowed().expect("an affinity");
            let ended = timeout::run(command, &cpus, Duration::from_millis(100));
            ("server".to_owned(), ended)
        };
        let beside = |script| [hung(), ("client".to_owned(), ended(script))];
        for script in ["exit 0", "exit 61", "exit 107"] {
            let verdict = Verdict::of(&beside(script));
            assert!(matches!(verdict, Verdict::NoResult(_)), "{script}");
            assert!(matches!(verdict.expected(true), Verdict::NoResult(_)));
        }
        let crashed = Verdict::of(&beside("kill -SEGV $$"));
        assert!(matches!(crashed, Verdict::Failed(_)));

        let mut all = Cases::lost(101, 200, &beside("exit 107"));
        all.add(Cases::lost(201, 210, &beside("exit 107")));
        assert_eq!(all.no_result, 110);
        assert!(all.lost[1].starts_with("cases 201 to 210: server: hung"));
    }

    #[test]
    fn cases_are_those_that_the_client_counts() {
        let script = "echo 'Test configurations loaded: 9'; \
            echo '[limic, unit, sendv--, FI_EP_RDM]'; \
            echo 'Ending test 3 / 9, result: Input/output error'; \
            echo 'Starting test 4 / 9:'; echo 'Ending test 4, result: No data available'; \
            echo 'Starting test 5 / 9:'; echo '[limic, unit, send--, FI_EP_RDM]'; \
            echo 'Ending test 5 / 9, result: Bad address'; echo 'Success: 5'; \
            echo 'Skipped: 1'; echo 'ENODATA: 1'; echo 'ENOSYS : 0'; echo 'EIO    : 1'; \
            echo 'ERROR  : 2'; exit 61";
        let cases = || Cases {
            passed: 5,
            not_offered: 1,
            failed: [
                "unit, sendv: Input/output error",
                "unit, send: Bad address",
                "a case: it did not end",
            ]
            .map(str::to_owned)
            .into(),
            ..Cases::default()
        };
        let counted = |client: &str| Cases::counted(&pair("exit 0", client));
        assert_eq!(counted(script), Some((cases(), 9)));
        assert_eq!(counted("echo 'Success: 5'"), None);
        // The exit code of a server that has counted says no more than the client's counts.
        let counted = Cases::counted(&pair("echo 'Success: 5'; exit 61", script));
        assert_eq!(counted, Some((cases(), 9)));
        let crash = "kill -SEGV $$";
        let at_the_end = format!("echo 'Success: 5'; {crash}");
        for (server, how) in [
            (crash, "server: signal: 11"),
            (&at_the_end, "server: signal: 11"),
            ("exit 61", "server: exit status: 61"),
        ] {
            let (cases_and_server, _) = Cases::counted(&pair(server, script)).expect("counts");
            assert_eq!(cases_and_server.failed[..3], cases().failed[..]);
            assert!(cases_and_server.failed[3].starts_with(how), "{server}");
        }
        assert_eq!(
            Verdict::Cases(cases()).expected(true),
            Verdict::Cases(cases())
        );
        assert!(matches!(
            Verdict::Cases(cases()).expected(false),
            Verdict::Failed(_)
        ));
    }
}
