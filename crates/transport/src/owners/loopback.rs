//! An endpoint on the heap that knows itself alone, and completes each operation as late as it may:
//! one in each call that makes progress. It holds the buffers as the engine does.

use core::cell::RefCell;
use core::time::Duration;
use std::any::Any;
use std::os::fd::BorrowedFd;

use limic_shm::bytes::{ReceiveBuffer, SendBuffer};

use super::state::{Memory, State, Task};
use crate::counters::Counters;
use crate::engine::protocol::loans::fetched;
use crate::engine::request::Operation;
use crate::error::Outcome;
use crate::raw::sealed::Sealed;
use crate::raw::{
    Access, ClaimId, Inbox, Loans, Messages, OneSided, Owner, Posted, RawEndpoint, RawLoan,
    RawLoaned, RawSlice, RawSliceMut, RegionId, RequestId, Requests, Reserved, Runtime,
    SendOptions, part,
};
use crate::{Address, Endpoint, Error, Peer, Result, Selector, Status, Tag};

#[derive(Default)]
pub(super) struct Loopback(RefCell<State>);

impl core::fmt::Debug for Loopback {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Loopback")
    }
}

impl Loopback {
    fn state(&self) -> core::cell::RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// Memory that is neither taken back nor freed.
    pub(super) fn kept(&self) -> usize {
        self.state().memory.len()
    }
}

// SAFETY: it touches posted buffers only through `SendBuffer` and `ReceiveBuffer`, which it drops
// before or when it marks the operation done.
unsafe impl RawEndpoint for Loopback {}

impl Sealed for Loopback {}

impl Messages for Loopback {
    unsafe fn post_send_with(
        &self,
        _: Peer,
        tag: Tag,
        _: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        let data = unsafe { SendBuffer::new(data) };
        Ok(self.state().start(Task::Send(tag, data, None)))
    }
    unsafe fn try_send(&self, _: Peer, _: Tag, _: Option<u64>, _: &[RawSlice]) -> bool {
        false
    }
    unsafe fn post_recv(&self, selector: &Selector, into: &[RawSliceMut]) -> Result<Posted> {
        // SAFETY: the caller's promise.
        let into = unsafe { ReceiveBuffer::new(into) };
        Ok(self.state().start(Task::Receive(*selector, into)))
    }
    unsafe fn post_claimed(&self, claim: ClaimId, into: &[RawSliceMut]) -> Result<Posted> {
        let mut state = self.state();
        let claimed = state
            .claimed
            .remove(&claim.0)
            .ok_or(Error::UnknownRequest)?;
        // SAFETY: the caller's promise.
        let into = unsafe { ReceiveBuffer::new(into) };
        let slot = state.table().insert(Operation::Over);
        state.deliver(claimed, slot, &into);
        Ok(Posted::Pending(state.table().id(slot)))
    }
    fn peek(&self, selector: &Selector) -> Result<Option<Status>> {
        Ok(self.state().sent(selector).map(|(_, status)| status))
    }
    fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        let mut state = self.state();
        let Some((at, status)) = state.sent(selector) else {
            return Ok(None);
        };
        let (name, claimed) = (state.name(), state.tasks.remove(at));
        state.claimed.insert(name, claimed);
        Ok(Some((status, ClaimId(name))))
    }
}

