//! Counters of what peers do to memory (`FI_RMA_EVENT`), by each way that an access can take.

use super::{part, part_with};

/// Whether any access went by single copy, as the endpoints say at their end.
fn single_copies(errors: &str) -> bool {
    errors
        .lines()
        .any(|line| line.contains("limic-fi: ") && line.contains(" cma "))
}

#[test]
fn accesses_by_single_copy_are_counted() {
    if let Some((_, errors)) = part("events")
        && !single_copies(&errors)
    {
        println!("SKIPPED: no process may copy from another one here");
    }
}

#[test]
fn accesses_to_regions_that_are_enabled_are_counted() {
    part("enabled-events");
}

#[test]
fn accesses_with_the_help_of_the_owner_are_counted() {
    let settings = [("LIMIC_PATHS", "inline,eager,pipeline")];
    if let Some((_, errors)) = part_with("events", &settings) {
        assert!(!single_copies(&errors), "{errors}");
    }
}

#[test]
fn accesses_over_a_network_are_counted() {
    let settings = [
        ("LIMIC_FABRIC", "tcp-only"),
        ("LIMIC_TCP_INTERFACE", "127.0.0.1"),
    ];
    part_with("enabled-events", &settings);
}

#[test]
fn who_sleeps_until_an_access_is_counted_is_woken() {
    // Then nobody looks around without being woken.
    part_with("woken", &[("TEST_LIMIC_WAKE_UPS", "1")]);
}
