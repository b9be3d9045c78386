//! The Unix socket next to the shared memory, and what an idle endpoint sleeps on.
//!
//! Messages between ranks never come through here. The socket carries what
//! shared memory cannot: file descriptors (segments, arenas, doorbells), the
//! kernel's word on who the peer is, and its death. Nothing in this module has a
//! name in a file system, so nothing is left after SIGKILL.
//!
//! - [`Listener`]: where peers knock; an abstract name made of a 64-bit id.
//! - [`Socket`]: one connection: whole messages, each with up to
//!   [`MAX_FDS`] descriptors; credentials and pidfd of the peer.
//! - [`Doorbell`], [`PeerDoorbell`]: two ends of a pair of sockets; a byte wakes a
//!   sleeping endpoint.
//! - [`Timer`]: a timerfd that ends a sleep in a poll loop.
//! - [`PeerProcess`]: what tells that the process of a peer has ended.
//! - [`EventSet`]: epoll over all of these; its own descriptor can be put into
//!   a runtime's poll loop.
//!
//! # Who may connect
//!
//! An abstract name has no permission bits: every process in the same network
//! namespace can connect to it, and can bind it first. The id should be random,
//! and who is at the other end must be decided with [`Socket::credentials`].

mod closing;
mod doorbell;
mod error;
mod events;
mod life;
mod listener;
mod other_end;
mod socket;
mod timer;

pub use closing::many_wait_to_be_closed;
pub use doorbell::{Doorbell, DoorbellError, PeerDoorbell};
pub use error::{ControlError, PidfdError};
pub use events::{Event, EventSet, Trigger};
pub use life::{PeerProcess, has_ended};
pub use listener::{BACKLOG, Listener, abstract_name};
pub use other_end::Credentials;
pub use socket::{MAX_FDS, MAX_MESSAGE, Received, Sent, Socket};
pub use timer::Timer;
