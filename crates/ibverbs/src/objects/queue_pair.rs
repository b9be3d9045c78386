//! Queue pairs of reliable connections.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;
use sys::ibv_qp_attr_mask as mask;
use sys::ibv_send_flags as flags;

use super::completion::CompletionQueue;
use super::domain::ProtectionDomain;
use super::library;
use super::pair_calls::{blank, modify, receive};
use super::port::{Port, PortAddress};
use super::shared_receive::{ReceiveQueue, SharedReceiveQueue};
use super::work::{LocalSlice, SendKind, SendWork};
use crate::VerbsError;
use crate::error::leaked;

/// Where a queue pair is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// Made, with a number that a peer may be told.
    Initialised,
    /// Connected: both queues work.
    Connected,
    /// Broken, by an error or on purpose: all requests are flushed.
    Failed,
}

impl QueuePairState {
    fn name(self) -> &'static str {
        match self {
            Self::Initialised => "initialised",
            Self::Connected => "connected",
            Self::Failed => "failed",
        }
    }
}

/// How a queue pair is made.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairSettings {
    /// Entries of the send queue: what a connection's memory depends on.
    pub send_entries: u32,
    /// Slices of one work request.
    pub slices: u32,
    /// Bytes that fit into a work request itself.
    pub inline_bytes: u32,
    /// Times that an unanswered packet is repeated, 0 to 7.
    pub retries: u8,
    /// Time before that as the adapter counts it: 4.096 us x 2^n, 0 for ever.
    pub timeout: u8,
}

/// The other end, as its owner announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteQueuePair {
    /// Where.
    pub address: PortAddress,
    /// Number of the queue pair, 24 bits.
    pub number: u32,
    /// First packet's sequence number, 24 bits.
    pub first_packet: u32,
    /// RDMA reads that it answers at a time.
    pub reads: u8,
    /// Bytes of the largest packet that its port takes, as `ibv_mtu` counts: 1 is 256, 5 is 4096.
    pub mtu: u8,
}

