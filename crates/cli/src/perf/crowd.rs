//! Whether ranks have to take turns on their CPUs.

use std::collections::HashMap;

use rustix::thread::CpuSet;

use super::PerfError;
use super::control::Control;
use super::job::allowed_cpus;

/// The CPUs that a rank may use, a bit for each.
type Cpus = [u8; CpuSet::MAX_CPU / 8];

/// Collective: whether some node has more ranks than CPUs that they may use; the same for everybody.
pub(super) fn is_crowded(control: &Control) -> Result<bool, PerfError> {
    let mut mine: Cpus = [0; size_of::<Cpus>()];
    for cpu in allowed_cpus()? {
        mine[cpu / 8] |= 1 << (cpu % 8);
    }
    let failed = |source| PerfError::Rank {
        rank: control.rank(),
        source,
    };
    let cpus = control.gather(&mine).map_err(failed)?;
    let nodes = control.nodes().map_err(failed)?;
    Ok(take_turns(nodes.into_iter().zip(cpus)))
}

/// Whether ranks share CPUs, by the node and the CPUs of each.
fn take_turns(ranks: impl IntoIterator<Item = (u64, Cpus)>) -> bool {
    let mut nodes: HashMap<u64, (u32, Cpus)> = HashMap::new();
    for (node, cpus) in ranks {
        let (ranks, all) = nodes.entry(node).or_insert((0, [0; size_of::<Cpus>()]));
        *ranks += 1;
        for (all, cpus) in all.iter_mut().zip(cpus) {
            *all |= cpus;
        }
    }
    nodes.values().any(|(ranks, cpus)| {
        let cpus: u32 = cpus.iter().map(|byte| byte.count_ones()).sum();
        *ranks > cpus
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: u64, first: u8) -> (u64, Cpus) {
        let mut cpus = [0; size_of::<Cpus>()];
        cpus[0] = first;
        (node, cpus)
    }

    #[test]
    fn ranks_with_a_cpu_each_take_no_turns() {
        assert!(!take_turns([place(1, 0b01), place(1, 0b10)]));
        assert!(!take_turns([place(1, 0b11), place(1, 0b11)]));
        assert!(!take_turns([place(1, 0b01), place(2, 0b01)]));
        assert!(take_turns([place(1, 0b01), place(1, 0b01)]));
        assert!(take_turns([place(1, 0b11); 3]));
    }
}
