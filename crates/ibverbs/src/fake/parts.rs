//! What adapters are made of.

use std::collections::VecDeque;

use rdma_sys::{
    ibv_ah_attr, ibv_mtu, ibv_qp_state, ibv_transport_type, ibv_wc, ibv_wr_opcode as asked,
};

/// What an adapter can do, and how it does it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    /// Most bytes that a work request takes itself: a queue pair with more is refused.
    pub(crate) inline_bytes: u32,
    /// Entries of a shared receive queue; 0 if there is none.
    pub(crate) shared_receives: u32,
    /// The end of a queue pair deletes what is still in its completion queue, as with mlx5.
    pub(crate) cleans: bool,
    /// Completions come some looks at the queue later.
    pub(crate) lags: bool,
    pub(crate) mtu: ibv_mtu::Type,
    /// Completion queues can grow.
    pub(crate) grows: bool,
    /// The bytes of a write are placed in rising order.
    pub(crate) in_order: bool,
    /// Bytes of memory on the adapter, which copies whole words of 4 bytes.
    pub(crate) device_memory: u64,
    pub(crate) transport: ibv_transport_type::Type,
    pub(crate) ports: u8,
    /// InfiniBand, else RoCE.
    pub(crate) infiniband: bool,
    /// What the port says of itself (`IBV_QPF_GRH_REQUIRED`).
    pub(crate) port_flags: u8,
}

impl Nature {
    pub(crate) const PLAIN: Self = Self {
        inline_bytes: 512,
        shared_receives: 4096,
        cleans: false,
        lags: false,
        mtu: ibv_mtu::IBV_MTU_4096,
        grows: true,
        in_order: true,
        device_memory: 0,
        transport: ibv_transport_type::IBV_TRANSPORT_IB,
        ports: 1,
        infiniband: false,
        port_flags: 0,
    };
}

pub(super) struct Receive {
    pub(super) id: u64,
    pub(super) at: u64,
    pub(super) len: u32,
}

pub(super) struct Request {
    pub(super) id: u64,
    pub(super) asked: asked::Type,
    /// Bytes that the request took itself.
    pub(super) taken: Option<Vec<u8>>,
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) remote: (u64, u32),
    pub(super) signalled: bool,
    /// Where a datagram goes: the device, and the queue pair's number there.
    pub(super) to: Option<(usize, u32)>,
}

/// What a queue pair was told last.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(super) state: ibv_qp_state::Type,
    pub(crate) pkey_index: u16,
    pub(crate) way: ibv_ah_attr,
    pub(crate) mtu: ibv_mtu::Type,
    /// The queue pair at the other end.
    pub(super) other: u32,
}

pub(super) struct Pair {
    pub(super) handle: usize,
    pub(super) device: usize,
    pub(super) number: u32,
    pub(super) datagrams: bool,
    pub(super) told: Told,
    pub(super) sends: usize,
    pub(super) arrivals: usize,
    /// 0 for none.
    pub(super) shared: usize,
    pub(super) own: VecDeque<Receive>,
    pub(super) own_room: usize,
    pub(super) requests: VecDeque<Request>,
    pub(super) room: u32,
    /// Entries that are taken until a completion of them was read, and those without one.
    pub(super) taken: u32,
    pub(super) silent: u32,
    pub(super) inline_bytes: u32,
    /// Completions on their way: into which queue.
    pub(super) behind: VecDeque<(usize, Entry)>,
    /// It has received, and has not said that it does so no more.
    pub(super) owes_end: bool,
}

impl Pair {
    pub(super) fn receives(&self) -> bool {
        matches!(
            self.told.state,
            ibv_qp_state::IBV_QPS_RTR | ibv_qp_state::IBV_QPS_RTS
        )
    }
}

pub(super) struct Entry {
    pub(super) completion: ibv_wc,
    pub(super) pair: usize,
    /// Entries of the send queue that it gives back.
    pub(super) frees: u32,
}

#[derive(Default)]
pub(super) struct Completions {
    pub(super) entries: VecDeque<Entry>,
    pub(super) room: usize,
    pub(super) overrun: bool,
}

pub(super) struct Region {
    pub(super) handle: usize,
    pub(super) device: usize,
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) access: i32,
}

/// A datagram on its way.
pub(crate) struct Datagram {
    pub(super) to: (usize, u32),
    pub(super) bytes: Vec<u8>,
}

impl Datagram {
    /// The adapter that it goes to.
    pub(crate) fn device(&self) -> usize {
        self.to.0
    }
}