/// A queue pair.
#[derive(Debug)]
pub struct QueuePair {
    raw: NonNull<sys::ibv_qp>,
    state: QueuePairState,
    port: Port,
    first_packet: u32,
    reads: u8,
    retries: u8,
    timeout: u8,
    inline_bytes: u32,
    _queue: Arc<CompletionQueue>,
    _receives: Option<Arc<SharedReceiveQueue>>,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs allows every call on a queue pair from any thread.
unsafe impl Send for QueuePair {}

/// The wait that a receiver without a free receive asks for: 0.64 ms (12 in the table of
/// ibv_modify_qp(3)).
const RECEIVER_NOT_READY: u8 = 12;
/// Retry for ever when the receiver has no receive: it makes progress, or dies and is noticed
/// otherwise.
const FOR_EVER: u8 = 7;

impl QueuePair {
    /// A queue pair in state [`Initialised`](QueuePairState::Initialised); completions of both
    /// queues go to `queue`.
    ///
    /// # Errors
    /// [`VerbsError::Limit`], [`VerbsError::Call`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        receives: ReceiveQueue<'_>,
        port: Port,
        first_packet: u32,
        settings: QueuePairSettings,
    ) -> Result<Self, VerbsError> {
        let limits = domain.context().limits();
        for (what, wanted, most) in [
            (
                "entries of a send queue",
                settings.send_entries,
                limits.work_requests,
            ),
            ("slices of a work request", settings.slices, limits.slices),
        ] {
            if wanted > most {
                return Err(VerbsError::Limit {
                    device: domain.context().name().to_owned(),
                    what,
                    wanted: wanted.into(),
                    most: most.into(),
                });
            }
        }
        let (shared, own) = match receives {
            ReceiveQueue::Shared(queue) => (Some(queue), 0),
            ReceiveQueue::Own(entries) => (None, entries),
        };
        let mut attr = sys::ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: queue.raw(),
            recv_cq: queue.raw(),
            srq: shared.map_or(std::ptr::null_mut(), |queue| queue.raw()),
            cap: sys::ibv_qp_cap {
                max_send_wr: settings.send_entries.max(1),
                max_recv_wr: own,
                max_send_sge: settings.slices.max(1),
                max_recv_sge: own.min(1),
                max_inline_data: settings.inline_bytes,
            },
            qp_type: sys::ibv_qp_type::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: all that the attributes name is alive and kept alive by the queue pair.
        let raw = unsafe { sys::ibv_create_qp(domain.raw(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_create_qp"))?;
        let mut pair = Self {
            raw,
            state: QueuePairState::Initialised,
            port,
            first_packet: first_packet & 0xff_ffff,
            reads: limits.reads.clamp(1, 16),
            retries: settings.retries.min(7),
            timeout: settings.timeout.min(31),
            inline_bytes: attr.cap.max_inline_data,
            _queue: Arc::clone(queue),
            _receives: shared.cloned(),
            domain: Arc::clone(domain),
        };
        pair.initialise()?;
        Ok(pair)
    }

    fn initialise(&mut self) -> Result<(), VerbsError> {
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_INIT;
        attr.port_num = self.port.number;
        attr.pkey_index = self.port.partition_index;
        // Remote read and write; what may be touched is decided by the regions and their keys.
        attr.qp_access_flags = 2 | 4;
        modify(
            self.raw,
            &mut attr,
            mask::IBV_QP_STATE
                | mask::IBV_QP_PKEY_INDEX
                | mask::IBV_QP_PORT
                | mask::IBV_QP_ACCESS_FLAGS,
        )
    }

    /// Connects to the other end, which has to do the same.
    ///
    /// # Errors
    /// [`VerbsError::State`] unless initialised; [`VerbsError::Call`] for an address that cannot be
    /// reached.
    pub fn connect(&mut self, to: &RemoteQueuePair) -> Result<(), VerbsError> {
        if self.state != QueuePairState::Initialised {
            return Err(VerbsError::State {
                state: self.state.name(),
                wanted: "connect",
            });
        }
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTR;
        // Both ends come to the same: a larger packet than an end expects breaks the connection.
        attr.path_mtu = self.port.mtu.min(to.mtu.max(1).into());
        attr.dest_qp_num = to.number;
        attr.rq_psn = to.first_packet & 0xff_ffff;
        attr.max_dest_rd_atomic = self.reads;
        attr.min_rnr_timer = RECEIVER_NOT_READY;
        attr.ah_attr = self.port.route(&to.address);
        modify(
            self.raw,
            &mut attr,
            mask::IBV_QP_STATE
                | mask::IBV_QP_AV
                | mask::IBV_QP_PATH_MTU
                | mask::IBV_QP_DEST_QPN
                | mask::IBV_QP_RQ_PSN
                | mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | mask::IBV_QP_MIN_RNR_TIMER,
        )?;
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTS;
        attr.sq_psn = self.first_packet;
        attr.timeout = self.timeout;
        attr.retry_cnt = self.retries;
        attr.rnr_retry = FOR_EVER;
        attr.max_rd_atomic = self.reads.min(to.reads.max(1));
        modify(
            self.raw,
            &mut attr,
            mask::IBV_QP_STATE
                | mask::IBV_QP_TIMEOUT
                | mask::IBV_QP_RETRY_CNT
                | mask::IBV_QP_RNR_RETRY
                | mask::IBV_QP_SQ_PSN
                | mask::IBV_QP_MAX_QP_RD_ATOMIC,
        )?;
        self.state = QueuePairState::Connected;
        Ok(())
    }

    /// Breaks the connection: every request that is posted is flushed.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn fail(&mut self) -> Result<(), VerbsError> {
        let mut attr = blank();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_ERR;
        modify(self.raw, &mut attr, mask::IBV_QP_STATE)?;
        self.state = QueuePairState::Failed;
        Ok(())
    }

    /// Notes that a completion reported an error: the adapter has moved the queue pair to its error
    /// state.
    pub fn has_failed(&mut self) {
        self.state = QueuePairState::Failed;
    }

    /// Posts a work request.
    ///
    /// # Errors
    /// [`VerbsError::State`] unless connected; [`VerbsError::Call`] if the send queue is full, or
    /// inline bytes do not fit.
    ///
    /// # Safety
    /// Unless inline, the slices stay registered and (for a read: untouched; else: unwritten) until
    /// the request is over: completed, or followed by a completed one, or this queue pair
    /// destroyed.
    #[inline]
    pub unsafe fn post(&self, work: &SendWork<'_>) -> Result<(), VerbsError> {
        const SLICES: usize = 16;
        if self.state != QueuePairState::Connected {
            return Err(VerbsError::State {
                state: self.state.name(),
                wanted: "take work",
            });
        }
        if work.slices.len() > SLICES {
            return Err(VerbsError::Limit {
                device: self.domain.context().name().to_owned(),
                what: "slices of a work request",
                wanted: work.slices.len() as u64,
                most: SLICES as u64,
            });
        }
        let mut slices = [const {
            sys::ibv_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            }
        }; SLICES];
        for (raw, slice) in slices.iter_mut().zip(work.slices) {
            *raw = slice.raw();
        }
        // SAFETY: all-zero bytes are a value of this plain C struct.
        let mut raw: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        raw.wr_id = work.id;
        raw.sg_list = slices.as_mut_ptr();
        raw.num_sge = work.slices.len() as i32;
        let remote = match work.kind {
            SendKind::Send => {
                raw.opcode = sys::ibv_wr_opcode::IBV_WR_SEND;
                None
            }
            SendKind::Write(remote) => {
                raw.opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                Some(remote)
            }
            SendKind::Read(remote) => {
                raw.opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_READ;
                Some(remote)
            }
        };
        if let Some(remote) = remote {
            raw.wr.rdma = sys::rdma_t {
                remote_addr: remote.start,
                rkey: remote.key,
            };
        }
        if work.inline {
            raw.send_flags |= flags::IBV_SEND_INLINE.0;
        }
        if work.signalled {
            raw.send_flags |= flags::IBV_SEND_SIGNALED.0;
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list live during the call; the memory that
        // they name is the caller's promise.
        let returned = unsafe { sys::ibv_post_send(self.raw.as_ptr(), &raw mut raw, &raw mut bad) };
        VerbsError::check("ibv_post_send", returned)
    }

    /// Adds a receive to its own queue.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if that is full, or another one's.
    ///
    /// # Safety
    /// The slice's memory stays registered and is left alone until the receive completes, or this
    /// queue pair is destroyed.
    pub unsafe fn post_receive(&self, id: u64, slice: LocalSlice) -> Result<(), VerbsError> {
        // SAFETY: a live queue pair; the rest is the caller's promise.
        unsafe { receive(self.raw, id, slice) }
    }

    /// Whether the bytes of each write of the peer are placed in this memory in rising order, so
    /// that they are all there when the last one is.
    #[must_use]
    pub fn writes_come_in_order(&self) -> bool {
        let write = sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        // SAFETY: a live queue pair.
        unsafe { library::data_in_order(self.raw.as_ptr(), write, 0) == 1 }
    }

    /// Its number, for the peer.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: a live queue pair; the number never changes.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// What the peer has to know.
    #[must_use]
    pub fn as_remote(&self) -> RemoteQueuePair {
        RemoteQueuePair {
            address: self.port.address(),
            number: self.number(),
            first_packet: self.first_packet,
            reads: self.reads,
            mtu: self.port.mtu as u8,
        }
    }

    /// The port that it was made for.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> QueuePairState {
        self.state
    }

    /// Bytes that fit into a work request itself, as granted.
    #[must_use]
    pub fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; its queues and domain live until after this.
        let returned = unsafe { sys::ibv_destroy_qp(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_destroy_qp", returned);
        }
    }
}
