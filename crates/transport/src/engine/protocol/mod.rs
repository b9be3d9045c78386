//! The protocols: what is sent when, and in which memory the bytes move.
//!
//! Sending: `attempt` tries a `message`, and what does not go at once sets out by `send`. A message
//! leaves whole (`eager`), in `fragments`, ahead of a slow receiver (`send_ahead`), or is offered
//! (`offer`); `packets`, `long_packets` and `loopback` are for peers that share no memory with this
//! endpoint, and for itself. `loans`: messages that lie in an arena already.
//!
//! Receiving: `receive` and `unexpected`, `staged` for bytes in a staging buffer, `assembly` for
//! fragments, `receive_target` for where bytes of a message go, `arena_message` for what lies in an
//! arena. Long messages: `rendezvous`, then `fragments`, `single_copy` or `split_copy`.
//!
//! One-sided access: `regions` at its owner, `rma` at the other side.

pub(crate) mod arena_message;
pub(crate) mod assembly;
pub(crate) mod attempt;
pub(crate) mod cancel;
mod eager;
pub(crate) mod fragments;
pub(crate) mod loans;
pub(crate) mod long_packets;
pub(crate) mod loopback;
pub(crate) mod message;
mod offer;
pub(crate) mod packets;
pub(crate) mod private_ring;
pub(crate) mod receive;
mod receive_target;
pub(crate) mod regions;
pub(crate) mod rendezvous;
pub(crate) mod rma;
pub(crate) mod send;
pub(crate) mod send_ahead;
pub(crate) mod single_copy;
pub(crate) mod split_copy;
pub(crate) mod staged;
pub(crate) mod unexpected;
