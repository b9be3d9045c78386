//! A pair of CPUs for each locality of this host.

use limic::settings::{LineLatency, Settings};
use limic::topology::{CpuSet, Topology};
use limic_measure::MeasureError;
use limic_policy::Locality;

use super::super::floor;

/// Two CPUs, and how far apart they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) locality: Locality,
    pub(super) cpus: [u32; 2],
}

impl Pair {
    /// Whether both ranks have to share one CPU, since there is only one.
    pub(super) fn shares_a_cpu(&self) -> bool {
        self.cpus[0] == self.cpus[1]
    }

    /// How long a cache line takes between them, which says more than the topology: see
    /// [`LineLatency`]. What the settings say (`LIMIC_LINE_LATENCY`) stands in for the measurement,
    /// as in every run.
    pub(super) fn line_latency(&self) -> Result<LineLatency, MeasureError> {
        let asked = Settings::from_environment()?.line_latency();
        if asked != LineLatency::Measured {
            return Ok(asked);
        }
        if self.shares_a_cpu() {
            return Ok(LineLatency::Topology);
        }
        let time = floor::line_latency(self.cpus)?;
        Ok(LineLatency::Nanoseconds(
            u32::try_from(time.as_nanos()).unwrap_or(u32::MAX),
        ))
    }
}

/// CPUs that are looked at: more are of no other kind.
const MOST: usize = 512;

/// The pairs, nearest first.
pub(super) fn find() -> Result<Vec<Pair>, MeasureError> {
    let allowed = CpuSet::allowed().map_err(|source| MeasureError::System {
        step: "reading the CPU affinity",
        source,
    })?;
    let cpus: Vec<u32> = allowed.iter().take(MOST).collect();
    Ok(among(Topology::detect(), &cpus))
}

fn among(topology: &Topology, cpus: &[u32]) -> Vec<Pair> {
    let distance =
        |a: u32, b: u32| topology.locality(&CpuSet::from_iter([a]), &CpuSet::from_iter([b]));
    let pair = |locality| {
        let of = |apart: bool| {
            cpus.iter().enumerate().find_map(|(at, &a)| {
                let others = cpus[at + 1..].iter();
                let fits = |b: &&u32| {
                    distance(a, **b) == locality && !(apart && topology.same_core(a, **b))
                };
                others.clone().find(fits).map(|b| Pair {
                    locality,
                    cpus: [a, *b],
                })
            })
        };
        // Two threads of one core are the last resort: ranks usually have a core each.
        of(true).or_else(|| of(false))
    };
    let pairs: Vec<Pair> = Locality::BETWEEN_PROCESSES
        .into_iter()
        .filter_map(pair)
        .collect();
    match (pairs.is_empty(), cpus.first()) {
        (true, Some(&only)) => vec![Pair {
            locality: distance(only, only),
            cpus: [only, only],
        }],
        _ => pairs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_at_least_one_locality() {
        let pairs = find().expect("the affinity can be read");
        assert!(!pairs.is_empty());
        let mut localities: Vec<Locality> = pairs.iter().map(|pair| pair.locality).collect();
        localities.dedup();
        assert_eq!(localities.len(), pairs.len(), "one pair for each");
    }

    #[test]
    fn a_single_cpu_is_shared() {
        let cpus = CpuSet::allowed().expect("the affinity can be read");
        let first = cpus.first().expect("at least one");
        let pairs = among(Topology::detect(), &[first]);
        assert_eq!(pairs.len(), 1);
        assert!(pairs[0].shares_a_cpu());
    }
}
