//! The targets of an MPI over limic, relative to the same MPI by its own path.

use limic_peers::Kind;

use super::super::pattern::Pattern;
use super::super::targets::{Against, Target};

/// The length from which on messages are long.
const LONG: u64 = 64 << 10;

/// The targets for a pattern and size. Most have none.
pub(super) fn of(kind: Kind, pattern: Pattern, bytes: u64) -> Vec<Target> {
    let at_most = |ratio| vec![Target::at_most(Against::Best, ratio)];
    let at_least = |ratio| vec![Target::at_least(Against::Best, ratio)];
    match (kind, pattern) {
        (Kind::Intelmpi, Pattern::Latency) => at_most(1.0),
        (Kind::Intelmpi, Pattern::Bandwidth) => at_least(1.0),
        (Kind::Mpich, Pattern::Latency) => at_most(if bytes <= 4 << 10 { 0.85 } else { 0.35 }),
        (Kind::Mpich, Pattern::Barrier) => at_most(0.1),
        (Kind::Openmpi, Pattern::Latency) if bytes <= 256 => at_most(1.0),
        (Kind::Openmpi, Pattern::Bandwidth) if (8..=64).contains(&bytes) => at_least(1.2),
        // Twice the speed of the MPI's own path.
        (_, Pattern::Latency) if bytes >= LONG => at_most(0.5),
        (_, Pattern::Bandwidth) if bytes >= LONG => at_least(2.0),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mpi_has_targets_of_its_own() {
        let first = |kind, pattern, bytes| of(kind, pattern, bytes).first().map(Target::words);
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(first(Kind::Mpich, Pattern::Latency, 8), said("<= 0.85"));
        assert_eq!(
            first(Kind::Mpich, Pattern::Latency, 8 << 10),
            said("<= 0.35")
        );
        assert_eq!(first(Kind::Openmpi, Pattern::Latency, 8), said("<= 1.00"));
        assert_eq!(first(Kind::Openmpi, Pattern::Latency, 1024), None);
        assert_eq!(
            first(Kind::Openmpi, Pattern::Latency, LONG),
            said("<= 0.50")
        );
        assert_eq!(first(Kind::Openmpi, Pattern::Bandwidth, 8), said(">= 1.20"));
        assert_eq!(
            first(Kind::Mpich, Pattern::Bandwidth, 1 << 20),
            said(">= 2.00")
        );
        assert_eq!(first(Kind::Intelmpi, Pattern::Latency, 8), said("<= 1.00"));
        assert_eq!(first(Kind::Mpich, Pattern::Barrier, 0), said("<= 0.10"));
        assert_eq!(first(Kind::Mpich, Pattern::Allreduce, 1024), None);
    }
}
