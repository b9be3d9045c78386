//! The CPUs that programs run on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this program may use, ascending.
///
/// # Errors
/// If the kernel does not tell.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    let all = 0..CpuSet::MAX_CPU;
    Ok(all.filter(|cpu| set.is_set(*cpu)).collect())
}

/// Calls `spawn` while this thread may run on these CPUs only, which its children inherit.
pub(crate) fn confined<T>(cpus: &[usize], spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)?;
    let result = spawn();
    sched_setaffinity(None, &before)?;
    result
}
