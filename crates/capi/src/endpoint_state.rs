//! What an endpoint's handle stands for.

use limic::Outcome;
use limic::raw::{ClaimId, RawLoan, RawLoaned, RawSlice, RawSliceMut, RegionId, RequestId};
use limic::{Endpoint, Error, HybridEndpoint, KernelEndpoint, ShmEndpoint, World};
use limic_ffi::Slab;

/// An endpoint of one of the kinds, alone or with a job around it.
#[derive(Debug)]
pub(crate) enum Kind {
    Hybrid(HybridEndpoint),
    Shm(ShmEndpoint),
    Kernel(KernelEndpoint),
    HybridWorld(World<HybridEndpoint>),
    ShmWorld(World<ShmEndpoint>),
    KernelWorld(World<KernelEndpoint>),
}

/// A buffer in shared memory, in the caller's hands.
#[derive(Debug)]
pub(crate) enum Lent {
    /// To be filled and sent.
    Room(RawLoan),
    /// A received message; dropping it gives it back. Its bytes are the caller's to read until
    /// then.
    Message { _keeps: RawLoaned },
}

// SAFETY: addresses of memory that the endpoint, which is Send, keeps mapped; what a `RawLoaned`
// holds is Send.
unsafe impl Send for Lent {}

/// An exposed region.
#[derive(Debug)]
pub(crate) struct Exposed {
    pub(crate) id: RegionId,
    /// The library made the memory, and frees it.
    pub(crate) allocated: bool,
}

/// Everything behind one handle.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) kind: Kind,
    /// Operations that were done when they were started, until they are asked for.
    pub(crate) done: Slab<Outcome>,
    /// Messages taken by matched probes, with their lengths.
    pub(crate) claims: Slab<ClaimId>,
    pub(crate) loans: Slab<Lent>,
    pub(crate) regions: Slab<Exposed>,
    /// Memory for lists, kept from call to call.
    pub(crate) ids: Vec<RequestId>,
    pub(crate) pieces: Vec<RawSlice>,
    pub(crate) rooms: Vec<RawSliceMut>,
    /// A panic was caught: only closing is left.
    pub(crate) broken: bool,
}

// SAFETY: the addresses in `pieces` and `rooms` are used within one call only; the rest is Send by
// itself.
unsafe impl Send for EndpointState {}

impl EndpointState {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            done: Slab::new(),
            claims: Slab::new(),
            loans: Slab::new(),
            regions: Slab::new(),
            ids: Vec::new(),
            pieces: Vec::new(),
            rooms: Vec::new(),
            broken: false,
        }
    }

    #[inline(always)]
    pub(crate) fn raw(&self) -> &dyn Endpoint {
        self.kind.raw()
    }
}

impl Kind {
    #[inline(always)]
    pub(crate) fn raw(&self) -> &dyn Endpoint {
        match self {
            Self::Hybrid(endpoint) => endpoint,
            Self::Shm(endpoint) => endpoint,
            Self::Kernel(endpoint) => endpoint,
            Self::HybridWorld(world) => world.endpoint(),
            Self::ShmWorld(world) => world.endpoint(),
            Self::KernelWorld(world) => world.endpoint(),
        }
    }
}

impl EndpointState {
    /// Takes back what C holds of the endpoint, and hands the endpoint on to its end.
    ///
    /// # Errors
    /// The endpoint has ended, but a peer is in the middle of an access to a region.
    pub(crate) fn into_kind<R>(
        mut self: Box<Self>,
        end: impl FnOnce(Kind) -> R,
    ) -> Result<R, Error> {
        let raw = self.kind.raw();
        for lent in self.loans.drain() {
            if let Lent::Room(loan) = lent {
                // SAFETY: this endpoint lent it, and with the endpoint C gives up its loans
                // (limic.h).
                unsafe { raw.return_loan(loan) };
            }
        }
        // Peers may not reach C's memory any more when this returns. Of a region that is not known
        // there is nothing to revoke.
        let mut in_use = None;
        for region in self.regions.drain() {
            if let Err(error @ Error::RegionInUse { .. }) = raw.revoke(region.id) {
                in_use = Some(error);
            }
        }
        let ended = end(self.kind);
        in_use.map_or(Ok(ended), Err)
    }
}
