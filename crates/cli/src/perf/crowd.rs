//! Whether ranks have to take turns on their CPUs.

use std::collections::HashMap;

use rustix::thread::CpuSet;

use super::PerfError;
use super::control::Control;
use super::job::allowed_cpus;

/// Bytes of a node's boot id, as the kernel prints it.
const NODE: usize = 36;
/// Bytes of a set of CPUs.
const CPUS: usize = CpuSet::MAX_CPU / 8;

/// Where a rank runs: its node, and the CPUs that it may use there.
type Place = [u8; NODE + CPUS];

/// Collective: whether some node has more ranks than CPUs that they may use; the same for everybody.
pub(super) fn is_crowded(control: &Control) -> Result<bool, PerfError> {
    let node = std::fs::read("/proc/sys/kernel/random/boot_id");
    let node = node.map_err(|source| PerfError::System {
        step: "reading which node this is",
        source,
    })?;
    let mut mine: Place = [0; NODE + CPUS];
    for (to, from) in mine[..NODE].iter_mut().zip(&node) {
        *to = *from;
    }
    for cpu in allowed_cpus()? {
        mine[NODE + cpu / 8] |= 1 << (cpu % 8);
    }
    let places = control.gather(&mine).map_err(|source| PerfError::Rank {
        rank: control.rank(),
        source,
    })?;
    Ok(take_turns(&places))
}

fn take_turns(places: &[Place]) -> bool {
    let mut nodes: HashMap<&[u8], (usize, [u8; CPUS])> = HashMap::new();
    for place in places {
        let (node, cpus) = place.split_at(NODE);
        let (ranks, all) = nodes.entry(node).or_insert((0, [0; CPUS]));
        *ranks += 1;
        for (all, cpus) in all.iter_mut().zip(cpus) {
            *all |= cpus;
        }
    }
    nodes.values().any(|(ranks, cpus)| {
        let cpus: u32 = cpus.iter().map(|byte| byte.count_ones()).sum();
        *ranks > cpus as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: u8, cpus: u8) -> Place {
        let mut place = [0; NODE + CPUS];
        place[0] = node;
        place[NODE] = cpus;
        place
    }

    #[test]
    fn ranks_with_a_cpu_each_take_no_turns() {
        assert!(!take_turns(&[place(1, 0b01), place(1, 0b10)]));
        assert!(!take_turns(&[place(1, 0b11), place(1, 0b11)]));
        assert!(!take_turns(&[place(1, 0b01), place(2, 0b01)]));
        assert!(take_turns(&[place(1, 0b01), place(1, 0b01)]));
        assert!(take_turns(&[place(1, 0b11); 3]));
    }
}