impl Requests for Loopback {
    fn test(&self, request: RequestId) -> Option<Outcome> {
        self.progress();
        let mut state = self.state();
        match state.slot(request) {
            Some(slot) => state.table().take_done(slot),
            None => Some(Err(Error::UnknownRequest)),
        }
    }
    fn is_done(&self, request: RequestId) -> bool {
        let mut state = self.state();
        let slot = state.slot(request);
        slot.is_none_or(|slot| state.table().is_done(slot))
    }
    fn news(&self) -> u64 {
        self.state().table().completed()
    }
    fn wait(&self, request: RequestId) -> Outcome {
        loop {
            let moved = self.progress();
            if let Some(outcome) = self.test(request) {
                return outcome;
            }
            assert!(moved || self.progress(), "nobody would ever end it");
        }
    }
    fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)> {
        let at = loop {
            self.progress();
            if let Some(at) = requests.iter().position(|id| self.is_done(*id)) {
                break at;
            }
        };
        Some((at, self.wait(requests[at])))
    }
    fn cancel(&self, request: RequestId) -> Result<()> {
        let mut state = self.state();
        let slot = state.slot(request).ok_or(Error::UnknownRequest)?;
        let task = state.tasks.iter().position(|(other, _)| *other == slot);
        if let Some(at) = task {
            let (slot, task) = state.tasks.remove(at);
            if let Task::Send(_, _, Some(loan)) = task {
                drop(state.memory.remove(&loan).map(Memory::into_vec));
            }
            state.table().complete(slot, Err(Error::Cancelled));
        }
        Ok(())
    }
    fn watch(&self, _: RequestId, _: u64) -> Result<()> {
        Ok(())
    }
    fn next_completed(&self) -> Option<(u64, Outcome)> {
        None
    }
    fn watched(&self, _: u64) -> Option<RequestId> {
        None
    }
    fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId {
        self.state().table().insert_done(outcome, owner)
    }
    fn new_owner(&self) -> u32 {
        self.state().table().new_owner()
    }
    unsafe fn set_owner(&self, request: RequestId, owner: u32) {
        let mut state = self.state();
        if let Some(slot) = state.slot(request) {
            state.table().set_owner(slot, Owner::Scope(owner));
        }
    }
    fn owned_by(&self, owner: u32) -> Option<RequestId> {
        self.state().table().owned_by(owner)
    }
    fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>) {
        let mut state = self.state();
        match state.slot(request) {
            Some(slot) if !state.table().is_done(slot) => state.table().abandon(slot, buffer),
            Some(slot) => state.table().release(slot),
            None => {}
        }
    }
}

impl OneSided for Loopback {
    fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
        let mut state = self.state();
        let name = state.name();
        state.memory.insert(name, Memory::new(memory));
        Ok((RegionId(name), name))
    }
    unsafe fn expose_raw(
        &self,
        _: RawSliceMut,
        key: Option<u64>,
        _: Access,
        _: u64,
    ) -> Result<(RegionId, u64)> {
        Err(Error::KeyInUse {
            key: key.unwrap_or(0),
        })
    }
    fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
        let part = part(&self.state().memory[&region.0].0, offset, into.len())?;
        // SAFETY: within the region, which nobody else has.
        unsafe { core::ptr::copy_nonoverlapping(part.start, into.as_mut_ptr(), part.len) };
        Ok(())
    }
    fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()> {
        let part = part(&self.state().memory[&region.0].0, offset, from.len())?;
        // SAFETY: as in `region_read`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), part.start, part.len) };
        Ok(())
    }
    fn revoke(&self, region: RegionId) -> Result<Vec<u8>> {
        while self.progress() {}
        let memory = self.state().memory.remove(&region.0);
        memory.map(Memory::into_vec).ok_or(Error::UnknownRequest)
    }
    fn try_revoke(&self, region: RegionId) -> Result<Option<Vec<u8>>> {
        self.revoke(region).map(Some)
    }
    unsafe fn post_read(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        let mut state = self.state();
        // SAFETY: the caller's promise.
        let into = unsafe { ReceiveBuffer::new(into) };
        let memory = state
            .memory
            .get(&key)
            .ok_or(Error::UnknownRegion { peer })?;
        let RawSliceMut { start, len } = part(&memory.0, offset, into.len() as usize)?;
        // SAFETY: the region stays until it is revoked, which ends all copies.
        let from = unsafe { SendBuffer::new(&[RawSlice { start, len }]) };
        Ok(state.start(Task::Copy(from, into)))
    }
    unsafe fn post_write(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        let mut state = self.state();
        // SAFETY: the caller's promise.
        let from = unsafe { SendBuffer::new(from) };
        let memory = state
            .memory
            .get(&key)
            .ok_or(Error::UnknownRegion { peer })?;
        let part = part(&memory.0, offset, from.len() as usize)?;
        // SAFETY: the region stays until it is revoked, which ends all copies.
        let into = unsafe { ReceiveBuffer::new(&[part]) };
        Ok(state.start(Task::Copy(from, into)))
    }
    fn is_helping(&self, _: Peer) -> bool {
        false
    }
}

