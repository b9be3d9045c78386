//! Sends: the module copies, keeps or queues them; what it cannot take waits here.

use limic_copy::{CallError, Messages, Posted as InModule};
use limic_policy::select;
use limic_shm::bytes::{SendBuffer, total};

use super::{KernelEngine, Operation, Place, Sending, local};
use crate::error::Outcome;
use crate::raw::{Posted, RawSlice, RequestId};
use crate::{Error, Peer, Result, Status, Tag};

const _: () = assert!(select::module::LONGEST_KEPT <= Messages::BUFFERED);

/// What became of a send that was offered to the module.
enum Offered {
    Over(Outcome),
    /// In this slot of the module.
    Queued(u32),
    /// Not now: all slots are in use, the receiver's queue is full, or too much is pinned.
    Busy,
}

impl KernelEngine {
    /// Starts a send.
    ///
    /// # Safety
    /// As [`Messages::post_send`](crate::raw::Messages::post_send).
    pub(super) unsafe fn post_send(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<Posted> {
        let rank = self.rank(to)?;
        // More slices than a list takes become one: abandoned with the request.
        let gathered = (data.len() > Messages::SLICES).then(|| {
            // SAFETY: the caller's promise.
            unsafe { SendBuffer::new(data) }.to_vec()
        });
        let whole = gathered.as_deref().map(RawSlice::from);
        let data = whole.as_ref().map_or(data, core::slice::from_ref);
        let mut place = Place::Here;
        if self
            .peers
            .get(to)
            .is_some_and(|entry| entry.backlogged == 0)
        {
            // SAFETY: the caller's promise, and what was gathered is kept until the request is
            // over.
            match unsafe { self.offer((to, rank), tag, immediate, data) }? {
                Offered::Over(outcome) => return Ok(Posted::Done(outcome)),
                Offered::Queued(slot) => place = Place::Module(slot),
                Offered::Busy => {}
            }
        }
        let sending = Sending {
            to,
            tag,
            immediate,
            // SAFETY: as above.
            data: unsafe { SendBuffer::new(data) },
            gathered,
            place,
        };
        let slot = self.requests.insert(Operation::Send(sending));
        match (place, &mut self.module) {
            (Place::Module(number), Some(module)) => module.posted.push((number, slot)),
            _ => {
                self.counters.event(crate::counters::Event::Waited);
                self.queue.backlog.push_back(slot);
                if let Some(entry) = self.peers.get(to) {
                    entry.backlogged += 1;
                }
            }
        }
        Ok(Posted::Pending(self.requests.id(slot)))
    }

    /// Sends if that needs neither the receiver's help nor a wait.
    pub(super) unsafe fn try_send(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> bool {
        let Ok(rank) = self.rank(to) else {
            return false;
        };
        let waits = self.peers.get(to).is_some_and(|entry| entry.backlogged > 0);
        if waits || !select::module::is_kept(total(data)) || data.len() > Messages::SLICES {
            return false;
        }
        // SAFETY: readable during the call, by the caller; a send that the module keeps is over
        // when it returns.
        let offered = unsafe { self.offer((to, rank), tag, immediate, data) };
        matches!(offered, Ok(Offered::Over(Ok(_))))
    }

    /// Hands a send to the module. One trap.
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    unsafe fn offer(
        &mut self,
        (to, rank): (u32, u32),
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<Offered> {
        let len = total(data);
        let Some(module) = &mut self.module else {
            return Ok(Offered::Busy);
        };
        let Some(slot) = module.take() else {
            return Ok(Offered::Busy);
        };
        let buffered = select::module::is_kept(len);
        let slices = local(data);
        // SAFETY: the caller's promise.
        let called = unsafe {
            module
                .messages
                .send(slot, rank, tag, immediate, &slices, buffered)
        };
        match called {
            Ok(InModule::Pending) => Ok(Offered::Queued(slot)),
            Ok(InModule::Done) => {
                let ended = module.messages.ended(slot);
                module.free.push(slot);
                Ok(Offered::Over(self.sent(to, tag, len, ended)))
            }
            Err(why) => {
                module.free.push(slot);
                let pinned = !module.posted.is_empty();
                match why {
                    CallError::Full => Ok(Offered::Busy),
                    // What is pinned now is let go some time.
                    CallError::LockedMemory if pinned => Ok(Offered::Busy),
                    why => Err(self.error(to, why)),
                }
            }
        }
    }

    /// Offers sends of the backlog again, each peer's in their order. True if one went.
    pub(super) fn flush(&mut self) -> bool {
        let mut moved = false;
        let mut blocked: Vec<u32> = Vec::new();
        for slot in core::mem::take(&mut self.queue.backlog) {
            let Operation::Send(sending) = self.requests.get(slot) else {
                // Cancelled meanwhile.
                continue;
            };
            let (to, tag, immediate) = (sending.to, sending.tag, sending.immediate);
            if blocked.contains(&to) {
                self.queue.backlog.push_back(slot);
                continue;
            }
            let slices = sending.data.slices().to_vec();
            let offered = self.rank(to).and_then(|rank| {
                // SAFETY: the request is not over, so its buffer is readable by the invariant of
                // `SendBuffer`.
                unsafe { self.offer((to, rank), tag, immediate, &slices) }
            });
            match offered {
                Ok(Offered::Busy) => {
                    blocked.push(to);
                    self.queue.backlog.push_back(slot);
                    continue;
                }
                Ok(Offered::Queued(number)) => {
                    if let Operation::Send(sending) = self.requests.get(slot) {
                        sending.place = Place::Module(number);
                    }
                    if let Some(module) = &mut self.module {
                        module.posted.push((number, slot));
                    }
                }
                Ok(Offered::Over(outcome)) => self.requests.complete(slot, outcome),
                Err(error) => self.requests.complete(slot, Err(error)),
            }
            moved = true;
            self.leave_backlog(to);
        }
        moved
    }

    /// A send is in the backlog no more.
    pub(super) fn leave_backlog(&mut self, to: u32) {
        if let Some(entry) = self.peers.get(to) {
            entry.backlogged -= 1;
        }
    }

    /// Counts a send, and gives its status.
    pub(super) fn note_sent(&mut self, to: u32, tag: u64, len: u64) -> Status {
        self.counters
            .sent(self.peers.row(to), select::module::path(len), len);
        Status {
            peer: Peer(to),
            tag: Tag(tag),
            len,
            immediate: None,
        }
    }

    /// Asks that a request be cancelled.
    pub(super) fn cancel(&mut self, id: RequestId) -> Result<()> {
        let slot = self.requests.find(id).ok_or(Error::UnknownRequest)?;
        let place = match self.requests.get(slot) {
            Operation::Send(sending) => sending.place,
            Operation::Receive(receiving) => receiving.place,
            Operation::Over => return Ok(()),
        };
        match (place, &self.module) {
            (Place::Module(number), Some(module)) => {
                // If it is too late, the request ends by itself.
                if module.messages.cancel(number).is_ok() {
                    self.collect();
                }
            }
            (Place::Module(_), None) => {}
            (Place::Here, _) => {
                if let Operation::Send(sending) = self.requests.get(slot) {
                    let to = sending.to;
                    self.queue.backlog.retain(|other| *other != slot);
                    self.leave_backlog(to);
                } else {
                    self.queue.waiting.retain(|other| *other != slot);
                    // Receives behind it may go to the module now.
                    self.queue.look = true;
                }
                self.requests.complete(slot, Err(Error::Cancelled));
            }
        }
        Ok(())
    }
}
