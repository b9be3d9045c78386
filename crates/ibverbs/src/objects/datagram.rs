//! Datagrams (UD): how endpoints that are not connected find each other. They may be lost, repeated
//! or overtaken.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;
use sys::ibv_qp_attr_mask as mask;

use super::completion::CompletionQueue;
use super::domain::ProtectionDomain;
use super::pair_calls::{blank, modify, receive};
use super::port::{Port, PortAddress};
use super::work::LocalSlice;
use crate::VerbsError;
use crate::error::leaked;

/// Bytes at the start of every received datagram that the adapter fills for itself (the global
/// route header).
pub const GRH_BYTES: usize = 40;

/// The key that both ends of a datagram need; it keeps strangers out no better than a port number.
const KEY: u32 = 0x6c69_6d69;

/// A way to a port.
#[derive(Debug)]
pub struct AddressHandle {
    raw: NonNull<sys::ibv_ah>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs allows calls on an address handle from any thread.
unsafe impl Send for AddressHandle {}

impl AddressHandle {
    /// A handle for the way from `port` to `to`.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if there is no way.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        port: &Port,
        to: &PortAddress,
    ) -> Result<Self, VerbsError> {
        let mut route = port.route(to);
        // SAFETY: a live domain, which the handle keeps alive.
        let raw = unsafe { sys::ibv_create_ah(domain.raw(), &raw mut route) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_create_ah"))?;
        Ok(Self {
            raw,
            _domain: Arc::clone(domain),
        })
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let returned = unsafe { sys::ibv_destroy_ah(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_destroy_ah", returned);
        }
    }
}

/// A queue pair for datagrams.
#[derive(Debug)]
pub struct DatagramQueue {
    raw: NonNull<sys::ibv_qp>,
    _queue: Arc<CompletionQueue>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs allows every call on a queue pair from any thread.
unsafe impl Send for DatagramQueue {}

impl DatagramQueue {
    /// A queue that is ready, with room for `entries` sends and as many receives.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        port: &Port,
        entries: u32,
    ) -> Result<Self, VerbsError> {
        let mut attr = sys::ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: queue.raw(),
            recv_cq: queue.raw(),
            srq: std::ptr::null_mut(),
            cap: sys::ibv_qp_cap {
                max_send_wr: entries,
                max_recv_wr: entries,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: sys::ibv_qp_type::IBV_QPT_UD,
            sq_sig_all: 1,
        };
        // SAFETY: all that the attributes name is alive and kept alive by the queue.
        let raw = unsafe { sys::ibv_create_qp(domain.raw(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_create_qp"))?;
        let datagrams = Self {
            raw,
            _queue: Arc::clone(queue),
            _domain: Arc::clone(domain),
        };
        datagrams.start(port)?;
        Ok(datagrams)
    }

    fn start(&self, port: &Port) -> Result<(), VerbsError> {
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_INIT;
        attr.port_num = port.number;
        attr.pkey_index = port.partition_index;
        attr.qkey = KEY;
        modify(
            self.raw,
            &mut attr,
            mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_QKEY,
        )?;
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTR;
        modify(self.raw, &mut attr, mask::IBV_QP_STATE)?;
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTS;
        modify(
            self.raw,
            &mut attr,
            mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN,
        )
    }

    /// Moves the queue to its error state: all that was posted ends.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn fail(&self) -> Result<(), VerbsError> {
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_ERR;
        modify(self.raw, &mut attr, mask::IBV_QP_STATE)
    }

    /// Makes a queue in its error state ready again, when all that was posted has ended.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn restart(&self, port: &Port) -> Result<(), VerbsError> {
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RESET;
        modify(self.raw, &mut attr, mask::IBV_QP_STATE)?;
        self.start(port)
    }

    /// Its number, for peers.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: a live queue pair; the number never changes.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// Adds a receive: [`GRH_BYTES`], then the datagram.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the queue is full.
    ///
    /// # Safety
    /// The slice stays registered and is left alone until the receive completes or the queue is
    /// destroyed.
    pub unsafe fn post_receive(&self, id: u64, slice: LocalSlice) -> Result<(), VerbsError> {
        // SAFETY: a live queue pair; the rest is the caller's promise.
        unsafe { receive(self.raw, id, slice) }
    }

    /// Sends a datagram; it always gives a completion.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the queue is full.
    ///
    /// # Safety
    /// The slice stays registered and unwritten, and the handle alive, until the completion or the
    /// queue's end.
    pub unsafe fn send(
        &self,
        id: u64,
        slice: LocalSlice,
        way: &AddressHandle,
        number: u32,
    ) -> Result<(), VerbsError> {
        let mut slice = slice.raw();
        // SAFETY: all-zero bytes are a value of this plain C struct.
        let mut work: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        work.wr_id = id;
        work.sg_list = &raw mut slice;
        work.num_sge = 1;
        work.opcode = sys::ibv_wr_opcode::IBV_WR_SEND;
        work.wr.ud = sys::ud_t {
            ah: way.raw.as_ptr(),
            remote_qpn: number,
            remote_qkey: KEY,
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list live during the call.
        let returned =
            unsafe { sys::ibv_post_send(self.raw.as_ptr(), &raw mut work, &raw mut bad) };
        VerbsError::check("ibv_post_send", returned)
    }
}

impl Drop for DatagramQueue {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; its queue and domain live until after this.
        let returned = unsafe { sys::ibv_destroy_qp(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_destroy_qp (UD)", returned);
        }
    }
}
