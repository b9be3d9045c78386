//! The regions that this endpoint exposes to one-sided access.
//!
//! # Invariants
//! - Memory of a region that is taken back is freed only when no transfer uses it (`users`), and no
//!   peer that lives says that it accesses it.
//! - Peers find a region with an entry in the shared table there, and any other through its owner
//!   alone.

mod reported;

use core::time::Duration;
use std::collections::{BTreeSet, HashMap};

use limic_records::Done;
use limic_shm::bytes::LooseMemory;
use limic_shm::owner::region::{RegionTable, RegionTerms};
use limic_shm::ring::Mapped;
use limic_shm::segment::OwnSegment;
use limic_shm::system::Instant;

use super::help::Help;
use super::peer::inquiry::Inquiry;
use crate::raw::{Access, RawSliceMut, RegionId, part};
use crate::{Address, Error, Result};

/// One region.
struct Region {
    memory: LooseMemory,
    access: Access,
    /// The offset by which peers name the first byte.
    origin: u64,
    key: u64,
    /// Its number, by which peers tell that they have accessed it: the upper half is that of the
    /// exposure, the lower one the index.
    serial: u64,
    /// It is taken back, or the endpoint closes: no further access begins.
    over: bool,
    /// Transfers through this endpoint that use it now.
    users: u32,
}

/// What is to be exposed, and how.
#[derive(Clone, Copy)]
pub(crate) struct Exposure {
    pub(crate) memory: LooseMemory,
    /// The key that the caller picked, if it did.
    pub(crate) key: Option<u64>,
    pub(crate) access: Access,
    /// The offset by which peers name the first byte.
    pub(crate) origin: u64,
}

/// A region that is being taken back.
struct Revoke {
    since: Instant,
    /// Of the transfers that use the region: how many, and how far they are together; since when.
    moved: ((u32, u64), Instant),
    /// Peers that seem to access it.
    accessors: HashMap<u32, Inquiry>,
}

impl Revoke {
    fn new() -> Self {
        let since = Instant::now();
        Self {
            since,
            moved: ((0, 0), since),
            accessors: HashMap::new(),
        }
    }
}

/// All regions, by their index in the shared table or beyond it.
#[derive(Default)]
pub(crate) struct Regions {
    own: HashMap<u32, Region>,
    /// The indices below their number, and that of these, that none of them has.
    free: BTreeSet<u32>,
    /// The index of each key.
    by_key: HashMap<u64, u32>,
    /// Accesses of which the runtime wants to know, by key. Keys without any are not there, and
    /// there need not be a region under one.
    reported: HashMap<u64, Access>,
    /// Regions that were exposed so far.
    exposures: u32,
    /// Of the regions that are being taken back.
    revokes: HashMap<RegionId, Revoke>,
    /// The time that help with accesses takes.
    pub(crate) help: Help,
}

impl Regions {
    /// Exposes memory; gives its key too.
    ///
    /// # Errors
    /// [`Error::KeyInUse`], or no key can be found for it.
    pub(crate) fn expose(
        &mut self,
        segment: &OwnSegment,
        exposure: Exposure,
    ) -> Result<(RegionId, u64)> {
        let key = self.new_key(segment, exposure.key)?;
        // The lowest: those of the table come first.
        let index = self.free.pop_first().unwrap_or(self.own.len() as u32);
        self.exposures = self.exposures.wrapping_add(1);
        let region = Region {
            memory: exposure.memory,
            access: exposure.access,
            origin: exposure.origin,
            key,
            serial: u64::from(self.exposures) << 32 | u64::from(index),
            over: false,
            users: 0,
        };
        let memory = region.memory.writable();
        let terms = RegionTerms {
            address: memory.start.expose_provenance() as u64,
            len: memory.len as u64,
            access: region.access.published(self.wanted(key)),
            origin: region.origin,
            serial: region.serial,
        };
        table(segment).publish(index, key, &terms);
        self.by_key.insert(key, index);
        self.own.insert(index, region);
        Ok((RegionId(u64::from(index)), key))
    }