impl Loans for Loopback {
    fn borrow_loan(&self, len: usize) -> Result<RawLoan> {
        let mut state = self.state();
        let (id, memory) = (state.name(), Memory::new(vec![0; len]));
        let start = memory.0.writable().start;
        state.memory.insert(id, memory);
        Ok(RawLoan { start, len, id })
    }
    unsafe fn post_loan(&self, _: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<Posted> {
        let start = loan.start;
        // SAFETY: the memory stays until the message is received.
        let data = unsafe { SendBuffer::new(&[RawSlice { start, len }]) };
        Ok(self.state().start(Task::Send(tag, data, Some(loan.id))))
    }
    unsafe fn return_loan(&self, loan: RawLoan) {
        drop(self.state().memory.remove(&loan.id).map(Memory::into_vec));
    }
    fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>> {
        let Some((status, claim)) = self.claim(selector)? else {
            return Ok(None);
        };
        let mut bytes = vec![0; status.len as usize];
        // SAFETY: the vector outlives the call, in which the copy is made.
        let Posted::Pending(id) =
            (unsafe { self.post_claimed(claim, &[RawSliceMut::from(&mut bytes[..])]) })?
        else {
            return Ok(None);
        };
        self.wait(id).map(|status| Some(fetched(status, bytes)))
    }
    fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned> {
        self.take_loan(selector)?.ok_or(Error::UnknownRequest)
    }
}

impl Runtime for Loopback {
    fn keep_any_source_receives(&self) {}
    fn reserve_tags(&self, _: Tag, _: u64) {}
    fn has_reserved(&self) -> bool {
        false
    }
    fn use_inbox(&self, _: bool) {}
    fn take_inbox(&self, inbox: &mut Inbox) {
        inbox.clear();
    }
    fn take_reserved(&self) -> Option<Reserved> {
        None
    }
    fn report_accesses(&self, _: u64, _: Access) {}
    fn takes_receipts(&self, _: Peer) -> bool {
        false
    }
    fn give_receipt(&self, _: Peer, _: u64) {}
    fn receipt_of(&self, _: Peer) -> u64 {
        0
    }
    fn connects_at_start(&self, _: Peer) -> Result<bool> {
        Ok(false)
    }
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
    fn say_awaited(&self, _: &'static str, _: &Selector) {}
    fn say_contact(&self, _: Peer) {}
    fn say_under_way(&self, _: &'static str) {}
    fn is_busy(&self) -> bool {
        self.0.try_borrow_mut().is_err()
    }
}

impl Endpoint for Loopback {
    fn address(&self) -> Address {
        panic!("it is found by nobody")
    }
    fn myself(&self) -> Peer {
        Peer(0)
    }
    fn connect(&self, _: &[u8]) -> Result<Peer> {
        Ok(Peer(0))
    }
    fn peer_address(&self, _: Peer) -> Result<Address> {
        Ok(self.address())
    }
    fn attach(&self, _: Peer) -> Result<bool> {
        Ok(true)
    }
    fn progress(&self) -> bool {
        let (moved, freed) = {
            let mut state = self.state();
            (state.step(), state.table().take_freed())
        };
        // Outside, since it may use the endpoint.
        drop(freed);
        moved
    }
    fn sleep(&self, _: Option<Duration>) {}
    fn wake_fd(&self) -> BorrowedFd<'_> {
        panic!("it never sleeps")
    }
    fn arm(&self) -> bool {
        false
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
    fn close(&self) {}
}
