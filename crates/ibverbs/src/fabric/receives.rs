//! The buffers that packets come into, which the adapter has until a packet lies there.
//!
//! All queue pairs of a rail share them, so that their memory does not grow with the peers. Some
//! adapters have no shared receive queue: there each queue pair has some buffers for itself.

use std::sync::Arc;

use super::FabricSettings;
use crate::VerbsError;
use crate::objects::{
    Access, Bytes, LocalSlice, MemoryRegion, ProtectionDomain, QueuePair, ReceiveQueue,
    SharedReceiveQueue,
};

/// Receives of the rails have this bit in their number, with the buffer below.
pub(super) const RECEIVE: u64 = 1 << 63;

/// Most buffers that a queue pair has for itself.
const OWN: u16 = 16;

#[derive(Debug)]
pub(super) struct Receives {
    // The queue before the memory that it may still fill.
    shared: Option<Arc<SharedReceiveQueue>>,
    regions: Vec<MemoryRegion<Bytes>>,
    domain: Arc<ProtectionDomain>,
    packet_bytes: usize,
    /// Buffers of each region.
    each: u32,
    /// Without a shared queue, the queue pair that has a buffer; those that none has.
    holders: Vec<u32>,
    spare: Vec<u32>,
}

impl Receives {
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        settings: &FabricSettings,
    ) -> Result<Self, VerbsError> {
        let granted = domain.context().limits().shared_receives;
        let shared = settings.receives.min(granted);
        let mut receives = Self {
            shared: None,
            regions: Vec::new(),
            domain: Arc::clone(domain),
            packet_bytes: settings.packet_bytes as usize,
            each: match shared {
                0 => settings.send_entries.min(OWN).into(),
                count => count,
            },
            holders: Vec::new(),
            spare: Vec::new(),
        };
        if shared > 0 {
            let queue = SharedReceiveQueue::new(domain, shared)?;
            receives.add_region()?;
            for buffer in 0..shared {
                receives.post(buffer, |slice| {
                    // SAFETY: the buffer was not posted before; the rest as in `lend`.
                    unsafe { queue.post(RECEIVE | u64::from(buffer), slice) }
                })?;
            }
            receives.shared = Some(queue);
        }
        Ok(receives)
    }

    /// What a queue pair is made with.
    pub(super) fn queue(&self) -> ReceiveQueue<'_> {
        match &self.shared {
            Some(queue) => ReceiveQueue::Shared(queue),
            None => ReceiveQueue::Own(self.each),
        }
    }

    /// Most receives that so many queue pairs have.
    pub(super) fn most(&self, pairs: u32) -> u32 {
        match self.shared {
            Some(_) => self.each,
            None => self.each.saturating_mul(pairs),
        }
    }

    /// A new queue pair gets buffers, if it needs some of its own.
    pub(super) fn equip(&mut self, pair: &QueuePair) -> Result<(), VerbsError> {
        if self.shared.is_some() {
            return Ok(());
        }
        if self.spare.len() < self.each as usize {
            let first = self.holders.len() as u32;
            self.add_region()?;
            self.spare.extend(first..first + self.each);
            self.holders.resize((first + self.each) as usize, 0);
        }
        for _ in 0..self.each {
            let Some(buffer) = self.spare.pop() else {
                break;
            };
            self.lend(buffer, || Some(pair))?;
        }
        Ok(())
    }

    /// Lends a buffer to the adapter again; without a shared queue for the queue pair that had it,
    /// if that lives.
    pub(super) fn lend<'a>(
        &mut self,
        buffer: u32,
        pair: impl FnOnce() -> Option<&'a QueuePair>,
    ) -> Result<(), VerbsError> {
        let id = RECEIVE | u64::from(buffer);
        if let Some(queue) = &self.shared {
            // SAFETY: the buffer was posted at the start, its receive has completed and its bytes
            // were copied out; the region outlives the queue (field order), and nothing but `copy`
            // looks at it.
            return self.post(buffer, |slice| unsafe { queue.post(id, slice) });
        }
        let pair = pair();
        self.holders[buffer as usize] = pair.map_or(0, QueuePair::number);
        match pair {
            // SAFETY: no queue pair has the buffer; connections, and with them queue pairs, go
            // before their rails.
            Some(pair) => self.post(buffer, |slice| unsafe { pair.post_receive(id, slice) }),
            None => {
                self.spare.push(buffer);
                Ok(())
            }
        }
    }

    /// A queue pair is gone, and another one may have its number from now on. Buffers of its own
    /// that nothing has come into are spare; those that are still to be read become so then.
    pub(super) fn gone(&mut self, number: u32, is_to_be_read: impl Fn(u32) -> bool) {
        for (buffer, holder) in (0..).zip(&mut self.holders) {
            if *holder == number {
                *holder = 0;
                if !is_to_be_read(buffer) {
                    self.spare.push(buffer);
                }
            }
        }
    }

    /// Whether queue pairs take receives out of one queue.
    pub(super) fn are_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The buffers that a queue pair has for itself.
    pub(super) fn of(&self, number: u32) -> impl Iterator<Item = u32> {
        let holders = (0..).zip(&self.holders);
        let of_it = holders.filter(move |(_, holder)| **holder == number);
        of_it.map(|(buffer, _)| buffer)
    }

    /// Whose a buffer was when it was filled, if queue pairs have buffers of their own.
    pub(super) fn holder(&self, buffer: u32) -> u32 {
        self.holders.get(buffer as usize).copied().unwrap_or(0)
    }

    /// Copies a received packet out of its buffer.
    pub(super) fn copy(&self, buffer: u32, len: u32, into: &mut Vec<u8>) {
        into.clear();
        let Some(region) = self.regions.get((buffer / self.each) as usize) else {
            return;
        };
        into.resize((len as usize).min(self.packet_bytes), 0);
        let at = (buffer % self.each) as usize * self.packet_bytes;
        region.memory().read(at, into);
    }

    fn add_region(&mut self) -> Result<(), VerbsError> {
        let bytes = Bytes::zeroed(self.packet_bytes * self.each as usize)?;
        let region = MemoryRegion::new(&self.domain, bytes, Access::LOCAL)?;
        self.regions.push(region);
        Ok(())
    }

    fn post(
        &self,
        buffer: u32,
        post: impl FnOnce(LocalSlice) -> Result<(), VerbsError>,
    ) -> Result<(), VerbsError> {
        let at = (buffer % self.each) as usize * self.packet_bytes;
        let region = self.regions.get((buffer / self.each) as usize);
        let slice =
            region.and_then(|region| LocalSlice::of(region.registration(), at, self.packet_bytes));
        slice.map_or(Ok(()), post)
    }
}
