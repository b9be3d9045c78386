//! Messages of an endpoint whose receives an owner has: shown to the owner as they come, received
//! into the room that it names.

use core::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use limic::raw::{ClaimId, Messages, Posted, Runtime};
use limic::{Outcome, Selector, Status, Tag};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::peer::*;
use limic_ofi_abi::*;

use super::{Asking, ReceiveContext};
use crate::address_vector::AddressVector;
use crate::call::Bytes;
use crate::endpoint::{Endpoint, sort};
use crate::log;
use crate::node::{Spare, UNNAMED, mark};
use crate::progress::{application_tag, kind, name_of};

/// What an endpoint keeps for the owner of its receives.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) context: OnceCell<Arc<ReceiveContext>>,
    /// Messages that the owner has not seen, in the order in which they came.
    arrived: RefCell<VecDeque<(Status, ClaimId)>>,
    /// Messages that the owner has queued, by its entry for each.
    queued: RefCell<HashMap<*mut fi_peer_rx_entry, (Status, ClaimId)>>,
    /// One of them came from somebody whom no address vector named then.
    unnamed: Cell<bool>,
}

/// What became of showing a message to the owner.
enum Shown {
    /// It is the owner's, or received.
    Done,
    /// The owner has no room now.
    Later,
}

std::thread_local! {
    /// The endpoint that tells the owner addresses.
    static TELLING: Cell<*const Endpoint> = const { Cell::new(core::ptr::null()) };
}

/// `get_addr` of `foreach_unspec_addr`: what the sender of a queued message is called by now. The
/// owner may ask about entries of other providers; nothing is known of those.
pub(super) unsafe extern "C" fn address_of_entry(entry: *mut fi_peer_rx_entry) -> fi_addr_t {
    crate::ffi_guard::cross(UNNAMED, || {
        // SAFETY: `tell_addresses` has put it there, and is still under way.
        let Some(endpoint) = (unsafe { TELLING.get().as_ref() }) else {
            return UNNAMED;
        };
        let queued = endpoint.owned.queued.borrow();
        let message = queued.get(&entry);
        message.map_or(UNNAMED, |(status, _)| {
            endpoint.address_of(status.peer.index())
        })
    })
}

impl Endpoint {
    /// Receives are the owner's from now on, also for what has come already.
    pub(crate) fn receive_for(&self, context: Arc<ReceiveContext>) -> Result<(), i32> {
        if self.enabled.get() {
            return Err(FI_EOPBADSTATE);
        }
        self.owned.context.set(context).map_err(|_| FI_EINVAL)?;
        // No receive is ever posted for them.
        self.limic.reserve_tags(Tag(0), 0);
        self.choose_inbox();
        while let Ok(Some(message)) = self.limic.claim(&Selector::any()) {
            self.owned.arrived.borrow_mut().push_back(message);
        }
        Ok(())
    }

    /// Whether receives are another provider's.
    pub(crate) fn has_owner(&self) -> bool {
        self.owned.context.get().is_some()
    }

    /// An application message has come, which is the owner's to receive.
    pub(crate) fn has_arrived(&self, status: Status, claim: ClaimId) {
        self.owned.arrived.borrow_mut().push_back((status, claim));
    }

    /// Shows the owner what has come. True if there was anything.
    pub(crate) fn show_arrived(&self) -> bool {
        let Some(context) = self.owned.context.get() else {
            return false;
        };
        let mut any = false;
        loop {
            let next = self.owned.arrived.borrow_mut().pop_front();
            let Some((status, claim)) = next else {
                return any;
            };
            any = true;
            match self.show(context, &status, claim) {
                Shown::Done => {}
                Shown::Later => {
                    let mut arrived = self.owned.arrived.borrow_mut();
                    arrived.push_front((status, claim));
                    return any;
                }
            }
        }
    }

    /// Asks the owner for the receive of a message.
    fn show(&self, context: &ReceiveContext, status: &Status, claim: ClaimId) -> Shown {
        let (owner, ops) = (context.owner.as_ptr(), context.ops());
        let tagged = is_tagged(status);
        let (get, queue) = if tagged {
            (ops.get_tag, ops.queue_tag)
        } else {
            (ops.get_msg, ops.queue_msg)
        };
        let mut wanted = fi_peer_match_attr {
            addr: self.address_of(status.peer.index()),
            msg_size: status.len as usize,
            tag: application_tag(status.tag.0),
        };
        let mut entry = core::ptr::null_mut();
        let _asking = Asking::within(&self.domain);
        // SAFETY: functions of the owner, about what it has given; the entries that it gives are
        // this provider's until it gives them back.
        unsafe {
            let found = get(owner, &mut wanted, &mut entry);
            match found {
                0 if !entry.is_null() => {
                    self.receive_entry(entry, status, claim);
                    return Shown::Done;
                }
                _ if found == -FI_ENOENT && !entry.is_null() => {}
                _ if found == -FI_EAGAIN || found == -FI_ENOMEM => return Shown::Later,
                _ => return self.not_shown(found, claim),
            }
            (*entry).peer_context = core::ptr::from_ref(self).cast_mut().cast();
            if let Some(data) = status.immediate {
                (*entry).flags |= FI_REMOTE_CQ_DATA;
                (*entry).cq_data = data;
            }
            let message = (*status, claim);
            self.owned.queued.borrow_mut().insert(entry, message);
            let code = queue(entry);
            if code == 0 {
                self.owned
                    .unnamed
                    .set(self.owned.unnamed.get() || wanted.addr == UNNAMED);
                return Shown::Done;
            }
            self.owned.queued.borrow_mut().remove(&entry);
            (ops.free_entry)(entry);
            if code == -FI_EAGAIN || code == -FI_ENOMEM {
                return Shown::Later;
            }
            self.not_shown(code, claim)
        }
    }

