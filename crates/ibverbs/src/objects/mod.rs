//! Verbs objects as Rust values.
//!
//! # Invariants
//!
//! libibverbs wants children destroyed before their parents: queue pairs before the queues that
//! they use, those and memory regions before the protection domain, all of it before the device's
//! context. Every child here holds a counted reference to its parents, and its own `drop` runs
//! before those of its fields, so the order is right whatever order the application drops things
//! in. A destroy call that fails all the same is logged and the object leaked: memory that the
//! adapter may still write to is never given back.
//!
//! Memory that work requests name belongs to a [`MemoryRegion`], which owns it. Posting is `unsafe`
//! in this layer, since only the layer above knows when a request is over;
//! [`fabric`](crate::fabric) keeps that account.

mod completion;
mod datagram;
mod device;
mod device_memory;
mod domain;
mod events;
mod library;
mod memory;
mod pair_calls;
mod port;
mod queue_pair;
mod shared_receive;
mod work;

pub(crate) use completion::BATCH;
pub use completion::{Completion, CompletionQueue, Notifier, WorkKind, WorkStatus};
pub use datagram::{AddressHandle, DatagramQueue, GRH_BYTES};
pub use device::{Context, Device, Limits, devices, named};
pub use device_memory::{AdapterMemory, DeviceMemory, HostMemory};
pub use domain::ProtectionDomain;
pub use events::DeviceEvent;
pub use library::available;
pub use memory::{Access, Bytes, MemoryRegion, Registration, StableBytes};
pub use port::{Gid, Port, PortAddress, PortSettings};
pub use queue_pair::{QueuePair, QueuePairSettings, QueuePairState, RemoteQueuePair};
pub use shared_receive::{ReceiveQueue, SharedReceiveQueue};
pub use work::{LocalSlice, RemoteMemory, SendKind, SendWork};
