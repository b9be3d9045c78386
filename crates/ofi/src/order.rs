//! Orders of accesses, for applications that ask for them (`FI_ORDER_RAW` and the like).
//!
//! A single copy is over when its call returns. But a peer may have to help with a read or a write,
//! and it executes what it is asked for by message. Messages keep their order; help does not. So,
//! where order is asked for, an access does not begin while an earlier one to the same peer is
//! under way that it could overtake. Its call says `FI_EAGAIN`, and the caller tries again. What is
//! asked for by message may follow what is asked for by message; all else waits.

use core::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use limic::Peer;
use limic_ofi_abi::errno::FI_EAGAIN;

use crate::endpoint::Endpoint;
use crate::info::ACCESS_ORDER;
use crate::node::{Node, mark};

/// Whether an endpoint keeps the order of accesses, and what it needs for that.
pub(crate) struct Order {
    is_kept: bool,
    /// Reads and writes under way with which peers help. Peers without any are not there.
    helped: RefCell<HashMap<Peer, u32>>,
}

impl Order {
    /// Of an endpoint with these orders.
    pub(crate) fn new(orders: u64) -> Self {
        Self {
            is_kept: orders & ACCESS_ORDER != 0,
            helped: RefCell::default(),
        }
    }
}

impl Endpoint {
    /// Whether an access to this peer may begin. `is_message`: the peer is asked for it by message.
    /// Otherwise it is a read or a write.
    #[inline(always)]
    pub(crate) fn in_order(&self, peer: Peer, is_message: bool) -> Result<(), i32> {
        if self.order.is_kept {
            return self.has_passed(peer, is_message);
        }
        Ok(())
    }

    #[inline(never)]
    fn has_passed(&self, peer: Peer, is_message: bool) -> Result<(), i32> {
        let is_free = || {
            let is_helping = self.order.helped.borrow().contains_key(&peer);
            !is_helping && (is_message || !self.unanswered.borrow().has_any(peer))
        };
        if !is_free() {
            self.progress();
        }
        is_free().then_some(()).ok_or(FI_EAGAIN)
    }

    /// An access was begun, with which its peer helps.
    ///
    /// # Safety
    /// The node is that of the access, and not reported yet.
    #[inline(always)]
    pub(crate) unsafe fn is_helped(&self, peer: Peer, node: *mut Node) {
        if self.order.is_kept {
            *self.order.helped.borrow_mut().entry(peer).or_default() += 1;
            // SAFETY: the caller's promise.
            unsafe { (*node).flags |= mark::AWAITED };
        }
    }

    /// An access is over that others may wait for.
    #[cold]
    pub(crate) fn lets_pass(&self, peer: Peer) {
        if let Entry::Occupied(mut helped) = self.order.helped.borrow_mut().entry(peer) {
            *helped.get_mut() -= 1;
            if *helped.get() == 0 {
                helped.remove();
            }
        }
    }
}
