//! `limic run`: starts the ranks of a job and serves PMI-1 to them.
//!
//! The life of a job: [`binding`] picks CPUs, [`spawn`] starts the ranks, [`job`] waits on all of
//! their events in one thread ([`pmi_server`] answers their start-up over each rank's
//! [`connection`], [`output`] labels their lines, [`processes`] finds and ends what they leave
//! behind), and [`outcome`] makes the exit code. [`guard`] is there for the launcher's own end.
//!
//! On several [`hosts`] the launcher logs in to each and starts this command there, as a [`host`]
//! of the job, which does the same for its ranks but leaves PMI and every decision to the launcher.
//! What the two say to each other is in [`wire`].

mod binding;
mod connection;
pub(crate) mod guard;
pub(crate) mod host;
mod hosts;
mod job;
mod outcome;
mod output;
mod pmi_server;
mod processes;
mod spawn;
mod wire;

pub(crate) use spawn::end_with;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;

/// Most ranks that one launcher starts: each needs a process and up to four descriptors.
const MAX_RANKS: u32 = 4096;

/// Start a program as the ranks of a job, on this machine or on several
///
/// The ranks find each other through PMI-1, so limic programs run under it, and so do MPI programs
/// whose library speaks PMI-1 (MPICH and its relatives).
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", visible_alias = "np", value_name = "N",
          value_parser = parse_ranks)]
    ranks: u32,

    /// Bind ranks to CPUs: `cpu` gives rank i, with all its threads, the i-th CPU that this process
    /// may use, round robin; `none` leaves it to the kernel [default: cpu if there are enough CPUs
    /// for all ranks, else none]
    #[arg(long, value_enum)]
    bind: Option<binding::Policy>,

    /// Run on these hosts, with consecutive ranks on each, in equal numbers where possible.
    /// NAME:RANKS gives the most ranks for a host; hosts are filled in this order. A host that is
    /// named several times has as many shares
    #[arg(long, value_name = "NAME[:RANKS],...", value_delimiter = ',', value_parser = hosts::parse)]
    hosts: Vec<hosts::Host>,

    /// The command that logs in to a host: it is called with the host's name and one command line
    /// for the shell there
    #[arg(long, value_name = "COMMAND", default_value = job::SSH, requires = "hosts")]
    launcher: String,

    /// Begin each line that a rank prints with `[rank] `
    #[arg(short, long)]
    label: bool,

    /// Set an environment variable in all ranks; may be given again
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = parse_env)]
    env: Vec<(String, String)>,

    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,

    /// How long processes may take to end after SIGTERM, before SIGKILL
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    grace: Duration,

    /// Leave the other ranks running when one fails (an abort or a signal still ends the job)
    #[arg(long, visible_alias = "no-kill")]
    keep_going: bool,

    /// The program and its arguments; after `--` if its name begins with a hyphen
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Exit code: 0 if all ranks end with 0, else that of the first rank that failed, or of one that \
crashed while the job ended because another exited; 128 + the signal's number if a signal killed \
it; 124 after --timeout, 125 if the launcher itself failed, 126 if the program cannot be executed, \
127 if it is not found.

When a rank fails or aborts, all others get SIGTERM and, after --grace, SIGKILL. The job ends with \
its ranks: processes that they leave behind are ended as well. SIGINT, SIGTERM, SIGHUP, SIGQUIT, \
SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on to the ranks. A second SIGINT kills them; \
within half a second it counts as the first. If the launcher is killed, so are the ranks, and all \
processes that have LIMIC_JOB from them.

With --hosts, this command and the program have to be at the same places on all hosts, and ssh has \
to get there without a password. Ranks run in the directory that the launcher runs in, with its \
environment. Nothing listens for the launcher: all goes through ssh. The host that the launcher \
runs on needs no ssh.

Rank 0 reads the launcher's standard input, all others read nothing.

Ranks see PMI_FD, PMI_RANK, PMI_SIZE, LIMIC_LOCAL_RANK, LIMIC_LOCAL_SIZE and LIMIC_JOB, and unless \
it is set, FI_UNIVERSE_SIZE: the number of ranks, at least 64, by which libfabric asks for its \
queues. It counts endpoints: set it to ranks times endpoints of each where these are more.";

/// Runs the job; errors are printed.
pub(crate) fn execute(args: &Args) -> ExitCode {
    match job::run(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            notice(format_args!("{error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Why a job could not be run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(
        "{program}: not found; give a path, or a name in PATH (if the file is there, the \
         interpreter that its first line names is not)"
    )]
    NotFound { program: String },

    #[error("{program}: cannot be executed ({source}); is it a program with execute permission?")]
    NotExecutable {
        program: String,
        source: std::io::Error,
    },

    #[error("rank {rank} could not be started: {source}; see ulimit -u and the free memory")]
    Spawn { rank: u32, source: std::io::Error },

    #[error(
        "{count} {what} need {needed} open files, but at most {allowed} are allowed; raise \
         ulimit -Hn or start fewer"
    )]
    Descriptors {
        count: usize,
        what: &'static str,
        needed: u64,
        allowed: u64,
    },

    #[error("--hosts: {why}")]
    Hosts { why: String },

    #[error("{command}: cannot be started ({source}); --launcher names another program")]
    Launcher {
        command: String,
        source: std::io::Error,
    },

    #[error("{}: cannot be entered ({source}); ranks run in the launcher's own directory", .directory.display())]
    Directory {
        directory: PathBuf,
        source: std::io::Error,
    },

    #[error("--bind cpu: {source}; use --bind none")]
    Binding { source: std::io::Error },

    #[error("{step}: {source}")]
    System {
        step: &'static str,
        source: std::io::Error,
    },
}

impl RunError {
    /// The convention of env(1) and timeout(1).
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

/// How long a notice waits for its reader.
const NOTICE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Tells the user something. A standard error that nobody reads, for now or any more, is no reason
/// to fail or to wait for long: what the job needs is done before.
fn notice(text: std::fmt::Arguments<'_>) {
    let line = format!("limic run: {text}\n");
    let mut rest = line.as_bytes();
    let stderr = std::io::stderr();
    let own = output::own(&stderr);
    let fd = own.as_ref().map_or(stderr.as_fd(), AsFd::as_fd);
    while !rest.is_empty() {
        match output::write_piece(fd, rest, &NOTICE) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Names the step in which a system call failed.
fn system(step: &'static str) -> impl Fn(rustix::io::Errno) -> RunError {
    move |errno| RunError::System {
        step,
        source: errno.into(),
    }
}

fn parse_ranks(text: &str) -> Result<u32, String> {
    if text == "p" {
        return Err("-np reads as -n p: write -n N, or --np N".into());
    }
    let ranks: u64 = text.parse().map_err(|_| "expected a number of ranks")?;
    let allowed = u32::try_from(ranks).ok();
    allowed
        .filter(|ranks| (1..=MAX_RANKS).contains(ranks))
        .ok_or_else(|| format!("{ranks} is not in 1..={MAX_RANKS}"))
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    let duration = Duration::try_from_secs_f64(seconds).ok();
    // Beyond a year, sums of times could overflow, and nobody waits.
    let duration = duration.filter(|duration| duration.as_secs() < 366 * 24 * 3600);
    duration.ok_or_else(|| "expected 0 to 31 million seconds".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_fractions_but_not_be_absurd() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "soon", "-1", "nan", "inf", "1e30"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_need_a_name() {
        assert_eq!(parse_env("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(parse_env("A="), Ok(("A".into(), String::new())));
        assert!(parse_env("=b").is_err());
        assert!(parse_env("A").is_err());
    }
}
