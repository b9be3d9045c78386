//! Regions that stay while an endpoint is closed through which peers reach them.

use std::rc::Rc;

use limic::raw::OneSided;
use limic::{Error, HybridEndpoint, RegionId};

use super::{Region, is_in_use};
use crate::endpoint::Endpoint;

/// What a closed endpoint has left exposed.
pub(super) struct Left {
    /// Its address in memory, which no other endpoint of the domain has before this one is freed.
    /// Its number is free earlier.
    endpoint: *const Endpoint,
    id: RegionId,
    /// The endpoint, which is asked whether that is over; none until it is closed.
    limic: Option<Rc<HybridEndpoint>>,
}

impl Left {
    pub(super) fn is_in_use(&self) -> bool {
        let revoked = self.limic.as_ref().map(|limic| limic.try_revoke(self.id));
        matches!(
            revoked,
            None | Some(Ok(None) | Err(Error::RegionInUse { .. }))
        )
    }
}

impl Region {
    /// An endpoint is to be closed: no access through it begins any more.
    pub(crate) fn withdraw(&self, endpoint: &Endpoint) {
        let exposed = self.exposed.borrow();
        if let Some((_, id)) = exposed.iter().find(|(at, _)| *at == endpoint.number) {
            // What is under way is asked about again.
            let _ = endpoint.limic.try_revoke(*id);
        }
    }

    /// Waits for accesses under way through an endpoint that is to be closed.
    pub(crate) fn forget(&self, endpoint: &Endpoint) {
        self.exposed.borrow_mut().retain(|(at, id)| {
            let here = *at == endpoint.number;
            if here && is_in_use(endpoint, *id) {
                self.left.borrow_mut().push(Left {
                    endpoint,
                    id: *id,
                    limic: None,
                });
            }
            !here
        });
    }

    /// The endpoint at that address is closed, and is freed next.
    pub(crate) fn keep_closed(&self, endpoint: *const Endpoint, limic: &Rc<HybridEndpoint>) {
        let mut left = self.left.borrow_mut();
        let here = left.iter_mut().filter(|left| left.endpoint == endpoint);
        for left in here.filter(|left| left.limic.is_none()) {
            left.limic = Some(Rc::clone(limic));
        }
    }
}