    /// The key that the caller picked, or else a random one, of which there are as many as the
    /// table has entries.
    fn new_key(&self, segment: &OwnSegment, picked: Option<u64>) -> Result<u64> {
        if let Some(key) = picked {
            if key == 0 || self.by_key.contains_key(&key) {
                return Err(Error::KeyInUse { key });
            }
            return Ok(key);
        }
        let count = segment.shape().regions;
        if self.own.len() >= count as usize {
            return Err(Error::NoMemory(format!(
                "all {count} regions of this endpoint are in use: revoke one, or expose larger slices"
            )));
        }
        Address::generate_key()
    }

    fn get(&mut self, id: RegionId) -> Result<&mut Region> {
        u32::try_from(id.0)
            .ok()
            .and_then(|index| self.own.get_mut(&index))
            .ok_or(Error::UnknownRequest)
    }

    /// Bytes of a region, for its owner's plain copies.
    pub(crate) fn bytes(&mut self, id: RegionId, offset: u64, len: usize) -> Result<RawSliceMut> {
        part(&self.get(id)?.memory, offset, len)
    }

    /// Bytes that a peer asks for by key, or this endpoint as a peer would; with the region's
    /// index.
    ///
    /// # Errors
    /// What the peer is to be told.
    pub(crate) fn find(
        &self,
        key: u64,
        offset: u64,
        len: u64,
        access: Access,
    ) -> core::result::Result<(u32, RawSliceMut), Done> {
        let index = self.by_key.get(&key);
        let found = index.and_then(|index| Some((*index, self.own.get(index)?)));
        let fits = |(_, region): &(u32, &Region)| !region.over && region.access.contains(access);
        let (index, region) = found.filter(fits).ok_or(Done::NoRegion)?;
        let offset = offset.wrapping_sub(region.origin);
        let found = region.memory.get(offset, len);
        let bytes = found.ok_or(Done::OutOfRegion(region.memory.len()))?;
        Ok((index, bytes))
    }

    /// A transfer uses a region.
    pub(crate) fn enter(&mut self, index: u32) {
        if let Some(region) = self.own.get_mut(&index) {
            region.users += 1;
        }
    }

    /// A transfer uses a region no longer.
    pub(crate) fn leave(&mut self, index: u32) {
        if let Some(region) = self.own.get_mut(&index) {
            region.users -= 1;
        }
    }

    /// Removes a region from the table; [`take`](Self::take) gives its memory when that is free.
    /// Where that has begun already, nothing changes.
    pub(crate) fn start_revoke(&mut self, segment: &OwnSegment, id: RegionId) -> Result<()> {
        self.get(id)?.over = true;
        self.revoke(id);
        if let Ok(index) = u32::try_from(id.0) {
            table(segment).remove(index);
        }
        Ok(())
    }

    fn revoke(&mut self, id: RegionId) -> &mut Revoke {
        self.revokes.entry(id).or_insert_with(Revoke::new)
    }

    /// What is known of a peer that seems to access a region which is taken back.
    pub(crate) fn accessor(&mut self, id: RegionId, peer: u32) -> &mut Inquiry {
        let known = self.revoke(id).accessors.entry(peer);
        known.or_insert_with(Inquiry::new)
    }

    /// Whether transfers through this endpoint use a region.
    pub(crate) fn is_used(&mut self, id: RegionId) -> Result<bool> {
        self.get(id).map(|region| region.users > 0)
    }

    pub(crate) fn key(&mut self, id: RegionId) -> Result<u64> {
        self.get(id).map(|region| region.key)
    }

    /// How long it takes so far to take a region back.
    pub(crate) fn taken_back_for(&mut self, id: RegionId) -> Duration {
        self.revoke(id).since.elapsed()
    }

    /// Makes as if that had begun earlier.
    #[cfg(test)]
    pub(crate) fn age(&mut self, id: RegionId, by: Duration) {
        let since = &mut self.revoke(id).since;
        *since = since.checked_sub(by).expect("the machine runs for longer");
    }

