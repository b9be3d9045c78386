//! Who this endpoint is: its address, its process, and where it runs.

use crate::Address;
use crate::single_copy::Probe;
use crate::topology::OwnPlace;

/// An endpoint as its peers know it.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) address: Address,
    pub(crate) place: OwnPlace,
    /// A word by which a peer finds out whether it can read this process's memory.
    pub(crate) probe: Probe,
    /// The process that opened the endpoint: a forked child has a copy that is not its own.
    process: u32,
    closed: bool,
}

impl Identity {
    pub(crate) fn new(address: Address, place: OwnPlace) -> Self {
        Self {
            probe: Probe::new(address.secret.rotate_left(31)),
            address,
            place,
            process: std::process::id(),
            closed: false,
        }
    }

    /// Whether this is a copy in a forked child.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}
