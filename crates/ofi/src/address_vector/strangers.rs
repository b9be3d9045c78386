//! Who has sent, and is none of those that an address vector knows.

use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use limic::{ADDRESS_LEN, Address};
use limic_ofi_abi::fi_addr_t;

/// Senders that no service has, as far as is known, and services that were late to say it.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// When all services are asked about an address again. `None`: never.
    again: HashMap<[u8; ADDRESS_LEN], Option<Instant>>,
    /// Positions of services that did not answer in time: when they are asked again, and how long
    /// that is after they were asked.
    late: HashMap<fi_addr_t, (Instant, Duration)>,
}

/// After so long, a service is asked once more that did not answer in time; each time it is late
/// again, after twice as long. Longer than it is waited for.
const AGAIN: Duration = Duration::from_secs(20);

impl Strangers {
    /// Whether nobody need be asked about an address.
    pub(super) fn has(&self, address: &Address, now: Instant) -> bool {
        let again = self.again.get(&address.to_bytes());
        again.is_some_and(|again| again.is_none_or(|at| now < at))
    }

    /// All services were asked about an address. One that was late may have it: they are asked
    /// again then. What others have answered stays so, since an endpoint has its service before it
    /// sends.
    pub(super) fn add(&mut self, address: &Address, again: Option<Instant>) {
        self.again.insert(address.to_bytes(), again);
    }

    /// When the service at a position is asked again, if it is not to be asked now.
    pub(super) fn late_until(&self, at: fi_addr_t, now: Instant) -> Option<Instant> {
        let (again, _) = self.late.get(&at)?;
        (now < *again).then_some(*again)
    }

    /// The service at a position has not answered in time; gives when it is asked again.
    pub(super) fn was_late(&mut self, at: fi_addr_t, now: Instant) -> Instant {
        let wait = self.late.get(&at).map_or(AGAIN, |(_, wait)| 2 * *wait);
        self.late.insert(at, (now + wait, wait));
        now + wait
    }

    /// There is one more service, which may be that of any address.
    pub(super) fn may_be_known(&mut self) {
        self.again.clear();
    }

    /// Another one will stand at a position.
    pub(super) fn forget(&mut self, at: fi_addr_t) {
        self.late.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use limic::{Endpoint as _, HybridEndpoint};

    use super::*;

    #[test]
    fn services_that_were_late_are_asked_again_and_less_and_less_often() {
        let address = HybridEndpoint::open().expect("open").address();
        let mut now = Instant::now();
        let mut strangers = Strangers::default();
        for times in 0..3 {
            assert!(!strangers.has(&address, now) && strangers.late_until(5, now).is_none());
            let again = strangers.was_late(5, now);
            strangers.add(&address, Some(again));
            now += (1 << times) * AGAIN / 2;
            assert!(strangers.has(&address, now) && strangers.late_until(5, now) == Some(again));
            assert!(strangers.late_until(6, now).is_none());
            now = again;
        }
        strangers.add(&address, None);
        assert!(strangers.has(&address, now + 100 * AGAIN));
        strangers.may_be_known();
        assert!(!strangers.has(&address, now));
        strangers.was_late(5, now);
        strangers.forget(5);
        assert!(strangers.late_until(5, now).is_none());
    }
}
