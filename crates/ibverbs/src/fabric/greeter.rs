//! The queue for greetings: datagrams, and the memory that they lie in.

use std::sync::Arc;

use super::RailAddress;
use super::greeting::{LONGEST, longest};
use crate::VerbsError;
use crate::objects::{
    Access, AddressHandle, Bytes, Completion, CompletionQueue, DatagramQueue, GRH_BYTES,
    LocalSlice, MemoryRegion, Port, ProtectionDomain, WorkKind, WorkStatus,
};

/// Requests of the datagram queue have this bit in their number.
pub(super) const DATAGRAM: u64 = 1 << 62;

/// Datagrams that can be on their way, and be waiting to be read.
const SLOTS: u32 = 64;
/// Completions that greetings can have under way: one for each slot of either direction.
pub(super) const DATAGRAMS: u32 = 2 * SLOTS;
/// Bytes of a datagram with what the adapter puts before it.
const SLOT_BYTES: usize = 1024;
const _: () = assert!(LONGEST + GRH_BYTES <= SLOT_BYTES);

/// The queue for greetings, and its memory.
#[derive(Debug)]
pub(super) struct Greeter {
    // The queue before the memory that it may still fill.
    queue: DatagramQueue,
    memory: MemoryRegion<Bytes>,
    /// Ways that datagrams are using, and slots that are free.
    ways: Vec<Option<AddressHandle>>,
    free: Vec<u32>,
    domain: Arc<ProtectionDomain>,
    _completions: Arc<CompletionQueue>,
}

impl Greeter {
    /// A queue at this port. Endpoints of so many rails and streams say how many bytes their
    /// greetings have.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        port: &Port,
        (rails, streams): (usize, u8),
    ) -> Result<Self, VerbsError> {
        let (needed, most) = (longest(rails, streams.into()), port.datagram_bytes());
        if needed > most {
            return Err(VerbsError::Setting {
                device: domain.context().name().to_owned(),
                port: port.number(),
                why: format!(
                    "carries datagrams of {most} bytes, and greetings for {streams} streams \
                     (LIMIC_VERBS_STREAMS) have {needed}"
                ),
            });
        }
        let queue = DatagramQueue::new(domain, completions, port, SLOTS)?;
        // Receives first, sends behind them.
        let bytes = Bytes::zeroed(2 * SLOTS as usize * SLOT_BYTES)?;
        let greeter = Self {
            queue,
            memory: MemoryRegion::new(domain, bytes, Access::LOCAL)?,
            ways: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS).rev().collect(),
            domain: Arc::clone(domain),
            _completions: Arc::clone(completions),
        };
        for slot in 0..SLOTS {
            greeter.post_receive(slot)?;
        }
        Ok(greeter)
    }

    pub(super) fn number(&self) -> u32 {
        self.queue.number()
    }

    fn post_receive(&self, slot: u32) -> Result<(), VerbsError> {
        let at = slot as usize * SLOT_BYTES;
        let Some(slice) = LocalSlice::of(self.memory.registration(), at, SLOT_BYTES) else {
            return Ok(());
        };
        // SAFETY: the slot is not posted at this time; the region outlives the queue (field order).
        unsafe { self.queue.post_receive(DATAGRAM | u64::from(slot), slice) }
    }

    /// Sends a datagram if there is a slot; a lost one is repeated by the clock.
    pub(super) fn send(
        &mut self,
        port: &Port,
        to: &RailAddress,
        bytes: &[u8],
    ) -> Result<(), VerbsError> {
        let Some(&slot) = self.free.last() else {
            return Ok(());
        };
        let at = (SLOTS + slot) as usize * SLOT_BYTES;
        let way = AddressHandle::new(&self.domain, port, &to.port)?;
        self.memory.memory_mut().write(at, bytes);
        let slice = LocalSlice::of(self.memory.registration(), at, bytes.len());
        let Some(slice) = slice else { return Ok(()) };
        let id = DATAGRAM | 1 << 32 | u64::from(slot);
        // SAFETY: the slot is not in use until its completion; the handle is kept until then.
        unsafe { self.queue.send(id, slice, &way, to.greeter)? };
        self.ways[slot as usize] = Some(way);
        self.free.pop();
        Ok(())
    }

    /// A request of the queue is over. Gives the datagram if one came.
    pub(super) fn completed(&mut self, completion: &Completion, into: &mut Vec<u8>) {
        into.clear();
        let slot = completion.id as u32 % SLOTS;
        if completion.id & (1 << 32) != 0 {
            self.ways[slot as usize] = None;
            self.free.push(slot);
            return;
        }
        if completion.status == WorkStatus::Done && completion.kind == WorkKind::Receive {
            let len = (completion.bytes as usize).clamp(GRH_BYTES, SLOT_BYTES) - GRH_BYTES;
            into.resize(len, 0);
            let at = slot as usize * SLOT_BYTES + GRH_BYTES;
            self.memory.memory().read(at, into);
        }
        if let Err(error) = self.post_receive(slot) {
            tracing::error!("a receive for greetings is lost: {error}");
        }
    }
}
