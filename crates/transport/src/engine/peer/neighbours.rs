//! Who shares the machine's processors with this endpoint.

use std::collections::BTreeSet;

use limic_topology::CpuSet;

/// Most processes that are told apart: more than any machine has CPUs.
const MOST_PROCESSES: usize = 1 << 13;

/// The endpoints of this node, as far as they are known.
pub(crate) struct Neighbours {
    /// Endpoints of this node that are known by address, this one included if it is.
    local: u32,
    /// Peers that share memory with this endpoint.
    attached: u32,
    /// Processes that share memory with this endpoint or did, and its own. Not more than count.
    processes: BTreeSet<i32>,
    /// CPUs that their first threads and this endpoint may run on. `None`: not known of all.
    cpus: Option<CpuSet>,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Self {
            local: 0,
            attached: 0,
            processes: BTreeSet::from([std::process::id() as i32]),
            cpus: CpuSet::allowed().ok(),
        }
    }

    /// An endpoint is known by its address.
    pub(super) fn named(&mut self, is_local: bool) {
        self.local += u32::from(is_local);
    }

    /// A peer shares memory with this endpoint from now on.
    pub(super) fn attach(&mut self) {
        self.attached += 1;
    }

    /// A peer shares memory with this endpoint no more.
    pub(super) fn detach(&mut self) {
        self.attached -= 1;
    }

    /// Peers that share memory with this endpoint.
    pub(super) fn attached(&self) -> u32 {
        self.attached
    }

    /// Endpoints that share this machine's processors with this one, as far as is known, itself
    /// included.
    pub(crate) fn count(&self) -> u32 {
        self.local.max(self.attached + 1)
    }

    /// A peer of this process shares memory with this endpoint, and may run on these CPUs.
    pub(crate) fn runs_on(&mut self, process: i32, cpus: Option<&CpuSet>) {
        if self.processes.len() < MOST_PROCESSES {
            self.processes.insert(process);
        }
        match (&mut self.cpus, cpus) {
            (Some(all), Some(more)) => all.insert_all(more),
            (all, _) => *all = None,
        }
    }

    /// Whether the processes that share memory with this endpoint have fewer CPUs than they are:
    /// the job may have a part of the machine only. Where a process has several endpoints, their
    /// threads may be bound elsewhere than its first one.
    pub(crate) fn is_crowded(&self) -> bool {
        // Those of peers that are gone stay in the set.
        let processes = self.processes.len().min(self.attached as usize + 1);
        let few = |cpus: &CpuSet| processes > cpus.len();
        self.cpus.as_ref().is_some_and(few)
    }

    /// As if all that are known could run on these CPUs alone.
    #[cfg(test)]
    pub(crate) fn confine(&mut self, cpus: CpuSet) {
        self.cpus = Some(cpus);
    }
}
