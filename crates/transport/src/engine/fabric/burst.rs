//! Sends to one peer that follow each other at once go together, where each call of the network
//! costs much.
//!
//! The first one goes as it is posted. Those that follow it wait until a call makes progress, until
//! the fabric has enough of them, or until another send shows that time has passed.

use core::time::Duration;

use limic_shm::system::Instant;

use super::{FabricChannel, Link};

/// How long after the first one a send may still wait for those that follow it. Tests have to send
/// two within that time on any machine.
pub(in crate::engine) const WITHIN: Duration = if cfg!(test) {
    Duration::from_millis(50)
} else {
    Duration::from_micros(20)
};

/// Sends to one peer since progress was made.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    link: Link,
    since: Instant,
}

impl FabricChannel {
    /// Before a message is given to a fabric. `more`: its sender is likely to send another one.
    /// True if it follows others at once: then it may wait.
    pub(super) fn joins_burst(&mut self, link: Link, more: bool) -> bool {
        let Some(burst) = self.burst else {
            return false;
        };
        if burst.link != link {
            self.end_burst();
            return false;
        }
        let follows = more && burst.since.elapsed() < WITHIN;
        if follows {
            self.cork(link);
        }
        follows
    }

    /// A message has gone, and others are likely to follow it.
    pub(super) fn begin_burst(&mut self, link: Link) {
        if self.limits(link).sends_cost {
            let since = Instant::now();
            self.burst = Some(Burst { link, since });
        }
    }

    /// What waits goes: progress is made.
    pub(crate) fn end_burst(&mut self) {
        if let Some(burst) = self.burst.take() {
            self.uncork(burst.link);
        }
    }
}
