//! One-sided access over the module's primitives: the owner does nothing.
//!
//! An endpoint exposes its regions to the group, and beside them one list that says under which
//! handle each lies. Peers know the list's handle from the endpoint's address; they read the list
//! once, and again when a handle has become stale. What is in a list is input: it is checked before
//! it is used, and the module checks it again.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;

use limic_copy::{Access as Reach, CopyEngine, LocalSlice, RemoteRange};
use limic_shm::bytes::LooseMemory;

use super::KernelEngine;
use super::region_directory::{DirectoryEntry, WORDS};
use crate::raw::{Access, RawSliceMut, RegionId, part};
use crate::{Address, Error, PeerFailure, Result};

/// Regions of one endpoint, at most.
pub(super) const MOST: usize = 512;
/// A region of this endpoint.
pub(super) struct Own {
    pub(super) listed: DirectoryEntry,
    /// Its entry of the list.
    entry: usize,
    memory: LooseMemory,
}

/// The regions of this endpoint.
pub(super) struct Regions {
    pub(super) own: HashMap<u64, Own>,
    next: u64,
    /// What peers read.
    list: Box<[AtomicU64]>,
    free: Vec<usize>,
}

impl Regions {
    pub(super) fn new() -> Self {
        Self {
            own: HashMap::new(),
            next: 0,
            list: (0..MOST * WORDS).map(|_| AtomicU64::new(0)).collect(),
            free: (0..MOST).rev().collect(),
        }
    }

    /// The memory of the list.
    pub(super) fn list_bytes(&self) -> LocalSlice {
        LocalSlice::new(self.list.as_ptr().cast(), self.list.len() * 8)
    }

    /// Writes an entry. Peers may read it at any time; the sum tells them whether it is whole.
    fn write(&self, entry: usize, words: &[u64; WORDS]) {
        let places = &self.list[entry * WORDS..(entry + 1) * WORDS];
        for (place, word) in places.iter().zip(words) {
            place.store(*word, Ordering::Release);
        }
    }
}

impl KernelEngine {
    /// Exposes memory under a random key.
    pub(super) fn expose(&mut self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
        let memory = LooseMemory::of(memory);
        let exposed = self.expose_keyed(memory, None, Access::BOTH, 0);
        if exposed.is_err() {
            // SAFETY: it was not exposed.
            drop(unsafe { memory.rebuild() });
        }
        exposed
    }

    /// Exposes memory that stays the caller's.
    ///
    /// # Safety
    /// As [`OneSided::expose_raw`](crate::raw::OneSided::expose_raw).
    pub(super) unsafe fn expose_raw(
        &mut self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        let taken =
            |key: &u64| *key == 0 || self.regions.own.values().any(|own| own.listed.key == *key);
        if let Some(key) = key.filter(taken) {
            return Err(Error::KeyInUse { key });
        }
        self.expose_keyed(LooseMemory::new(memory, None), key, access, origin)
    }

    fn expose_keyed(
        &mut self,
        memory: LooseMemory,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        let Some(module) = &self.module else {
            return Err(PeerFailure::Closed.of(self.myself()));
        };
        let Some(entry) = self.regions.free.pop() else {
            return Err(Error::NoMemory(format!(
                "an endpoint of the kernel module has at most {MOST} regions"
            )));
        };
        // The module checks what the list says again, so it has to know the same.
        let reach = match (access.read, access.write) {
            (true, true) => Some(Reach::ReadWrite),
            (false, true) => Some(Reach::Write),
            (true, false) => Some(Reach::Read),
            (false, false) => None,
        };
        let mut handle = 0;
        let RawSliceMut { start, len } = memory.writable();
        if let Some(reach) = reach.filter(|_| len > 0) {
            let mut range = [RemoteRange::default()];
            // SAFETY: it stays where it is until it is revoked, and meanwhile peers may read and
            // write it.
            let exposed = unsafe {
                module
                    .pair
                    .expose(&[LocalSlice::new(start, len)], reach, &mut range)
            };
            if let Err(error) = exposed {
                self.regions.free.push(entry);
                return Err(Error::NoMemory(format!(
                    "a region of {len} bytes cannot be pinned: {error}"
                )));
            }
            handle = range[0].key;
        }
        let key = match key {
            Some(key) => key,
            None if handle != 0 => handle,
            None => Address::generate_key()?,
        };
        let listed = DirectoryEntry {
            key,
            handle,
            len: len as u64,
            origin,
            access,
        };
        self.regions.write(entry, &listed.words());
        self.regions.next += 1;
        let id = self.regions.next;
        let own = Own {
            listed,
            entry,
            memory,
        };
        self.regions.own.insert(id, own);
        Ok((RegionId(id), key))
    }

    /// Where bytes of an own region lie.
    fn own_bytes(&self, region: RegionId, offset: u64, len: usize) -> Result<*mut u8> {
        let own = self.regions.own.get(&region.0);
        let own = own.ok_or(Error::UnknownRequest)?;
        Ok(part(&own.memory, offset, len)?.start)
    }

    /// Copies out of an own region.
    pub(super) fn region_read(
        &mut self,
        region: RegionId,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let from = self.own_bytes(region, offset, into.len())?;
        // SAFETY: within the region, which is readable until it is revoked; no reference to it
        // exists. A peer that writes at the same time changes which bytes are copied, nothing else.
        unsafe { limic_shm::ring::copy_bytes(from, into.as_mut_ptr(), into.len()) }
        Ok(())
    }

    /// Copies into an own region.
    pub(super) fn region_write(
        &mut self,
        region: RegionId,
        offset: u64,
        from: &[u8],
    ) -> Result<()> {
        let to = self.own_bytes(region, offset, from.len())?;
        // SAFETY: as in `region_read`.
        unsafe { limic_shm::ring::copy_bytes(from.as_ptr(), to, from.len()) }
        Ok(())
    }

    /// Ends an exposure. The module waits for accesses under way: for at most one burst of each.
    pub(super) fn revoke(&mut self, region: RegionId) -> Result<Vec<u8>> {
        let own = self.regions.own.remove(&region.0);
        let own = own.ok_or(Error::UnknownRequest)?;
        self.regions.write(own.entry, &[0; WORDS]);
        self.regions.free.push(own.entry);
        self.take_back(own.listed.handle);
        // SAFETY: revoked, or gone with the session; and out of the table.
        Ok(unsafe { own.memory.rebuild() })
    }

    /// The same: there is nothing to be waited for here.
    pub(super) fn try_revoke(&mut self, region: RegionId) -> Result<Option<Vec<u8>>> {
        self.revoke(region).map(Some)
    }

    fn take_back(&self, handle: u64) {
        let module = self.module.as_ref().filter(|_| handle != 0);
        if let Some(module) = module {
            let range = RemoteRange {
                key: handle,
                ..RemoteRange::default()
            };
            if let Err(error) = module.pair.revoke(&[range]) {
                // A forked child: what was exposed is its parent's.
                tracing::warn!("a region could not be taken back from /dev/limic: {error}");
            }
        }
    }

    /// Takes all regions back, whose memory stays with them until they are revoked, and the list of
    /// them: a forked child may hold the session for longer.
    pub(super) fn close_regions(&mut self) {
        self.take_back(self.address.id);
        let handles: Vec<u64> = self
            .regions
            .own
            .values()
            .map(|own| own.listed.handle)
            .collect();
        for handle in handles {
            self.take_back(handle);
        }
    }
}
