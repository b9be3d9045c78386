//! The queue for greetings: datagrams, and the memory that they lie in.

use std::sync::Arc;
use std::time::Instant;

use super::RailAddress;
use super::clock::{LONGEST_PAUSE, pause};
use super::greeting::{LONGEST, longest};
use crate::VerbsError;
use crate::objects::{
    Access, AddressHandle, Bytes, Completion, CompletionQueue, DatagramQueue, GRH_BYTES,
    LocalSlice, MemoryRegion, Port, ProtectionDomain, WorkStatus,
};

/// Requests of the datagram queue have this bit in their number.
pub(super) const DATAGRAM: u64 = 1 << 62;

/// Datagrams that can be on their way, and be waiting to be read.
const SLOTS: u32 = 64;
/// Completions that greetings can have under way: one for each slot of either direction.
pub(super) const DATAGRAMS: u32 = 2 * SLOTS;
/// Bytes of the longest datagram of any port, with what the adapter puts before it. Anybody may
/// send one, and the queue would fail by one that is too long.
const RECEIVE_BYTES: usize = 4096 + GRH_BYTES;
/// Where the slots of datagrams on their way out begin.
const SENDS: usize = SLOTS as usize * RECEIVE_BYTES;

/// The queue for greetings, and its memory.
#[derive(Debug)]
pub(super) struct Greeter {
    // The queue before the memory that it may still fill.
    queue: DatagramQueue,
    memory: MemoryRegion<Bytes>,
    /// Ways that datagrams are using, and slots that are free.
    ways: Vec<Option<AddressHandle>>,
    free: Vec<u32>,
    /// Receives that the adapter has.
    lent: u32,
    /// The queue is in its error state; when it may be made anew, and how often that was in vain.
    has_failed: bool,
    next: Instant,
    in_vain: u32,
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
        let bytes = Bytes::zeroed(SENDS + SLOTS as usize * LONGEST)?;
        let mut greeter = Self {
            queue,
            memory: MemoryRegion::new(domain, bytes, Access::LOCAL)?,
            ways: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS).rev().collect(),
            lent: 0,
            has_failed: false,
            next: Instant::now(),
            in_vain: 0,
            domain: Arc::clone(domain),
            _completions: Arc::clone(completions),
        };
        greeter.listen()?;
        Ok(greeter)
    }

    /// Posts all receives.
    fn listen(&mut self) -> Result<(), VerbsError> {
        (0..SLOTS).try_for_each(|slot| self.post_receive(slot))
    }

    pub(super) fn number(&self) -> u32 {
        self.queue.number()
    }

    fn post_receive(&mut self, slot: u32) -> Result<(), VerbsError> {
        let at = slot as usize * RECEIVE_BYTES;
        let Some(slice) = LocalSlice::of(self.memory.registration(), at, RECEIVE_BYTES) else {
            return Ok(());
        };
        // SAFETY: the slot is not posted at this time; the region outlives the queue (field order).
        unsafe { self.queue.post_receive(DATAGRAM | u64::from(slot), slice)? };
        self.lent += 1;
        Ok(())
    }

    /// Sends a datagram if there is a slot; a lost one is repeated by the clock.
    pub(super) fn send(
        &mut self,
        port: &Port,
        to: &RailAddress,
        bytes: &[u8],
    ) -> Result<(), VerbsError> {
        if self.has_failed {
            return Err(VerbsError::State {
                state: "error",
                wanted: "send a greeting",
            });
        }
        let Some(&slot) = self.free.last() else {
            return Ok(());
        };
        let at = SENDS + slot as usize * LONGEST;
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
        let is_done = completion.status == WorkStatus::Done;
        if completion.id & (1 << 32) != 0 {
            self.ways[slot as usize] = None;
            self.free.push(slot);
        } else {
            self.lent -= 1;
            if is_done {
                let len = (completion.bytes as usize).clamp(GRH_BYTES, RECEIVE_BYTES) - GRH_BYTES;
                into.resize(len, 0);
                let at = slot as usize * RECEIVE_BYTES + GRH_BYTES;
                self.memory.memory().read(at, into);
            }
            if is_done && !self.has_failed {
                if let Err(error) = self.post_receive(slot) {
                    tracing::error!("a receive for greetings is lost: {error}");
                }
            }
        }
        if is_done {
            self.in_vain = 0;
        } else if !self.has_failed {
            self.fail();
        }
    }

    /// All that was posted comes back: a send may have failed alone, or some receives be posted.
    fn fail(&mut self) {
        self.has_failed = true;
        if let Err(error) = self.queue.fail() {
            tracing::debug!("the queue for greetings is not set to its error state: {error}");
        }
    }

    /// When a queue that has failed is to be made anew: nothing that was posted is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_idle = self.lent == 0 && self.free.len() == SLOTS as usize;
        (self.has_failed && is_idle).then_some(self.next)
    }

    /// Makes the queue anew if that is due. One that fails at once has longer and longer pauses.
    pub(super) fn begin_anew(&mut self, port: &Port, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let made = self.queue.restart(port).and_then(|()| self.listen());
        let name = self.domain.context().name();
        match &made {
            Ok(()) if self.in_vain == 0 => {
                tracing::warn!("the queue for greetings of {name} had failed, and is made anew");
            }
            _ => tracing::debug!("the queue for greetings of {name} fails again: {made:?}"),
        }
        self.has_failed = false;
        if made.is_err() {
            self.fail();
        }
        self.next = now + pause(self.in_vain, LONGEST_PAUSE);
        self.in_vain = self.in_vain.saturating_add(1);
    }
}
