//! `limic info`: what this machine offers to limic, and why a message takes the path that it takes.

mod copies;
mod paths;
mod placement;
mod process;
mod text;
mod why;

use std::io::Write;
use std::process::ExitCode;

use copies::Copies;
use limic::settings::{Settings, Variable};
use limic::topology::Summary;
use limic_policy::{Locality, Row};
use paths::{NetworkState, PathState, Refusals};
use placement::Placement;

/// Say what this machine offers: topology, paths, memory, thresholds, settings
///
/// For each path that is off, it says exactly why and what to do. Of the settings it shows those
/// that somebody has set.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Say which path a message of SIZE bytes takes to a RECEIVER, and why
    #[arg(long, num_args = 2, value_names = ["RECEIVER", "SIZE"])]
    why: Option<Vec<String>>,

    #[command(flatten)]
    message: why::Message,

    /// Show the counters of a process that runs: what each of its endpoints has sent and received,
    /// by path, peer and size
    #[arg(long, value_name = "PID", conflicts_with = "why", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Show every row of the thresholds with its reason, and every setting with its meaning
    #[arg(long, conflicts_with_all = ["why", "pid"])]
    all: bool,

    /// Print one JSON object with all that there is
    #[arg(long, conflicts_with_all = ["why", "all"])]
    json: bool,
}

const AFTER_HELP: &str = "\
RECEIVER is self, same-process, shared-cache, same-package or other-package: an endpoint of this \
machine so far away; tcp, ofi or verbs: one that is reached over that network; or kernel: one \
whose messages the kernel module matches. SIZE is a number of bytes, with an optional suffix K, M \
or G.

--pid does not disturb the process, which may be stopped too. It has to be one's own, or one needs \
CAP_SYS_PTRACE. docs/counters.md in limic's sources describes what is shown.

Examples:
  limic info --why shared-cache 64K --slow-receiver
  limic info --why shared-cache 64K --peer-readable
  limic info --why tcp 1M --slices 3
  limic info --pid 4711

Exit code: 0, 1 if the process has no endpoint or cannot be looked into or if nothing can be \
written, or 2 for a bad command line or a LIMIC_ variable that makes no sense.";

/// Prints; errors too.
pub(crate) fn execute(args: &Args) -> ExitCode {
    match text(args) {
        Ok(text) => match std::io::stdout().lock().write_all(text.as_bytes()) {
            // A reader that has gone away has seen enough.
            Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
                let _unread = writeln!(std::io::stderr().lock(), "limic info: {why}");
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            let _unread = writeln!(std::io::stderr().lock(), "limic info: {error}");
            match error {
                InfoError::Process(_) => ExitCode::FAILURE,
                _ => ExitCode::from(crate::BAD_USAGE),
            }
        }
    }
}

/// Everything on the command line and in the environment that makes no sense.
#[derive(Debug, thiserror::Error)]
enum InfoError {
    #[error("{0}")]
    Settings(#[from] limic::settings::SettingsError),

    #[error("--why: {0}")]
    Why(#[from] why::WhyError),

    #[error("{0}")]
    Process(#[from] process::ProcessError),

    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

fn text(args: &Args) -> Result<String, InfoError> {
    if let Some(pid) = args.pid {
        // What the settings say here is of no account there.
        return Ok(process::text(pid, args.json)?);
    }
    let settings = Settings::from_environment()?;
    match args.why.as_deref() {
        Some([to, size]) => Ok(why::text(&settings, to, size, &args.message)?),
        _ => {
            let info = Info::of(&settings);
            if args.json {
                Ok(serde_json::to_string_pretty(&info)? + "\n")
            } else {
                Ok(info.text(args.all))
            }
        }
    }
}

/// What `limic info --json` prints.
#[derive(Debug, serde::Serialize)]
struct Info {
    limic: &'static str,
    topology: Summary,
    paths: Vec<PathState>,
    networks: Vec<NetworkState>,
    placement: Placement,
    copies: Copies,
    thresholds: Vec<Threshold>,
    settings: Vec<Variable>,
    warnings: Vec<String>,
}

/// A row of the policy table.
#[derive(Debug, serde::Serialize)]
struct Threshold {
    locality: Locality,
    when: &'static str,
    /// Longest message in bytes; `None` is no limit.
    up_to_bytes: Option<u64>,
    path: limic::settings::Path,
    source: String,
    reason: String,
}

impl Threshold {
    fn of(row: &Row) -> Self {
        Self {
            locality: row.locality,
            when: row.when.name(),
            up_to_bytes: (row.up_to_bytes != u64::MAX).then_some(row.up_to_bytes),
            path: row.path,
            source: row.source.to_string(),
            reason: row.reason.to_string(),
        }
    }
}

impl Info {
    fn of(settings: &Settings) -> Self {
        let refusals = Refusals::find_out();
        Self {
            limic: env!("CARGO_PKG_VERSION"),
            topology: Summary::current(),
            paths: paths::states(settings, &refusals),
            networks: paths::network_states(settings, &refusals),
            placement: Placement::try_out(settings),
            copies: Copies::choose(settings),
            thresholds: settings.policy().rows().iter().map(Threshold::of).collect(),
            settings: settings.variables(),
            warnings: settings.warnings().to_vec(),
        }
    }
}
