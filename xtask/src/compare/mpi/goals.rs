//! What an MPI over limic is to reach, relative to the same MPI by its own path.

use super::super::pattern::Pattern;
use super::super::targets::{Against, Target};

/// How a goal tells the MPIs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Mpich,
    OpenMpi,
    Intel,
}

/// From which length on messages are long.
const LONG: u64 = 64 << 10;

/// The goals for a pattern and size; most have none.
pub(super) fn of(family: Family, pattern: Pattern, bytes: u64) -> Vec<Target> {
    let at_most = |ratio| vec![Target::at_most(Against::Best, ratio)];
    match (family, pattern) {
        // 0.8 of its own speed, at any size.
        (Family::Intel, Pattern::Latency) => at_most(1.0 / 0.8),
        (Family::Intel, Pattern::Bandwidth) => vec![Target::at_least(0.8)],
        // Twice its own bandwidth.
        (_, Pattern::Latency) if bytes >= LONG => at_most(0.5),
        (_, Pattern::Bandwidth) if bytes >= LONG => vec![Target::at_least(2.0)],
        (Family::Mpich, Pattern::Latency) if bytes == 8 => at_most(0.7),
        (Family::Mpich, Pattern::Barrier) => at_most(0.1),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mpi_has_its_own_goals() {
        let first = |family, pattern, bytes| of(family, pattern, bytes).first().map(Target::words);
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(first(Family::Mpich, Pattern::Latency, 8), said("<= 0.70"));
        assert_eq!(first(Family::OpenMpi, Pattern::Latency, 8), None);
        assert_eq!(
            first(Family::OpenMpi, Pattern::Latency, 64 << 10),
            said("<= 0.50")
        );
        assert_eq!(
            first(Family::Mpich, Pattern::Bandwidth, 1 << 20),
            said(">= 2.00")
        );
        assert_eq!(first(Family::Intel, Pattern::Latency, 8), said("<= 1.25"));
        assert_eq!(first(Family::Mpich, Pattern::Barrier, 0), said("<= 0.10"));
        assert_eq!(first(Family::Mpich, Pattern::Allreduce, 1024), None);
    }
}