    /// The owner does not take a message, as `lnx` does not take those without tags.
    #[cold]
    fn not_shown(&self, code: i32, claim: ClaimId) -> Shown {
        log::warn(&format_args!(
            "the owner of the receives refuses a message ({code}): it is dropped"
        ));
        self.discard(claim);
        Shown::Done
    }

    /// Receives a message into the room of an entry.
    ///
    /// # Safety
    /// The entry is filled in, and this provider's until it is freed; so is its room.
    unsafe fn receive_entry(&self, entry: *mut fi_peer_rx_entry, status: &Status, claim: ClaimId) {
        let sort = if is_tagged(status) { FI_TAGGED } else { FI_MSG };
        // SAFETY: the caller's promise; the node is nobody else's.
        unsafe {
            let asked = &*entry;
            let spare: *mut Spare = self.pool.take(asked.context);
            let reported = self.receives.with(asked.flags) & FI_COMPLETION != 0;
            (*spare).entry = entry;
            (*spare).node.flags |= FI_RECV
                | sort
                | asked.flags & FI_MULTI_RECV
                | self.mark()
                | if reported { 0 } else { mark::SILENT };
            let room = match Bytes::Pieces(asked.iov, asked.count).room() {
                Ok(room) => room,
                Err(errno) => {
                    self.discard(claim);
                    (*spare).node.flags |= mark::FAILED;
                    (*spare).node.error = errno;
                    (*spare).node.tag = application_tag(status.tag.0);
                    self.free_entry(spare);
                    return self.report(spare.cast());
                }
            };
            if let Some(first) = room.as_slice().first() {
                (*spare).node.buf = first.start.cast();
            }
            match self.limic.post_claimed(claim, room.as_slice()) {
                Ok(Posted::Pending(id)) => self.watch(id, name_of(spare, kind::ENTRY)),
                Ok(Posted::Done(outcome)) => self.entry_is_over(spare, outcome),
                Err(error) => self.entry_is_over(spare, Err(error)),
            }
        }
    }

    /// A receive of the owner's is over.
    ///
    /// # Safety
    /// `spare` is its node, not reported yet.
    pub(crate) unsafe fn entry_is_over(&self, spare: *mut Spare, outcome: Outcome) {
        // SAFETY: the caller's promise.
        unsafe {
            self.free_entry(spare);
            self.finish(spare.cast(), outcome);
        }
    }

    /// Gives the entry of a receive back to the owner.
    ///
    /// # Safety
    /// `spare` is the node of a receive of the owner's, of which the operation is over.
    pub(crate) unsafe fn free_entry(&self, spare: *mut Spare) {
        // SAFETY: the caller's promise: the entry was not given back before.
        unsafe {
            let entry = core::mem::replace(&mut (*spare).entry, core::ptr::null_mut());
            if let (Some(context), false) = (self.owned.context.get(), entry.is_null()) {
                let _asking = Asking::within(&self.domain);
                (context.ops().free_entry)(entry);
            }
        }
    }

    /// The owner has found the receive of a queued message.
    pub(super) fn start(&self, entry: *mut fi_peer_rx_entry) -> Result<(), i32> {
        let (status, claim) = self.unqueue(entry)?;
        // SAFETY: the owner has filled it in, and it is this provider's again.
        unsafe { self.receive_entry(entry, &status, claim) };
        Ok(())
    }

    /// The owner drops a queued message, and frees its entry by itself.
    pub(super) fn discard_entry(&self, entry: *mut fi_peer_rx_entry) -> Result<(), i32> {
        let (_, claim) = self.unqueue(entry)?;
        self.discard(claim);
        Ok(())
    }

    /// Takes out the message of an entry, which the owner can pass only once.
    fn unqueue(&self, entry: *mut fi_peer_rx_entry) -> Result<(Status, ClaimId), i32> {
        self.owned
            .queued
            .borrow_mut()
            .remove(&entry)
            .ok_or(FI_EINVAL)
    }

    /// An address vector knows more: the owner learns who has sent what it has queued.
    pub(crate) fn tell_addresses(&self, vector: &AddressVector) {
        let Some(context) = self.owned.context.get() else {
            return;
        };
        if !self.owned.unnamed.get() || !self.uses(vector) {
            return;
        }
        let _asking = Asking::within(&self.domain);
        TELLING.set(core::ptr::from_ref(self));
        // SAFETY: a function of the owner, about what it has given.
        unsafe { (context.ops().foreach_unspec_addr)(context.owner.as_ptr(), address_of_entry) };
        TELLING.set(core::ptr::null());
        let queued = self.owned.queued.borrow();
        let mut peers = queued.values().map(|(status, _)| status.peer.index());
        let unnamed = peers.any(|peer| self.address_of(peer) == UNNAMED);
        self.owned.unnamed.set(unnamed);
    }

    /// The endpoint is closed: the owner starts none of its messages any more.
    pub(crate) fn forget_owned(&self) {
        self.owned.arrived.borrow_mut().clear();
        self.owned.queued.borrow_mut().clear();
        self.owned.unnamed.set(false);
    }
}

/// Whether a message has a tag of the application's.
fn is_tagged(status: &Status) -> bool {
    status.tag.0 & sort::NOT_TAGGED == 0
}