    /// How long the transfers that use a region which is taken back have not moved; `moved` says
    /// how far they are.
    pub(crate) fn unmoved_for(&mut self, id: RegionId, moved: u64) -> Duration {
        let users = self.get(id).map_or(0, |region| region.users);
        let known = &mut self.revoke(id).moved;
        if known.0 != (users, moved) {
            *known = ((users, moved), Instant::now());
        }
        known.1.elapsed()
    }

    /// The memory of a region that was taken back.
    ///
    /// # Safety
    /// No peer that lives says that it accesses it, and no transfer uses it.
    pub(crate) unsafe fn take(&mut self, id: RegionId) -> Result<Vec<u8>> {
        let index = id.0 as u32;
        let region = self.own.remove(&index).ok_or(Error::UnknownRequest)?;
        self.free.insert(index);
        self.by_key.remove(&region.key);
        self.end_revoke(id);
        // SAFETY: the caller's promise: nobody can reach it any more.
        Ok(unsafe { region.memory.rebuild() })
    }

    /// A region was taken back, or is given up for now. A caller that tries it again waits anew.
    pub(crate) fn end_revoke(&mut self, id: RegionId) {
        self.revokes.remove(&id);
    }

    /// Whether one is taken back that may be in use.
    pub(crate) fn has_revoked(&self) -> bool {
        !self.revokes.is_empty()
    }

    /// No access to any region begins any more.
    pub(crate) fn withdraw(&mut self, segment: &OwnSegment) {
        for (index, region) in &mut self.own {
            region.over = true;
            table(segment).remove(*index);
        }
    }

    /// Whether there are any.
    pub(crate) fn are_exposed(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether one has this key.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Gives up regions without freeing them, but for those under these keys, which peers access:
    /// they can still be taken back.
    pub(crate) fn leak_all_but(&mut self, accessed: &[u64]) {
        self.own.retain(|_, region| accessed.contains(&region.key));
        self.by_key.retain(|key, _| accessed.contains(key));
    }
}

/// The table that peers look into.
fn table(segment: &OwnSegment) -> RegionTable<Mapped> {
    RegionTable::new(segment.regions(), segment.shape().regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of all numbers that a peer may bring.
    const NUMBERS: [u64; 12] = [
        0,
        1,
        2,
        4095,
        4096,
        4097,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 4096,
        u64::MAX - 1,
        u64::MAX,
    ];

    fn regions(memory: &mut [u8], origin: u64) -> Regions {
        let mut regions = Regions::default();
        regions.by_key.insert(7, 0);
        regions.own.insert(
            0,
            Region {
                memory: LooseMemory::new(RawSliceMut::from(memory), None),
                access: Access::BOTH,
                origin,
                key: 7,
                serial: 1 << 32,
                over: false,
                users: 0,
            },
        );
        regions
    }

    /// Offsets are counted from the origin, which may be an address: the region may lie across the
    /// end of all numbers.
    #[test]
    fn what_is_found_lies_within_the_region_whatever_the_numbers() {
        let mut memory = [0; 4096];
        let bounds = memory.as_ptr_range();
        for origin in NUMBERS {
            let mut regions = regions(&mut memory, origin);
            for (offset, len) in NUMBERS.iter().flat_map(|at| NUMBERS.map(|len| (*at, len))) {
                let first = u128::from(offset.wrapping_sub(origin));
                let is_within = first + u128::from(len) <= 4096;
                match regions.find(7, offset, len, Access::READ) {
                    Ok((0, part)) => {
                        assert!(is_within, "{len} bytes at {offset} from {origin}");
                        assert!(bounds.start <= part.start && part.len as u64 == len);
                        assert!(part.start.wrapping_add(part.len).cast_const() <= bounds.end);
                    }
                    other => {
                        assert_eq!(other.err(), Some(Done::OutOfRegion(4096)));
                        assert!(!is_within, "{len} bytes at {offset} from {origin}");
                    }
                }
                let own = regions.bytes(RegionId(0), offset, len as usize);
                let is_within = u128::from(offset) + u128::from(len) <= 4096;
                assert_eq!(own.is_ok(), is_within, "{len} bytes at {offset}");
            }
            assert_eq!(
                regions.find(8, 0, 0, Access::READ).err(),
                Some(Done::NoRegion)
            );
        }
    }
}
