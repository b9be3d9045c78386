//! Which way a message of several pieces goes: packed in host memory, packed in the adapter's,
//! or gathered by RDMA.
//!
//! Packing costs a copy; gathering costs a registration, and its end, for each buffer that is not
//! registered already. Which is less depends on the bytes, on the pieces, and on how often the
//! application sends from the same buffers: a registration that is kept costs nothing the second
//! time.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use limic_ibverbs::VerbsError;
use limic_ibverbs::objects::{
    Access, AdapterMemory, Bytes, DeviceMemory, HostMemory, MemoryRegion, ProtectionDomain,
};

/// A way for a message of several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Copied into host memory, and sent from there.
    HostPack,
    /// Copied into the adapter's memory, and sent from there.
    DevicePack,
    /// Gathered by the adapter out of the application's buffers.
    Gather,
}

impl Way {
    /// As people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HostPack => "host pack",
            Self::DevicePack => "device pack",
            Self::Gather => "gather",
        }
    }
}

/// What things cost on this machine, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// One byte copied into host memory.
    pub host_byte: f64,
    /// One byte copied into the adapter's memory; `None` where there is none.
    pub device_byte: Option<f64>,
    /// One byte that the adapter fetches out of host memory rather than out of its own. Known from
    /// the bus; 0 where the two do not differ, as with an adapter in software.
    pub fetch_byte: f64,
    /// A buffer registered and given back, whatever its length.
    pub register: f64,
    /// The same for each byte.
    pub register_byte: f64,
}

impl Costs {
    /// Measures this machine, in some milliseconds.
    ///
    /// # Errors
    /// [`VerbsError::Call`]: too little memory, or too little that may be locked.
    pub fn measure(domain: &Arc<ProtectionDomain>) -> Result<Self, VerbsError> {
        const SMALL: usize = 4 << 10;
        const LARGE: usize = 256 << 10;
        let bytes = vec![1; LARGE];
        let mut host = HostMemory::new(domain, LARGE)?;
        let host_byte = best(|| host.write(0, black_box(&bytes)))? / LARGE as f64;
        let device_byte = match DeviceMemory::new(domain, SMALL) {
            Ok(mut device) => {
                Some(best(|| device.write(0, black_box(&bytes[..SMALL])))? / SMALL as f64)
            }
            Err(_) => None,
        };
        let registered = |len: usize| {
            best(|| {
                let memory = Bytes::zeroed(len)?;
                MemoryRegion::new(domain, memory, Access::LOCAL_READ).map(drop)
            })
        };
        let (small, large) = (registered(SMALL)?, registered(LARGE)?);
        let register_byte = ((large - small) / (LARGE - SMALL) as f64).max(0.0);
        Ok(Self {
            host_byte,
            device_byte,
            fetch_byte: 0.0,
            register: (small - register_byte * SMALL as f64).max(0.0),
            register_byte,
        })
    }

    /// Microseconds that a way takes beyond what all ways take.
    #[must_use]
    pub fn of(&self, way: Way, pieces: usize, bytes: usize, reuse: f64) -> f64 {
        let bytes = bytes as f64;
        match way {
            Way::HostPack => bytes * (self.host_byte + self.fetch_byte),
            Way::DevicePack => self.device_byte.map_or(f64::INFINITY, |byte| bytes * byte),
            Way::Gather => {
                let fresh = 1.0 - reuse.clamp(0.0, 1.0);
                let registered = pieces as f64 * self.register + bytes * self.register_byte;
                bytes * self.fetch_byte + fresh * registered
            }
        }
    }
}

/// The median of some runs, in microseconds.
fn best(mut run: impl FnMut() -> Result<(), VerbsError>) -> Result<f64, VerbsError> {
    const RUNS: usize = 9;
    let mut times = [0.0; RUNS];
    for time in &mut times {
        let begin = Instant::now();
        run()?;
        *time = begin.elapsed().as_secs_f64() * 1e6;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

/// The cheapest way for `bytes` in `pieces` registrations, if a part `reuse` (0 to 1) of such
/// messages comes from buffers that are registered already. `room`: bytes of the area on the
/// adapter.
#[must_use]
pub fn choose(costs: &Costs, pieces: usize, bytes: usize, reuse: f64, room: usize) -> Way {
    let mut best = (Way::HostPack, costs.of(Way::HostPack, pieces, bytes, reuse));
    for way in [Way::DevicePack, Way::Gather] {
        let cost = costs.of(way, pieces, bytes, reuse);
        if cost < best.1 && (way != Way::DevicePack || bytes <= room) {
            best = (way, cost);
        }
    }
    best.0
}

/// How often buffers come again: the part of recent messages whose buffer was seen shortly before.
#[derive(Clone, Debug, Default)]
pub struct Reuse {
    seen: VecDeque<(usize, usize)>,
    part: f64,
}

/// Buffers that are remembered, as many as one would keep registered.
pub const REMEMBERED: usize = 64;
/// Weight of the newest message.
const NEWEST: f64 = 1.0 / 8.0;

impl Reuse {
    /// Notes a message from the buffer at `start` with `len` bytes, and gives the part of messages
    /// from known buffers, 0 to 1.
    pub fn note(&mut self, start: usize, len: usize) -> f64 {
        let place = self.seen.iter().position(|seen| *seen == (start, len));
        if let Some(place) = place {
            self.seen.remove(place);
        } else if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back((start, len));
        let known = if place.is_some() { 1.0 } else { 0.0 };
        self.part += (known - self.part) * NEWEST;
        self.part
    }

    /// The part of messages from known buffers, 0 to 1.
    #[must_use]
    pub fn part(&self) -> f64 {
        self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        host_byte: 0.001,
        device_byte: None,
        fetch_byte: 0.0,
        register: 40.0,
        register_byte: 0.0005,
    };

    #[test]
    fn buffers_that_come_again_are_gathered_and_new_ones_packed() {
        // 8 pieces of 8 KiB: the copy takes 65 us, the registrations 352 us.
        let of = |reuse| choose(&COSTS, 8, 64 << 10, reuse, 0);
        assert_eq!(of(0.0), Way::HostPack);
        assert_eq!(of(0.2), Way::HostPack);
        assert_eq!(of(0.95), Way::Gather);
        assert_eq!(of(1.0), Way::Gather);
    }

    #[test]
    fn device_memory_is_taken_where_it_is_cheaper_and_has_room() {
        let costs = Costs {
            device_byte: Some(0.0009),
            fetch_byte: 0.0002,
            ..COSTS
        };
        assert_eq!(choose(&costs, 8, 64 << 10, 0.0, 64 << 10), Way::DevicePack);
        assert_eq!(choose(&costs, 8, 64 << 10, 0.0, 32 << 10), Way::HostPack);
        assert_eq!(choose(&costs, 8, 64 << 10, 1.0, 64 << 10), Way::Gather);
    }

    #[test]
    fn reuse_follows_the_buffers() {
        let mut reuse = Reuse::default();
        for number in 0..100 {
            reuse.note(number * 4096, 64);
        }
        assert!(reuse.part() < 0.01);
        for _ in 0..40 {
            reuse.note(0, 64);
        }
        assert!(reuse.part() > 0.95);
    }
}
