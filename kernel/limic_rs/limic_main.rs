// SPDX-License-Identifier: GPL-2.0

//! limic: MPI-style messages between processes, copied once by the kernel.
//!
//! `uapi/limic.h` says what it does for user space. Inside, from the system call down:
//!
//! - `device.rs` takes calls; `session.rs` is an open file, `realm.rs` its user, `ffi.rs` the C
//!   below;
//! - `messages.rs` sends and receives: `group.rs`, `mailbox.rs` (with the queues of `matching`, the
//!   same files as in user space, over `tables.rs`), `request.rs`, and `events.rs` and `waiting.rs`
//!   for those who wait, over memory that they map (`area.rs`);
//! - `exposure.rs` has buffers with handles, and `latch.rs` what their owner opens and shuts
//!   without a call;
//! - both pin with `pinned.rs` (`pieces.rs`, `pool.rs`; `kept.rs` for buffers that come again) and
//!   copy with `copy.rs`, through a `gate.rs`;
//! - `costs.rs`, `counters.rs` and `debug.rs` say what it costs.
//!
//! Two rules hold everywhere. No lock is held while user memory is touched, since a fault may last
//! as long as some process likes. And nothing is allocated under a lock that the end of a process
//! takes, since memory may be short just then.

use kernel::prelude::*;

#[path = "src/abi.rs"]
mod abi;
#[path = "src/area.rs"]
mod area;
#[path = "src/copy.rs"]
mod copy;
#[path = "src/costs.rs"]
mod costs;
#[path = "src/counters.rs"]
mod counters;
#[path = "src/debug.rs"]
mod debug;
#[path = "src/device.rs"]
mod device;
#[path = "src/events.rs"]
mod events;
#[path = "src/exposure.rs"]
mod exposure;
#[path = "src/ffi.rs"]
mod ffi;
#[path = "src/gate.rs"]
mod gate;
#[path = "src/group.rs"]
mod group;
#[path = "src/held.rs"]
mod held;
#[path = "src/kept.rs"]
mod kept;
#[path = "src/latch.rs"]
mod latch;
#[path = "src/mailbox.rs"]
mod mailbox;
#[path = "matching/lib.rs"]
#[allow(
    unused_attributes,
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "a crate of user space, compiled as it is"
)]
mod matching;
#[path = "src/messages.rs"]
mod messages;
#[path = "src/pieces.rs"]
mod pieces;
#[path = "src/pinned.rs"]
mod pinned;
#[path = "src/pool.rs"]
mod pool;
#[path = "src/realm.rs"]
mod realm;
#[path = "src/request.rs"]
mod request;
#[path = "src/session.rs"]
mod session;
#[path = "src/tables.rs"]
mod tables;
#[path = "src/waiting.rs"]
mod waiting;

module! {
    type: Limic,
    name: "limic",
    authors: ["The limic authors"],
    description: "Messages between processes with one copy",
    license: "GPL",
    params: {
        pool: u32 {
            default: 512,
            description: "Pin descriptors allocated at load, 4 KiB each (at most 65536)",
        },
        kept: u32 {
            default: 64,
            description: "Memory that a session may keep pinned for use again, in MiB (0: none)",
        },
    },
}

/// The module: device and debug files, which go in this order.
#[pin_data]
struct Limic {
    #[pin]
    device: device::Device,
    #[pin]
    debug: debug::Debug,
    /// Last: descriptors are in use as long as files are open.
    pool: pool::Pool,
}

impl kernel::InPlaceModule for Limic {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let descriptors = (*module_parameters::pool.value()).min(65536) as usize;
        try_pin_init!(Self {
            pool: pool::Pool::new(descriptors)?,
            debug <- debug::Debug::new(),
            device <- device::Device::register(session::Shared::new()?),
        })
    }
}
