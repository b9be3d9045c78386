//! How much memory of its peers a process maps. Page tables, room for addresses and the number of
//! mappings are its own expense, and a peer decides how large its arenas are.
//!
//! An arena beyond the quota is not mapped, as if memory were short: messages that are offered
//! there come in fragments. Loans, and what was sent ahead, are read by calls of the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limic_shm::process::ValueHere;
use rustix::process::{Resource, getrlimit};
use rustix::system::sysinfo;

/// Arenas that a process maps: a quarter of the mappings that Linux allows it.
const MOST_ARENAS: u64 = 1 << 14;

/// Bytes that a process maps at most: a quarter of its addresses, by 47 bits.
const MOST_BYTES: u64 = 1 << 45;

/// What is mapped of something. A count alone, so relaxed.
#[derive(Debug, Default)]
struct Meter(AtomicU64);

/// A part of what a meter counts, until it is dropped.
#[derive(Debug)]
struct Held {
    meter: Arc<Meter>,
    amount: u64,
}

impl Held {
    /// Nothing if the meter would show more than `most`.
    fn new(meter: &Arc<Meter>, amount: u64, most: u64) -> Option<Self> {
        let sum = |now: u64| now.checked_add(amount).filter(|sum| *sum <= most);
        meter.0.fetch_update(Relaxed, Relaxed, sum).ok()?;
        Some(Self {
            meter: meter.clone(),
            amount,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.0.fetch_sub(self.amount, Relaxed);
    }
}

/// What a process maps of all peers.
#[derive(Clone, Debug, Default)]
struct Sum {
    arenas: Arc<Meter>,
    bytes: Arc<Meter>,
}

/// What may be mapped of one peer.
#[derive(Debug)]
pub(crate) struct Quota {
    of_peer: Arc<Meter>,
    most: u64,
    of_all: Sum,
}

/// The part of a quota that an arena takes, as long as it is mapped.
#[derive(Debug)]
pub(crate) struct Charge {
    _held: [Held; 3],
}

impl Quota {
    /// Twice the memory of this machine: more than a peer can have in use.
    pub(crate) fn of_peer() -> Self {
        static MOST: ValueHere<u64> = ValueHere::new();
        static OF_ALL: ValueHere<Sum> = ValueHere::new();
        let most = MOST.get_or_make(|| {
            let info = sysinfo();
            let memory = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
            memory.saturating_mul(2)
        });
        Self::new(*most, OF_ALL.get_or_make(Sum::default).clone())
    }

    /// Room for nothing.
    pub(crate) fn of_nothing() -> Self {
        Self::new(0, Sum::default())
    }

    fn new(most: u64, of_all: Sum) -> Self {
        Self {
            of_peer: Arc::default(),
            most,
            of_all,
        }
    }

    /// The charge for an arena; none if it is beyond the quota of its peer, or of all of them.
    pub(crate) fn charge(&self, bytes: u64) -> Option<Charge> {
        let addresses = getrlimit(Resource::As).current.unwrap_or(u64::MAX) / 2;
        Some(Charge {
            _held: [
                Held::new(&self.of_peer, bytes, self.most)?,
                Held::new(&self.of_all.bytes, bytes, MOST_BYTES.min(addresses))?,
                Held::new(&self.of_all.arenas, 1, MOST_ARENAS)?,
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_longer_mapped_makes_room() {
        let quota = Quota::new(100, Sum::default());
        let first = quota.charge(60).expect("room");
        assert!(quota.charge(60).is_none());
        assert!(quota.charge(u64::MAX).is_none());
        let second = quota.charge(40).expect("what was refused took nothing");
        drop(first);
        assert!(quota.charge(60).is_some());
        drop(second);
        assert!(quota.charge(100).is_some());
    }

    #[test]
    fn one_peer_leaves_addresses_for_the_others() {
        let of_all = Sum::default();
        let [greedy, other] = [(); 2].map(|()| Quota::new(u64::MAX, of_all.clone()));
        assert!(greedy.charge(2 * MOST_BYTES).is_none());
        let most = greedy.charge(1 << 30).expect("room");
        assert!(other.charge(MOST_BYTES - 1).is_none());
        assert!(other.charge(1 << 20).is_some());
        drop(most);
    }
}
