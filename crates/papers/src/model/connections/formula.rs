//! The paper's memory of a connection ("Reducing Connection Memory Requirements of MPI for
//! InfiniBand Clusters", 2007).

/// Table 2: KB of each further connection, by send entries.
pub(super) const TABLE_2: [(u16, f64); 6] = [
    (5, 8.82),
    (10, 12.82),
    (20, 20.81),
    (40, 36.86),
    (100, 68.73),
    (200, 132.76),
];

/// What a connection takes without its send entries, in KB.
const FIXED_KB: f64 = 4.82;

/// An entry, in KB. Queues are as long as the next power of two: only so do the steps of table 2
/// come out, from 5 (8) to 10 (16) as from 100 (128) to 200 (256).
const ENTRY_KB: f64 = 0.5;

/// A process without connections, in MB: what is left of figure 1 when its connections are taken
/// away.
const PROCESS_MB: f64 = 15.0;

/// KB of a connection with so many send entries.
pub(super) fn connection_kb(entries: u16) -> f64 {
    FIXED_KB + ENTRY_KB * f64::from(u32::from(entries).next_power_of_two())
}

/// MB of one of so many processes, connected to all others by connections of so many KB.
pub(super) fn process_mb(processes: u32, connection_kb: f64) -> f64 {
    PROCESS_MB + f64::from(processes.saturating_sub(1)) * connection_kb / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_table_2_within_one_percent() {
        for (entries, paper) in TABLE_2 {
            let off = connection_kb(entries) / paper - 1.0;
            assert!(off.abs() < 0.01, "{entries}: {off}");
        }
    }

    #[test]
    fn the_formula_is_what_the_paper_says_of_figure_1() {
        let at = |entries| process_mb(8192, connection_kb(entries));
        assert!((950.0..1150.0).contains(&at(200)), "{}", at(200));
        assert!((110.0..130.0).contains(&at(10)), "{}", at(10));
        assert!(at(5) < 90.0, "{}", at(5));
    }
}
