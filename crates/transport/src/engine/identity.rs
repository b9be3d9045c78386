//! Who this endpoint is: its address, its process, and where it runs.

use limic_copy::Probe;
use limic_shm::process::Process;
use limic_topology::OwnPlace;

use crate::Address;

/// An endpoint as its peers know it.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) address: Address,
    pub(crate) place: OwnPlace,
    /// A word by which a peer finds out whether it can read this process's memory.
    pub(crate) probe: Probe,
    /// The process that opened the endpoint: a forked child has a copy that is not its own.
    process: Process,
    closed: bool,
}

impl Identity {
    pub(crate) fn new(address: Address, place: OwnPlace) -> Self {
        Self {
            probe: Probe::new(address.secret.rotate_left(31)),
            address,
            place,
            process: Process::current(),
            closed: false,
        }
    }

    /// Whether this is the process that opened the endpoint.
    #[inline(always)]
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}
