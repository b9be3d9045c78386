//! Where the ranks come from: a launcher that is there already, or one that is started here.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::options::Ranks;
use super::{PerfError, notice};
use crate::run;

/// The variable by which a launcher shows that this process is one of its ranks.
pub(super) fn launcher() -> Option<&'static str> {
    // The same ones that limic::bootstrap looks at.
    ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE"]
        .into_iter()
        .find(|name| std::env::var_os(name).is_some())
}

/// Whether this process is rank 0, or no rank at all, as far as the environment tells.
pub(super) fn is_first_rank() -> bool {
    let mut variables = ["PMI_RANK", "PMI_ID", "PMIX_RANK"].iter();
    let rank = variables.find_map(std::env::var_os);
    rank.is_none_or(|rank| rank == "0")
}

/// The words of `limic run`, read by its own parser.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Launch {
    #[command(flatten)]
    run: run::Args,
}

/// Starts this same command as the ranks of a job, and gives the job's exit code.
pub(super) fn start(ranks: &Ranks) -> ExitCode {
    let mut words: Vec<OsString> = vec![
        "--ranks".into(),
        ranks.ranks.unwrap_or(2).to_string().into(),
    ];
    if ranks.bind || ranks.no_bind {
        words.push("--bind".into());
        words.push(if ranks.bind { "cpu" } else { "none" }.into());
    }
    words.push("--".into());
    // Still this program if its file was replaced in the meantime.
    words.push(std::env::current_exe().map_or_else(|_| "/proc/self/exe".into(), Into::into));
    words.extend(std::env::args_os().skip(1));
    match Launch::try_parse_from(words) {
        Ok(launch) => run::execute(&launch.run),
        Err(error) => {
            notice(format_args!("starting the ranks: {error}"));
            ExitCode::from(crate::BAD_USAGE)
        }
    }
}

/// The CPUs that this process may run on, ascending.
pub(super) fn allowed_cpus() -> Result<Vec<usize>, PerfError> {
    let set = sched_getaffinity(None).map_err(|errno| PerfError::System {
        step: "reading the CPU affinity",
        source: errno.into(),
    })?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Pins the calling thread to one CPU.
pub(super) fn pin(cpu: usize) -> Result<(), PerfError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| PerfError::System {
        step: "pinning to a CPU",
        source: errno.into(),
    })
}

/// Under somebody else's launcher: pins this rank, if that was asked for.
pub(super) fn bind_rank(ranks: &Ranks, rank: u32) -> Result<(), PerfError> {
    let cpus = allowed_cpus()?;
    // One CPU: the launcher has bound it already.
    if ranks.bind && cpus.len() > 1 {
        pin(cpus[rank as usize % cpus.len()])?;
    }
    Ok(())
}
