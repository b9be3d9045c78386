//! The engine between real processes. Peers are this test binary started again (`peer.rs`), or a
//! fork of it that calls nothing but system calls (`forked.rs`).

// `cfg(test)` always holds here; with it the lints know that these are tests.
#[cfg(test)]
mod copies;
#[cfg(test)]
mod forked;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod split_copy;

use std::io::Write;

/// Says that a test cannot run here, past the capture of the test harness.
fn skipped(test: &str, reason: &str) {
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

/// Whether cross-memory attach works on this machine at all; else says why `test` is skipped.
fn available(test: &str) -> bool {
    match limic_copy::explain().available {
        Ok(()) => true,
        Err(refused) => {
            skipped(test, &refused.to_string());
            false
        }
    }
}
