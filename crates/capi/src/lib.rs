//! The C interface of limic. `include/limic.h` is made of this crate by cbindgen
//! (`cargo xtask header`), so what C programmers read is what stands here.
//!
//! A thin layer over [`limic::Endpoint`]: it has no queue and matches nothing. What it adds is
//! that C cannot commit undefined behaviour through a handle. Handles are numbers; each call looks
//! the endpoint up ([`table`]), sees whether it is open, in this process (and not in a forked
//! child, [`limic_shm::process`]), in the hands of this thread, and not inside of another call
//! ([`entry`]); requests, messages, loans and regions carry a generation ([`limic_ffi::Slab`]). No
//! panic crosses the border ([`ffi_guard`]).
//!
//! Cost of that per call, beside the call itself: loads of two cache lines that stay with the
//! thread (the table's slot, the word that a fork sets), one call to `pthread_self`, and two plain
//! stores.

#![allow(
    non_camel_case_types,
    reason = "names are those of the header, written the way C does"
)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod arguments;
pub mod buffers;
mod by_turns;
pub mod counters;
pub mod endpoint;
mod endpoint_state;
mod entry;
pub mod errors;
mod ffi_guard;
pub mod handles;
mod launchers;
pub mod loans;
pub mod log;
pub mod messages;
pub mod options;
pub mod probe;
pub mod progress;
pub mod regions;
pub mod request_lists;
pub mod requests;
pub mod status;
mod struct_version;
mod table;
pub mod tagged;
mod turns;
pub mod vectored;
pub mod waiting;
pub mod world;
