//! This process among the ranks of a job, and the CPUs that it may use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::MeasureError;
use crate::control::Control;
use crate::options::{Grouping, Ranks};
use crate::outputs::Outputs;

/// The variable by which a launcher shows that this process is one of its ranks.
pub fn launcher() -> Option<&'static str> {
    // The same ones that limic::bootstrap looks at.
    ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE"]
        .into_iter()
        .find(|name| std::env::var_os(name).is_some())
}

/// Whether this process is rank 0, or no rank at all, as far as the environment tells.
pub fn is_first_rank() -> bool {
    let mut variables = ["PMI_RANK", "PMI_ID", "PMIX_RANK"].iter();
    let rank = variables.find_map(std::env::var_os);
    rank.is_none_or(|rank| rank == "0")
}

/// Whether this process is a rank. If it is none, it can start the job: what would stop the ranks
/// was looked at.
///
/// # Errors
/// An output cannot be written, or the environment's settings make no sense.
pub fn is_rank(outputs: &Outputs) -> Result<bool, MeasureError> {
    // Of a job's ranks, the first writes.
    if is_first_rank() {
        outputs.check()?;
    }
    if launcher().is_some() {
        return Ok(true);
    }
    limic::Settings::from_environment()?;
    Ok(false)
}

/// For what is no job of ranks, `what`.
///
/// # Errors
/// An output cannot be written, or a launcher has started this process.
pub fn alone(what: &str, outputs: &Outputs) -> Result<(), MeasureError> {
    outputs.check()?;
    match launcher() {
        Some(launcher) => Err(MeasureError::Usage(format!(
            "{what}, but {launcher} is set: run it without a launcher"
        ))),
        None => Ok(()),
    }
}

/// The CPUs that this process may run on, ascending.
///
/// # Errors
/// The system does not say.
pub fn allowed_cpus() -> Result<Vec<usize>, MeasureError> {
    let set = sched_getaffinity(None).map_err(|errno| MeasureError::System {
        step: "reading the CPU affinity",
        source: errno.into(),
    })?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// The system refuses.
pub fn pin(cpu: usize) -> Result<(), MeasureError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| MeasureError::System {
        step: "pinning to a CPU",
        source: errno.into(),
    })
}

/// Under somebody else's launcher: pins this rank, if that was asked for.
fn bind_rank(ranks: &Ranks, rank: u32) -> Result<(), MeasureError> {
    let cpus = allowed_cpus()?;
    // One CPU: the launcher has bound it already.
    if ranks.bind && cpus.len() > 1 {
        pin(cpus[rank as usize % cpus.len()])?;
    }
    Ok(())
}

/// Joins the job as one of its ranks: the control endpoint, and the CPU of each rank that is bound
/// to one.
///
/// # Errors
/// There is no job, or its ranks cannot measure `name` in this grouping.
pub fn join(
    name: &str,
    grouping: Grouping,
    ranks: &Ranks,
) -> Result<(Control, Vec<Option<usize>>), MeasureError> {
    let control = Control::join().map_err(MeasureError::Start)?;
    let (rank, size) = (control.rank(), control.size());
    grouping.check(name, size)?;
    if let Some(asked) = ranks.ranks.filter(|asked| *asked != size) {
        return Err(MeasureError::Usage(format!(
            "--ranks {asked}, but the launcher started {size}"
        )));
    }
    bind_rank(ranks, rank)?;
    let cpus = bound_cpus(&control)?;
    Ok((control, cpus))
}

/// Collective: the CPU of each rank that is bound to one.
///
/// # Errors
/// The system does not say, or a rank is gone.
fn bound_cpus(control: &Control) -> Result<Vec<Option<usize>>, MeasureError> {
    let cpu = match allowed_cpus()?.as_slice() {
        [one] => *one as u64,
        _ => u64::MAX,
    };
    let cpus = control
        .gather(&cpu.to_le_bytes())
        .map_err(|source| MeasureError::Rank {
            rank: control.rank(),
            source,
        })?;
    Ok(cpus
        .into_iter()
        .map(|bytes| usize::try_from(u64::from_le_bytes(bytes)).ok())
        .map(|cpu| cpu.filter(|cpu| *cpu < rustix::thread::CpuSet::MAX_CPU))
        .collect())
}
