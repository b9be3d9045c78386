//! One-sided access over the module's primitives (H2): the owner does nothing.
//!
//! An endpoint exposes its regions to the group, and beside them one list that says under which handle each lies. Peers
//! know the list's handle from the endpoint's address; they read the list once, and again when a handle has become
//! stale. What is in a list is input: it is checked before it is used, and the module checks it again.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;

use limic_copy::{
    Access as Reach, CopyEngine, CopyError, LocalSlice, LocalSliceMut, RefusalReason, RemoteRange,
};

use super::{KernelEngine, local};
use crate::raw::{Access, Posted, RawSlice, RawSliceMut, RegionId};
use crate::{Address, Error, Peer, Result, Status, Tag};

/// Regions of one endpoint, at most.
const MOST: usize = 512;
/// Words of an entry: key, handle, length, origin, access, and the sum that makes it whole.
const WORDS: usize = 6;

/// A region as its owner lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    key: u64,
    /// 0 for a region of no bytes.
    handle: u64,
    len: u64,
    /// The offset by which its first byte is named.
    origin: u64,
    access: Access,
}

impl Listed {
    fn words(&self) -> [u64; WORDS] {
        let words = [
            self.key,
            self.handle,
            self.len,
            self.origin,
            self.access.bits(),
        ];
        let [key, handle, len, origin, access] = words;
        [key, handle, len, origin, access, sum(&words)]
    }

    /// `None` for an entry that is empty, or being written.
    fn of_words(words: &[u64; WORDS]) -> Option<Self> {
        let [key, handle, len, origin, access, found] = *words;
        let whole = key != 0 && sum(&[key, handle, len, origin, access]) == found;
        whole.then(|| Self {
            key,
            handle,
            len,
            origin,
            access: Access::from_bits(access),
        })
    }

    /// Where an access begins in the exposure.
    fn place(&self, offset: u64, len: u64) -> Result<u64> {
        let start = offset.checked_sub(self.origin);
        let within = start.filter(|start| {
            let end = start.checked_add(len);
            end.is_some_and(|end| end <= self.len)
        });
        within.ok_or(Error::OutOfRegion {
            offset,
            len,
            region: self.len,
        })
    }
}

