//! The targets of an MPI over limic, relative to the same MPI by its own path.

use limic_peers::Kind;

use super::super::pattern::Pattern;
use super::super::targets::{Against, Target};

/// The length from which on messages are long.
const LONG: u64 = 64 << 10;

/// The targets for a pattern and size. Most have none.
pub(super) fn of(kind: Kind, pattern: Pattern, bytes: u64) -> Vec<Target> {
    let at_most = |ratio| vec![Target::at_most(Against::Best, ratio)];
    match (kind, pattern) {
        // 0.8 of the MPI's own speed, at any size.
        (Kind::Intelmpi, Pattern::Latency) => at_most(1.0 / 0.8),
        (Kind::Intelmpi, Pattern::Bandwidth) => vec![Target::at_least(0.8)],
        // Twice the MPI's own bandwidth.
        (_, Pattern::Latency) if bytes >= LONG => at_most(0.5),
        (_, Pattern::Bandwidth) if bytes >= LONG => vec![Target::at_least(2.0)],
        (Kind::Mpich, Pattern::Latency) if bytes == 8 => at_most(0.7),
        (Kind::Mpich, Pattern::Barrier) => at_most(0.1),
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
        assert_eq!(first(Kind::Mpich, Pattern::Latency, 8), said("<= 0.70"));
        assert_eq!(first(Kind::Openmpi, Pattern::Latency, 8), None);
        assert_eq!(
            first(Kind::Openmpi, Pattern::Latency, 64 << 10),
            said("<= 0.50")
        );
        assert_eq!(
            first(Kind::Mpich, Pattern::Bandwidth, 1 << 20),
            said(">= 2.00")
        );
        assert_eq!(first(Kind::Intelmpi, Pattern::Latency, 8), said("<= 1.25"));
        assert_eq!(first(Kind::Mpich, Pattern::Barrier, 0), said("<= 0.10"));
        assert_eq!(first(Kind::Mpich, Pattern::Allreduce, 1024), None);
    }
}
