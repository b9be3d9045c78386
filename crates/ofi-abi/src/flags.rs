//! Bits of capabilities, operations, completions, orders and modes.

/// Capabilities; also flags of completions and bindings.
pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_MULTI_RECV: u64 = 1 << 16;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
/// The user chooses what its peers are called; also a flag of `fi_av_insert`.
pub const FI_AV_USER_ID: u64 = 1 << 41;
/// Another provider owns the queues; also a flag of those that it opens here.
pub const FI_PEER: u64 = 1 << 43;
pub const FI_LOCAL_COMM: u64 = 1 << 51;
pub const FI_REMOTE_COMM: u64 = 1 << 52;
/// Accesses of peers are counted; also a flag of memory whose accesses are.
pub const FI_RMA_EVENT: u64 = 1 << 56;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_DIRECTED_RECV: u64 = 1 << 59;

/// Flags of operations.
pub const FI_MORE: u64 = 1 << 18;
pub const FI_PEEK: u64 = 1 << 19;
pub const FI_COMPLETION: u64 = 1 << 24;
pub const FI_INJECT: u64 = 1 << 25;
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub const FI_MATCH_COMPLETE: u64 = 1 << 31;
pub const FI_CLAIM: u64 = 1 << 59;
pub const FI_DISCARD: u64 = 1 << 58;
pub const FI_FETCH_ATOMIC: u64 = 1 << 58;
pub const FI_COMPARE_ATOMIC: u64 = 1 << 59;

/// Flag of `fi_ep_bind`: a completion is reported only where an operation asks for it.
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
/// Flag of address vectors: insertions are reported through an event queue.
pub const FI_EVENT: u64 = FI_COMPLETION;
/// Flag of queues: the number of the interrupt's processor is given.
pub const FI_AFFINITY: u64 = 1 << 29;
/// Flag of address vectors: all processes fill theirs alike.
pub const FI_SYMMETRIC: u64 = 1 << 59;
/// Flag of `fi_av_insert`: an error number per address.
pub const FI_SYNC_ERR: u64 = 1 << 58;

/// Orders.
pub const FI_ORDER_RAR: u64 = 1 << 0;
pub const FI_ORDER_RAW: u64 = 1 << 1;
pub const FI_ORDER_WAR: u64 = 1 << 3;
pub const FI_ORDER_WAW: u64 = 1 << 4;
pub const FI_ORDER_SAS: u64 = 1 << 8;
pub const FI_ORDER_RMA_RAR: u64 = 1 << 32;
pub const FI_ORDER_RMA_RAW: u64 = 1 << 33;
pub const FI_ORDER_RMA_WAR: u64 = 1 << 34;
pub const FI_ORDER_RMA_WAW: u64 = 1 << 35;
pub const FI_ORDER_ATOMIC_RAR: u64 = 1 << 36;
pub const FI_ORDER_ATOMIC_RAW: u64 = 1 << 37;
pub const FI_ORDER_ATOMIC_WAR: u64 = 1 << 38;
pub const FI_ORDER_ATOMIC_WAW: u64 = 1 << 39;

/// Modes: what the application does for the provider.
pub const FI_CONTEXT2: u64 = 1 << 52;
pub const FI_CONTEXT: u64 = 1 << 59;

/// How memory is registered.
pub const FI_MR_BASIC: i32 = 1 << 0;
pub const FI_MR_SCALABLE: i32 = 1 << 1;
pub const FI_MR_LOCAL: i32 = 1 << 2;
pub const FI_MR_VIRT_ADDR: i32 = 1 << 4;
pub const FI_MR_ALLOCATED: i32 = 1 << 5;
pub const FI_MR_PROV_KEY: i32 = 1 << 6;
pub const FI_MR_RMA_EVENT: i32 = 1 << 8;
pub const FI_MR_ENDPOINT: i32 = 1 << 9;

/// Kinds of address vectors.
pub const FI_AV_UNSPEC: u32 = 0;
pub const FI_AV_TABLE: u32 = 2;

/// Whether the library makes progress by itself.
pub const FI_PROGRESS_AUTO: u32 = 1;
pub const FI_PROGRESS_MANUAL: u32 = 2;

/// What threads may do at once.
pub const FI_THREAD_UNSPEC: u32 = 0;
pub const FI_THREAD_SAFE: u32 = 1;
pub const FI_THREAD_DOMAIN: u32 = 3;

/// Whether queues can overflow.
pub const FI_RM_ENABLED: u32 = 2;

/// Kinds of endpoints.
pub const FI_EP_UNSPEC: u32 = 0;
pub const FI_EP_RDM: u32 = 3;

/// Formats of addresses.
pub const FI_FORMAT_UNSPEC: u32 = 0;
pub const FI_SOCKADDR: u32 = 1;
pub const FI_SOCKADDR_IN: u32 = 2;
pub const FI_SOCKADDR_IN6: u32 = 3;
pub const FI_ADDR_STR: u32 = 9;
/// The 64 bytes that no other provider knows.
pub const FI_ADDR_LIMIC: u32 = FI_PROV_SPECIFIC | 0x6c6d;
/// Flags of `fi_getinfo`: node and service are those of the endpoint itself; a node is no name.
pub const FI_NUMERICHOST: u64 = 1 << 55;

/// Formats of completions.
pub const FI_CQ_FORMAT_UNSPEC: u32 = 0;
pub const FI_CQ_FORMAT_CONTEXT: u32 = 1;
pub const FI_CQ_FORMAT_MSG: u32 = 2;
pub const FI_CQ_FORMAT_DATA: u32 = 3;
pub const FI_CQ_FORMAT_TAGGED: u32 = 4;

/// Wait objects.
pub const FI_WAIT_NONE: u32 = 0;
pub const FI_WAIT_UNSPEC: u32 = 1;
pub const FI_WAIT_FD: u32 = 3;
pub const FI_WAIT_YIELD: u32 = 5;

/// What counters count: completions.
pub const FI_CNTR_EVENTS_COMP: u32 = 0;

/// Conditions of `fi_cq_sread`.
pub const FI_CQ_COND_NONE: u32 = 0;
pub const FI_CQ_COND_THRESHOLD: u32 = 1;

/// Options of endpoints.
pub const FI_OPT_ENDPOINT: i32 = 0;
pub const FI_OPT_MIN_MULTI_RECV: i32 = 0;

/// Traffic classes: none in particular.
pub const FI_TC_UNSPEC: u32 = 0;
/// A protocol that no other provider speaks.
pub const FI_PROTO_LIMIC: u32 = FI_PROV_SPECIFIC | 0x6c6d;
const FI_PROV_SPECIFIC: u32 = 1 << 31;