fn sum(words: &[u64; WORDS - 1]) -> u64 {
    words.iter().fold(0x6c69_6d69_6331_u64, |sum, word| {
        (sum.rotate_left(13) ^ word).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A region of this endpoint.
struct Own {
    listed: Listed,
    /// Its entry of the list.
    entry: usize,
    /// Taken apart, so that nobody holds a reference to bytes that peers may write.
    start: *mut u8,
    len: usize,
    /// Of the vector that it was; `None`: the memory stays the application's.
    capacity: Option<usize>,
}

// SAFETY: it stands for a `Vec<u8>`, or for memory that whoever exposed it promised to leave there.
unsafe impl Send for Own {}

impl Own {
    /// # Safety
    /// Nobody else uses the memory any more, and this is called once.
    unsafe fn rebuild(self) -> Vec<u8> {
        match self.capacity {
            // SAFETY: the three came from one `Vec<u8>`.
            Some(capacity) => unsafe { Vec::from_raw_parts(self.start, self.len, capacity) },
            None => Vec::new(),
        }
    }
}

/// The regions of this endpoint.
pub(super) struct Regions {
    own: HashMap<u64, Own>,
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
        let mut memory = core::mem::ManuallyDrop::new(memory);
        let (start, len, capacity) = (memory.as_mut_ptr(), memory.len(), memory.capacity());
        let exposed = self.expose_keyed(start, len, Some(capacity), None, Access::BOTH, 0);
        if exposed.is_err() {
            core::mem::ManuallyDrop::into_inner(memory);
        }
        exposed
    }

    /// Exposes memory that stays the caller's.
    pub(super) fn expose_raw(&mut self, memory: RawSliceMut) -> Result<(RegionId, u64)> {
        self.expose_keyed(memory.start, memory.len, None, None, Access::BOTH, 0)
    }

    /// Exposes memory that stays the caller's, under its key.
    pub(super) fn expose_at(
        &mut self,
        (start, len): (*mut u8, usize),
        key: u64,
        access: Access,
        origin: u64,
    ) -> Result<RegionId> {
        if key == 0 || self.regions.own.values().any(|own| own.listed.key == key) {
            return Err(Error::KeyInUse { key });
        }
        let exposed = self.expose_keyed(start, len, None, Some(key), access, origin);
        exposed.map(|(id, _)| id)
    }

    fn expose_keyed(
        &mut self,
        start: *mut u8,
        len: usize,
        capacity: Option<usize>,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        let Some(module) = &self.module else {
            let peer = self.myself();
            return Err(Error::PeerFailed {
                peer,
                why: crate::error::PeerFailure::Closed,
            });
        };
        let Some(entry) = self.regions.free.pop() else {
            return Err(Error::NoMemory(format!(
                "an endpoint of the kernel module has at most {MOST} regions"
            )));
        };
        let mut handle = 0;
        if len > 0 {
            let reach = if access.write {
                Reach::ReadWrite
            } else {
                Reach::Read
            };
            let mut range = [RemoteRange::default()];
            // SAFETY: it stays where it is until it is revoked, and meanwhile peers may read and write it.
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
        let listed = Listed {
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
            start,
            len,
            capacity,
        };
        self.regions.own.insert(id, own);
        Ok((RegionId(id), key))
    }

    /// Where bytes of an own region lie.
    fn own_bytes(&self, region: RegionId, offset: u64, len: usize) -> Result<*mut u8> {
        let own = self.regions.own.get(&region.0);
        let own = own.ok_or(Error::UnknownRequest)?;
        let fits = offset.checked_add(len as u64);
        if fits.is_none_or(|end| end > own.len as u64) {
            return Err(Error::OutOfRegion {
                offset,
                len: len as u64,
                region: own.len as u64,
            });
        }
        Ok(own.start.wrapping_add(offset as usize))
    }

    /// Copies out of an own region.
    pub(super) fn region_read(
        &mut self,
        region: RegionId,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let from = self.own_bytes(region, offset, into.len())?;
        // SAFETY: within the region, which is readable until it is revoked; no reference to it exists. A peer that
        // writes at the same time changes which bytes are copied, nothing else.
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
        Ok(unsafe { own.rebuild() })
    }

    fn take_back(&self, handle: u64) {
        if let Some(module) = &self.module
            && handle != 0
        {
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

    /// Takes all regions back; their memory stays with them until they are revoked.
    pub(super) fn close_regions(&mut self) {
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

    /// A region of a peer, as it lists it: as it was read before, or read anew.
    fn listed(&mut self, peer: u32, key: u64) -> Result<Listed> {
        let unknown = Error::UnknownRegion { peer: Peer(peer) };
        if self.is_me(peer) {
            let mut own = self.regions.own.values();
            let found = own.find(|own| own.listed.key == key);
            return found.map(|own| own.listed).ok_or(unknown);
        }
        if let Some(listed) = self.entry(peer)?.known.get(&key) {
            return Ok(*listed);
        }
        let list = self.list_of(peer);
        let mut words = vec![0_u64; MOST * WORDS];
        let read = self.module.as_ref().map(|module| {
            let bytes = words.len() * 8;
            let range = RemoteRange {
                key: list,
                address: 0,
                len: bytes as u64,
            };
            let into = LocalSliceMut::new(words.as_mut_ptr().cast(), bytes);
            // SAFETY: the vector outlives the call, and every bit pattern is a word.
            unsafe {
                module
                    .pair
                    .read_at(&module.group, &[range], &[into], 0, u64::MAX)
            }
        });
        if !matches!(read, Some(Ok(_))) {
            return Err(match self.what_became_of(peer) {
                Some(_) => self.failed(peer),
                None => unknown,
            });
        }
        let entries = words.as_chunks::<WORDS>().0;
        let known: HashMap<u64, Listed> = entries
            .iter()
            .filter_map(Listed::of_words)
            .map(|listed| (listed.key, listed))
            .collect();
        let found = known.get(&key).copied();
        self.entry(peer)?.known = known;
        found.ok_or(unknown)
    }

    /// Copies between own memory and a peer's region. It is over when this returns.
    fn access<S>(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        len: u64,
        needed: Access,
        slices: S,
    ) -> Result<Posted>
    where
        S: Fn(&super::Module, &[RemoteRange]) -> Result<u64, CopyError>,
    {
        self.rank(peer)?;
        let mut again = true;
        loop {
            let listed = self.listed(peer, key)?;
            if !listed.access.contains(needed) {
                return Err(Error::UnknownRegion { peer: Peer(peer) });
            }
            let start = listed.place(offset, len)?;
            let Some(module) = &self.module else {
                return Err(Error::UnknownRequest);
            };
            let range = RemoteRange {
                key: listed.handle,
                address: start,
                len,
            };
            let copied = if len == 0 {
                Ok(0)
            } else {
                slices(module, &[range])
            };
            match copied {
                Ok(_) => {
                    return Ok(Posted::Done(Ok(Status {
                        peer: Peer(peer),
                        tag: Tag(0),
                        len,
                        immediate: None,
                    })));
                }
                Err(error) => {
                    let stale = matches!(&error, CopyError::PeerGone)
                        || matches!(&error, CopyError::Refused(it) if it.reason == RefusalReason::NotExposed);
                    if !stale {
                        return Err(super::peers::no_path(peer, &format!("kmod: {error}")));
                    }
                    // Revoked, and perhaps exposed anew.
                    self.entry(peer)?.known.clear();
                    if !core::mem::take(&mut again) {
                        return Err(match self.what_became_of(peer) {
                            Some(_) => self.failed(peer),
                            None => Error::UnknownRegion { peer: Peer(peer) },
                        });
                    }
                }
            }
        }
    }

    /// Reads from a region of a peer.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_read`](crate::RawEndpoint::post_read).
    pub(super) unsafe fn read(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        let pieces: Vec<LocalSliceMut> = into
            .iter()
            .map(|piece| LocalSliceMut::new(piece.start, piece.len))
            .collect();
        let len = into.iter().map(|piece| piece.len as u64).sum();
        self.access(peer, key, offset, len, Access::READ, |module, range| {
            // SAFETY: the caller's promise.
            unsafe {
                module
                    .pair
                    .read_at(&module.group, range, &pieces, 0, u64::MAX)
            }
        })
    }

    /// Writes to a region of a peer.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_write`](crate::RawEndpoint::post_write).
    pub(super) unsafe fn write(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        let pieces = local(from);
        let len = crate::buffer::total(from);
        self.access(peer, key, offset, len, Access::WRITE, |module, range| {
            // SAFETY: the caller's promise.
            unsafe {
                module
                    .pair
                    .write_at(&module.group, range, &pieces, 0, u64::MAX)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_whole_or_nothing() {
        let listed = Listed {
            key: 7,
            handle: u64::MAX,
            len: 1000,
            origin: 1 << 40,
            access: Access::READ,
        };
        let words = listed.words();
        assert_eq!(Listed::of_words(&words), Some(listed));
        for at in 0..WORDS {
            let mut torn = words;
            torn[at] ^= 1 << at;
            assert_eq!(Listed::of_words(&torn), None);
        }
        assert_eq!(Listed::of_words(&[0; WORDS]), None);
        assert_eq!(listed.place((1 << 40) + 990, 10), Ok(990));
        for (offset, len) in [(0, 1), ((1 << 40) + 991, 10), (u64::MAX, 1)] {
            assert!(listed.place(offset, len).is_err());
        }
    }
}
