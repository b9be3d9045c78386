//! Bounds the waits of tests.

use std::time::{Duration, Instant};

/// Ends a test that waits for something that never comes.
#[derive(Debug)]
pub(crate) struct Watchdog(Instant);

impl Watchdog {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// To be called in each turn of a waiting loop.
    pub(crate) fn turn(&self) {
        assert!(
            self.0.elapsed() < Duration::from_secs(120),
            "waited for two minutes in vain"
        );
        std::thread::yield_now();
    }
}
