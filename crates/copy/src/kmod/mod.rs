//! Single copy by the kernel module `limic.ko`: the owner of a buffer exposes it to one peer,
//! which copies.
//!
//! Unlike cross-memory attach this asks for the owner's consent, buffer by buffer, and needs no
//! permission to trace: ranks of one user in one user namespace reach what was exposed to them, and
//! nothing else.

mod abi;
mod backend;
mod call_error;
mod engine;
mod group;
mod lasting;
mod latches;
mod mark;
mod messages;
mod session;
mod status;

pub use backend::{Exposed, KmodBackend, KmodBackendPair};
pub use call_error::CallError;
pub use engine::{Kmod, KmodPair, KmodPeer};
pub use group::{Group, Member};
pub use lasting::{Lasting, Opened};
pub use messages::{Found, Messages, Posted, Wanted};
pub use status::{Ended, News};
