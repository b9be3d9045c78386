//! libfabric provider over limic, named `limic`: programs over libfabric, above all MPIs, run over
//! limic as they are.
//!
//! libfabric loads the shared library that this crate builds from the folders of
//! `FI_PROVIDER_PATH`, calls [`fi_prov_ini`], and goes through tables of functions from then on.
//! Nothing of libfabric is linked.
//!
//! # A thin translation
//!
//! | libfabric | limic |
//! |---|---|
//! | endpoint (`FI_EP_RDM`) | one [`limic::HybridEndpoint`] |
//! | tag and ignore bits | tag and mask; the top bit tells tagged messages (0) from all others |
//! | `fi_addr_t` | position in the address vector; each endpoint maps it to a [`limic::Peer`] |
//! | posted receive, unexpected message | limic's own queues: there is no second matching |
//! | remote completion data | the immediate word of a message |
//! | operation under way | a node in the `fi_context2` that the caller lends with it |
//! | completion | a copy of the node in the queue; the `fi_context2` is the caller's again |
//! | memory region | a limic region, read and written by single copy |
//! | atomics, short writes with data | messages, which the owner executes when it makes progress |
//!
//! # Where to find what
//!
//! libfabric's binary interface is `limic-ofi-abi`. `info` answers `fi_getinfo`; `fabric`,
//! `domain`, `address_vector`, `completion_queue`, `counter`, `event_queue`, `poll_set` and
//! `memory_region` are the objects of these names. `endpoint` holds what the calls share, which are
//! in `messages`, `rma` and `atomic`; `progress` is what happens when operations end,
//! `multi_receive` how one buffer takes many messages, `control_channel` what endpoints say to each
//! other beside messages, `line` where that waits. `asked` is what they ask the owners of memory
//! for in that way, `unanswered` what of it is not over, `receipts` the shortest answers. `peer` is
//! limic beside other providers, under an owner of the queues.

mod access;
mod address_vector;
mod alone;
mod asked;
mod atomic;
mod auto_progress;
mod bound;
mod call;
#[cfg(test)]
#[path = "../../shm/src/process/child.rs"]
mod child;
mod completion_queue;
mod control_channel;
mod core_library;
mod counter;
mod domain;
mod endpoint;
mod errors;
mod event_queue;
mod fabric;
mod favour;
mod ffi_guard;
mod hints;
mod info;
mod line;
mod log;
mod memory_region;
mod messages;
mod multi_receive;
mod names;
mod node;
mod object;
mod order;
mod peer;
mod poll_set;
mod progress;
mod receipts;
mod receive;
mod remote_comm;
mod rma;
mod send;
mod services;
mod signal;
mod stats;
mod threads;
mod turns;
mod unanswered;
mod wait;

use core::cell::UnsafeCell;
use core::ffi::c_void;

use limic_ofi_abi::{fi_provider, fi_version};

/// libfabric writes into it, and reads it only through the pointer that it got.
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: this crate does not touch it but to hand out its address.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: fi_version(1, 0),
    // The interface that this provider speaks is the one of 1.17, whose structures later versions
    // only grow at their ends. A core skips providers that name an older version than the
    // application asks for.
    fi_version: fi_version(2, 99),
    context: [core::ptr::null_mut(); 4],
    name: c"limic".as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::open,
    cleanup: Some(cleanup),
}));

/// What libfabric calls once it has loaded this library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut c_void {
    log::start();
    PROVIDER.0.get().cast()
}

/// libfabric is unloaded, usually since the process ends: peers get to know that its endpoints are
/// closed.
unsafe extern "C" fn cleanup() {
    ffi_guard::cross((), endpoint::close_all);
}
