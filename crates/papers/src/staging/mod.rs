//! Messages that rest in an area on their way: packed pieces, and chains of nodes that
//! pass a message on.
//!
//! The area lies in the adapter's memory where that has any, else in host memory: [`area`] decides
//! at run time, and everything here is the same code for both ([`AdapterMemory`]).
//!
//! - [`Link`]: one reliable connection with writes and 8-byte notices, both waited for with a
//!   limit;
//! - [`Packed`]: messages of several pieces, by way of an area or gathered by the adapter, which
//!   [`choose`] decides by [`Costs`] and by how often the application's buffers come again
//!   ([`Reuse`]);
//! - [`Forwarder`]: one node of a chain.

mod card;
mod choice;
mod forward;
mod link;
mod packed;

use std::sync::Arc;

pub use card::{AreaCard, CARD_LEN, LinkCard};
pub use choice::{Costs, REMEMBERED, Reuse, Way, choose};
pub use forward::{Forwarder, Next};
use limic_ibverbs::VerbsError;
use limic_ibverbs::objects::{AdapterMemory, DeviceMemory, HostMemory, ProtectionDomain};
pub use link::{Link, LinkError, Ticket};
pub use packed::{Packed, Pieces, Sent};

/// An area of `len` bytes: on the adapter if there is room, else in host memory.
///
/// # Errors
/// [`VerbsError::Call`]: too little memory of either.
pub fn area(
    domain: &Arc<ProtectionDomain>,
    len: usize,
) -> Result<Box<dyn AdapterMemory>, VerbsError> {
    match DeviceMemory::new(domain, len) {
        Ok(memory) => Ok(Box::new(memory)),
        Err(why) => {
            tracing::debug!("staging in host memory: {why}");
            Ok(Box::new(HostMemory::new(domain, len)?))
        }
    }
}
