//! Accesses of which the runtime wants to know.

use limic_shm::segment::OwnSegment;

use super::{Regions, table};
use crate::raw::{Access, RegionId};

impl Regions {
    /// The accesses to the region under this key of which the runtime wants to know.
    pub(super) fn wanted(&self, key: u64) -> Access {
        self.reported.get(&key).copied().unwrap_or(Access::NONE)
    }

    /// The runtime wants to know of such accesses to the region that has this key, or is to have
    /// it.
    pub(crate) fn set_wanted(&mut self, segment: &OwnSegment, key: u64, kinds: Access) {
        if kinds == Access::NONE {
            self.reported.remove(&key);
        } else {
            self.reported.insert(key, kinds);
        }
        let index = self.by_key.get(&key);
        if let Some((index, region)) = index.and_then(|index| Some((*index, self.own.get(index)?)))
        {
            table(segment).set_access(index, region.access.published(kinds));
        }
    }

    /// Whether the runtime wants to know of any accesses to a region.
    pub(crate) fn is_reported(&self, id: RegionId) -> bool {
        let region = u32::try_from(id.0).ok().and_then(|at| self.own.get(&at));
        region.is_some_and(|region| self.reported.contains_key(&region.key))
    }

    /// The key of a region, if the runtime wants to know of such an access to it.
    pub(crate) fn reported(&self, index: u32, kind: Access) -> Option<u64> {
        if self.reported.is_empty() {
            return None;
        }
        let key = self.own.get(&index)?.key;
        self.wanted(key).contains(kind).then_some(key)
    }

    /// As [`reported`](Self::reported), for the region of which a peer says the serial number. The
    /// region may be gone. The peer may say any number, and an access that is not allowed.
    pub(crate) fn reported_by_peer(&self, serial: u64, kind: Access) -> Option<u64> {
        let index = serial as u32;
        let region = self.own.get(&index)?;
        if region.serial != serial || !region.access.contains(kind) {
            return None;
        }
        self.reported(index, kind)
    }
}
