//! Sends: the module copies, keeps or queues them; what it cannot take waits here.

use limic_copy::{CallError, Messages};
use limic_policy::select;
use limic_shm::bytes::{SendBuffer, total};

use super::{KernelEngine, Offered, Operation, Place, Sending, local};
use crate::raw::{Posted, RawSlice, RequestId};
use crate::{Error, Result};

const _: () = assert!(select::module::LONGEST_KEPT <= Messages::BUFFERED);

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
            match unsafe { self.offer_send((to, rank), tag, immediate, data) }? {
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
        let offered = unsafe { self.offer_send((to, rank), tag, immediate, data) };
        matches!(offered, Ok(Offered::Over(Ok(_))))
    }

    /// Hands a send to the module. One trap.
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    unsafe fn offer_send(
        &mut self,
        (to, rank): (u32, u32),
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<Offered> {
        let len = total(data);
        let offered = self.offer(
            |messages, slot| {
                let (slices, buffered) = (local(data), select::module::is_kept(len));
                // SAFETY: the caller's promise.
                unsafe { messages.send(slot, rank, tag, immediate, &slices, buffered) }
            },
            |engine, ended| engine.sent(to, tag, len, ended),
        );
        let module = self.module.as_ref();
        match offered {
            Err(CallError::Full) => Ok(Offered::Busy),
            // What is pinned now is let go some time.
            Err(CallError::LockedMemory) if module.is_some_and(|it| !it.posted.is_empty()) => {
                Ok(Offered::Busy)
            }
            offered => offered.map_err(|why| self.error(to, why)),
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
                unsafe { self.offer_send((to, rank), tag, immediate, &slices) }
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

    /// Asks that a request be cancelled.
    pub(super) fn cancel(&mut self, id: RequestId) -> Result<()> {
        let slot = self.requests.find(id).ok_or(Error::UnknownRequest)?;
        let Some(place) = self.requests.get(slot).place() else {
            return Ok(());
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
