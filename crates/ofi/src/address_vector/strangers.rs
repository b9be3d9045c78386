//! Who has sent, and is none of those that an address vector knows.

use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use limic::{ADDRESS_LEN, Address};

/// Addresses that no service has: all were asked about them.
#[derive(Debug, Default)]
pub(super) struct Strangers(HashMap<[u8; ADDRESS_LEN], Option<Instant>>);

/// After so long, services are asked once more that did not answer in time. Longer than they are
/// waited for.
const AGAIN: Duration = Duration::from_secs(20);

impl Strangers {
    /// Whether nobody need be asked about an address.
    pub(super) fn has(&self, address: &Address, now: Instant) -> bool {
        let asked_at = self.0.get(&address.to_bytes());
        asked_at.is_some_and(|late| late.is_none_or(|at| now.saturating_duration_since(at) < AGAIN))
    }

    /// All services were asked about an address, until `now`. One that was late may have it;
    /// what others have answered stays so, since an endpoint has its service before it sends.
    pub(super) fn add(&mut self, address: &Address, late: bool, now: Instant) {
        self.0.insert(address.to_bytes(), late.then_some(now));
    }
}

#[cfg(test)]
mod tests {
    use limic::{Endpoint as _, HybridEndpoint};

    use super::*;

    #[test]
    fn services_that_were_late_are_asked_again() {
        let address = HybridEndpoint::open().expect("open").address();
        let now = Instant::now();
        let mut strangers = Strangers::default();
        assert!(!strangers.has(&address, now));
        strangers.add(&address, true, now);
        assert!(strangers.has(&address, now + AGAIN / 2));
        assert!(!strangers.has(&address, now + AGAIN));
        strangers.add(&address, false, now + AGAIN);
        assert!(strangers.has(&address, now + 100 * AGAIN));
    }
}
