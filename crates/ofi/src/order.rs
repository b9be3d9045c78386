//! Orders of accesses, for applications that ask for them (`FI_ORDER_RAW` and the like).
//!
//! A single copy is over when its call returns. But a peer may have to help with a read or a write,
//! and it executes what it is asked for by message. Messages keep their order; help does not. So,
//! where order is asked for, an access does not begin while an earlier one to the same peer is
//! under way that it could overtake. Its call says `FI_EAGAIN`, and the caller tries again. What is
//! asked for by message may follow what is asked for by message; all else waits.

use limic::Peer;
use limic::raw::OneSided;
use limic_ofi_abi::errno::FI_EAGAIN;

use crate::endpoint::Endpoint;

impl Endpoint {
    /// Whether an access to this peer may begin. `is_message`: the peer is asked for it by message.
    /// Otherwise it is a read or a write.
    #[inline(always)]
    pub(crate) fn may_begin(&self, peer: Peer, is_message: bool) -> Result<(), i32> {
        if self.keeps_order {
            return self.may_begin_now(peer, is_message);
        }
        Ok(())
    }

    #[inline(never)]
    fn may_begin_now(&self, peer: Peer, is_message: bool) -> Result<(), i32> {
        let is_free = || {
            let has_asked = || self.unanswered.borrow().has_any(peer);
            !self.limic.is_helping(peer) && (is_message || !has_asked())
        };
        if !is_free() {
            self.progress();
        }
        is_free().then_some(()).ok_or(FI_EAGAIN)
    }
}
