//! Access to regions of peers. `regions` is the owner's side.

use std::collections::HashMap;

use limic_copy::{CopyEngine, CopyError, LocalSliceMut, RefusalReason, RemoteRange};

use super::region_directory::{DirectoryEntry, WORDS};
use super::regions::MOST;
use super::{KernelEngine, local};
use crate::engine::request::sent;
use crate::raw::{Access, Posted, RawSlice, RawSliceMut};
use crate::{Error, Peer, Result};

impl KernelEngine {
    /// A region of a peer, as it lists it: as it was read before, or read anew.
    fn listed(&mut self, peer: u32, key: u64) -> Result<DirectoryEntry> {
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
        let known: HashMap<u64, DirectoryEntry> = words
            .chunks_exact(WORDS)
            .filter_map(|entry| DirectoryEntry::of_words(entry.first_chunk()?))
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
                Ok(_) => return Ok(Posted::Done(sent(peer, 0, len))),
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
    /// As [`OneSided::post_read`](crate::raw::OneSided::post_read).
    pub(super) unsafe fn read(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        let slices: Vec<LocalSliceMut> = into
            .iter()
            .map(|slice| LocalSliceMut::new(slice.start, slice.len))
            .collect();
        let len = into.iter().map(|slice| slice.len as u64).sum();
        self.access(peer, key, offset, len, Access::READ, |module, range| {
            // SAFETY: the caller's promise.
            unsafe {
                module
                    .pair
                    .read_at(&module.group, range, &slices, 0, u64::MAX)
            }
        })
    }

    /// Writes to a region of a peer.
    ///
    /// # Safety
    /// As [`OneSided::post_write`](crate::raw::OneSided::post_write).
    pub(super) unsafe fn write(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        let slices = local(from);
        let len = limic_shm::bytes::total(from);
        self.access(peer, key, offset, len, Access::WRITE, |module, range| {
            // SAFETY: the caller's promise.
            unsafe {
                module
                    .pair
                    .write_at(&module.group, range, &slices, 0, u64::MAX)
            }
        })
    }

    /// The module copies within the call.
    pub(super) fn is_helping(&self, _: u32) -> bool {
        false
    }
}
