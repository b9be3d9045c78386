//! Which CPU each rank is bound to.

use rustix::thread::CpuSet;

/// What `--bind` takes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub(super) enum Policy {
    /// The kernel places the ranks
    None,
    /// One CPU for each rank with all its threads, round robin
    #[value(alias = "core")]
    Cpu,
}

/// The CPU of each rank, or `None` where ranks are not bound.
///
/// # Errors
/// Binding was asked for, but the kernel does not tell which CPUs may be used.
pub(super) fn plan(
    policy: Option<Policy>,
    ranks: u32,
) -> Result<Vec<Option<usize>>, std::io::Error> {
    let none = vec![None; ranks as usize];
    if policy == Some(Policy::None) {
        return Ok(none);
    }
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => Ok(distribute(policy, ranks, &cpus(&set))),
        Err(_) if policy.is_none() => Ok(none),
        Err(errno) => Err(errno.into()),
    }
}

fn cpus(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

fn distribute(policy: Option<Policy>, ranks: u32, allowed: &[usize]) -> Vec<Option<usize>> {
    let ranks = ranks as usize;
    let bind = match policy {
        Some(policy) => policy == Policy::Cpu,
        None => ranks <= allowed.len(),
    };
    let place = |rank: usize| allowed.get(rank % allowed.len().max(1)).copied();
    (0..ranks)
        .map(|rank| if bind { place(rank) } else { None })
        .collect()
}

/// The set that holds one CPU.
pub(super) fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_per_rank_by_default_if_there_are_enough() {
        assert_eq!(distribute(None, 2, &[3, 5, 9]), [Some(3), Some(5)]);
        assert_eq!(distribute(None, 3, &[3, 5]), [None; 3]);
        assert_eq!(distribute(Some(Policy::None), 1, &[3]), [None]);
        assert_eq!(
            distribute(Some(Policy::Cpu), 3, &[3, 5]),
            [Some(3), Some(5), Some(3)]
        );
        assert_eq!(distribute(Some(Policy::Cpu), 1, &[]), [None]);
    }
}
