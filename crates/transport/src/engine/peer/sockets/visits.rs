//! How much of the time visits to connections may take.
//!
//! Any process of the network namespace can connect, and each peer can send over its connection, as
//! often as it likes: each time this endpoint has something to read. So visits have a share of the
//! time. Once that is overdrawn, the endpoint rests from them, and sleeps on its doorbell and its
//! networks alone.

use core::time::Duration;
use std::os::fd::AsFd;

use limic_shm::control::{Event, EventSet, Trigger};
use limic_shm::system::Instant;

use super::{DOORBELL, NETWORK, SocketEvent, Sockets};

/// Of the time, one part in so many is for visits.
pub(super) const PARTS: u32 = 8;
/// What they may take at once, as where many peers meet at the start of a job.
pub(super) const AT_ONCE: Duration = Duration::from_millis(50);

impl Sockets {
    /// Waits for something to happen; gives what did, and the buffer in which it lies, to be given
    /// back. While the endpoint rests from visits, nothing happens but bells and news of networks.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> (Vec<Event>, usize) {
        let mut events = core::mem::take(&mut self.event_buffer);
        if self.is_parents {
            // What happens there is for the parent.
            std::thread::sleep(timeout.unwrap_or_default());
            return (events, 0);
        }
        let (set, timeout) = match (self.rest(), &self.quiet) {
            (Some(rest), Some(quiet)) => {
                let timeout = timeout.map_or(rest, |timeout| timeout.min(rest));
                (quiet, Some(timeout))
            }
            _ => (&self.events, timeout),
        };
        let count = set.wait(timeout, &mut events).unwrap_or(0);
        if events[..count].iter().any(|event| event.token == DOORBELL) {
            self.is_silenced = !self.doorbell.silence();
            if self.is_silenced {
                self.forget_doorbell();
            }
        }
        (events, count)
    }

    /// How long the endpoint rests from visits, if it does.
    fn rest(&mut self) -> Option<Duration> {
        if !self.visits.is_overdrawn() {
            return None;
        }
        let rest = self.visits.rest(Instant::now())?;
        if self.quiet.is_none() {
            // Without a descriptor for it there is no rest.
            self.quiet = self.make_quiet().ok();
        }
        Some(rest)
    }

    /// A doorbell that was shut down would wake this endpoint all the time.
    fn forget_doorbell(&self) {
        for set in core::iter::once(&self.events).chain(&self.quiet) {
            // It fails only where the doorbell is not in the set.
            let _ = self.doorbell.unwatch(set);
        }
    }

    fn make_quiet(&self) -> std::io::Result<EventSet> {
        let quiet = EventSet::new()?;
        if !self.is_silenced {
            self.doorbell.watch(&quiet, DOORBELL)?;
        }
        for network in &self.networks {
            quiet.add(network.as_fd(), NETWORK, Trigger::Level)?;
        }
        Ok(quiet)
    }

    /// When a visit to connections begins, if these events ask for one.
    pub(crate) fn begin_visit(&self, events: &[Event]) -> Option<Instant> {
        let mut happened = events.iter().map(|event| SocketEvent::from(*event));
        let is_visit =
            happened.any(|happened| !matches!(happened, SocketEvent::Wake | SocketEvent::Network));
        is_visit.then(Instant::now)
    }

    /// A visit that began at this time is over.
    pub(crate) fn end_visit(&mut self, begun: Instant) {
        let now = Instant::now();
        self.visits.spend(now.saturating_duration_since(begun), now);
    }
}
