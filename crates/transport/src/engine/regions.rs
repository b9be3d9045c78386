//! Regions of this endpoint: exposed, read and written by peers, and taken back.
//!
//! `one_sided` is the other side, and says how the two keep a region from being taken back under a copy.

use std::collections::HashMap;

use limic_shm::ring::Memory;
use limic_shm::segment::{ACCESS_SLOT_BYTES, REGION_BYTES};
use limic_shm::sync::{Ordering, fence};

use super::Core;
use super::requests::{Incoming, Operation, ReceiveStage, Receiving, SendStage, Sending, Slot};
use super::wire::{self, Control};
use crate::buffer::{ReceiveBuffer, SendBuffer, Source, words};
use crate::policy::Path;
use crate::raw::{Access, Posted, RawSlice, RawSliceMut, RegionId};
use crate::{Error, Peer, Result};

/// A region of this endpoint.
pub(crate) struct OwnRegion {
    /// Taken apart, so that nobody holds a reference to bytes that peers may write.
    start: *mut u8,
    len: usize,
    /// Of the vector that it was; `None`: the memory stays the application's.
    capacity: Option<usize>,
    access: Access,
    /// The offset by which peers name the first byte.
    origin: u64,
    key: u64,
    /// Taken back: no further access begins.
    over: bool,
    /// Transfers through chunks that use it now.
    users: u32,
}

// SAFETY: it stands for a `Vec<u8>`, or for memory that whoever exposed it promised to leave there.
unsafe impl Send for OwnRegion {}

impl OwnRegion {
    /// # Safety
    /// Nobody else uses the memory any more, and this is called once.
    unsafe fn rebuild(self) -> Vec<u8> {
        match self.capacity {
            // SAFETY: the three came from one `Vec<u8>`.
            Some(capacity) => unsafe { Vec::from_raw_parts(self.start, self.len, capacity) },
            None => Vec::new(),
        }
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let region = self.len as u64;
        if offset.checked_add(len).is_some_and(|end| end <= region) {
            return Ok(());
        }
        Err(Error::OutOfRegion {
            offset,
            len,
            region,
        })
    }
}

/// The regions of this endpoint, by their place in the shared table.
#[derive(Default)]
pub(crate) struct Regions {
    own: HashMap<u32, OwnRegion>,
    /// The place of each key.
    by_key: HashMap<u64, u32>,
    /// One is taken back, as soon as nobody uses it any more.
    revoked: bool,
}

impl Regions {
    /// Gives up all regions without freeing them: a peer may be copying.
    pub(crate) fn leak(&mut self) {
        self.own.clear();
        self.by_key.clear();
    }

    /// Whether one is taken back that may be in use.
    pub(crate) const fn has_revoked(&self) -> bool {
        self.revoked
    }

    fn leave(&mut self, place: u32) {
        if let Some(region) = self.own.get_mut(&place) {
            region.users -= 1;
        }
    }
}

impl Core {
    /// Exposes memory under a random key.
    pub(crate) fn expose(&mut self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
        let mut memory = core::mem::ManuallyDrop::new(memory);
        let room = RawSliceMut::from(memory.as_mut_slice());
        let exposed = self.expose_keyed(room, Some(memory.capacity()), None, Access::BOTH, 0);
        if exposed.is_err() {
            core::mem::ManuallyDrop::into_inner(memory);
        }
        exposed
    }

    /// Exposes memory that stays the caller's.
    ///
    /// # Safety
    /// As [`RawEndpoint::expose_raw`](crate::RawEndpoint::expose_raw).
    pub(crate) unsafe fn expose_raw(
        &mut self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        self.expose_keyed(memory, None, key, access, origin)
    }

    fn expose_keyed(
        &mut self,
        RawSliceMut { start, len }: RawSliceMut,
        capacity: Option<usize>,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        let key = self.region_key(key)?;
        let region = OwnRegion {
            start,
            len,
            capacity,
            access,
            origin,
            key,
            over: false,
            users: 0,
        };
        Ok((self.enter_region(region), key))
    }

    /// The key that the caller picked, or else a random one, of which there are as many as the table has places.
    fn region_key(&self, picked: Option<u64>) -> Result<u64> {
        let own = &self.regions.own;
        if let Some(key) = picked {
            if key == 0 || self.regions.by_key.contains_key(&key) {
                return Err(Error::KeyInUse { key });
            }
            return Ok(key);
        }
        let count = self.segment.shape().regions;
        if own.len() >= count as usize {
            return Err(Error::NoMemory(format!(
                "all {count} regions of this endpoint are in use: revoke one, or expose larger pieces"
            )));
        }
        let key = getrandom::u64().map_err(|_| Error::NoMemory("no random key".into()))?;
        Ok(key.max(1))
    }

    /// Enters a region into the table that peers look into. One that the table has no place for is found by its
    /// owner alone, so every access to it goes through the owner.
    fn enter_region(&mut self, region: OwnRegion) -> RegionId {
        let own = &self.regions.own;
        let place = (0..=own.len() as u32).find(|place| !own.contains_key(place));
        // One of `n + 1` places is free where `n` are taken.
        let place = place.unwrap_or(u32::MAX);
        if place < self.segment.shape().regions {
            let table = self.segment.regions();
            let at = place as usize * REGION_BYTES;
            let address = region.start.expose_provenance() as u64;
            table.word64(at + 8).store(address, Ordering::Relaxed);
            table
                .word64(at + 16)
                .store(region.len as u64, Ordering::Relaxed);
            table
                .word64(at + 24)
                .store(region.access.bits(), Ordering::Relaxed);
            table
                .word64(at + 32)
                .store(region.origin, Ordering::Relaxed);
            // Pairs with the acquire in `find_region`: who sees the key sees the rest.
            table.word64(at).store(region.key, Ordering::Release);
        }
        self.regions.by_key.insert(region.key, place);
        self.regions.own.insert(place, region);
        RegionId(u64::from(place))
    }

    fn own_region(&mut self, id: RegionId) -> Result<&mut OwnRegion> {
        u32::try_from(id.0)
            .ok()
            .and_then(|place| self.regions.own.get_mut(&place))
            .ok_or(Error::UnknownRequest)
    }

    /// Copies out of an own region.
    pub(crate) fn region_read(&mut self, id: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
        let region = self.own_region(id)?;
        region.check(offset, into.len() as u64)?;
        // SAFETY: checked against the length; the memory is this endpoint's until `revoke`. A peer that writes now
        // changes which bytes are copied.
        unsafe {
            let from = region.start.add(offset as usize);
            core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
        Ok(())
    }

    /// Copies into an own region.
    pub(crate) fn region_write(&mut self, id: RegionId, offset: u64, from: &[u8]) -> Result<()> {
        let region = self.own_region(id)?;
        region.check(offset, from.len() as u64)?;
        // SAFETY: as in `region_read`.
        unsafe {
            let to = region.start.add(offset as usize);
            core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
        Ok(())
    }

    /// A one-sided read of a region of this endpoint by itself: one plain copy, done at once. Nothing of it goes through a
    /// ring, so that messages to itself have one way only, and keep their order.
    pub(crate) fn read_own(
        &mut self,
        me: u32,
        key: u64,
        offset: u64,
        into: &ReceiveBuffer,
    ) -> Result<Posted> {
        let len = into.len();
        let room = self.own_bytes(me, key, (offset, len, Access::READ))?;
        let bytes = RawSlice {
            start: room.start,
            len: room.len,
        };
        // SAFETY: within the region (just checked), which is not freed during this call. A peer that writes there
        // meanwhile changes which bytes are copied.
        into.copy_from_send(&unsafe { SendBuffer::new(&[bytes]) }, len);
        self.give_row(me);
        self.note_received_by(me, Path::SelfCopy, len);
        Ok(Posted::Done(super::send::sent(me, 0, len)))
    }

    /// A one-sided write, as [`read_own`](Self::read_own).
    pub(crate) fn write_own(
        &mut self,
        me: u32,
        key: u64,
        offset: u64,
        data: &SendBuffer,
    ) -> Result<Posted> {
        let len = data.len();
        let room = self.own_bytes(me, key, (offset, len, Access::WRITE))?;
        // SAFETY: as in `read_own`.
        unsafe { ReceiveBuffer::new(&[room]) }.copy_from_send(data, len);
        self.give_row(me);
        self.note_sent(me, Path::SelfCopy, len);
        Ok(Posted::Done(super::send::sent(me, 0, len)))
    }

    /// Bytes of an own region that the endpoint itself asks for as a peer would.
    fn own_bytes(
        &self,
        me: u32,
        key: u64,
        (offset, len, access): (u64, u64, Access),
    ) -> Result<RawSliceMut> {
        let found = self.find_own(key, offset, len, access);
        let (place, at) =
            found.map_err(|refusal| super::one_sided::refused(me, offset, len, refusal))?;
        let region = self.regions.own.get(&place);
        let region = region.ok_or(Error::UnknownRegion { peer: Peer(me) })?;
        Ok(RawSliceMut {
            start: region.start.wrapping_add(at as usize),
            len: len as usize,
        })
    }

    /// Removes a region from the table; `revoked` tells when its memory is free.
    pub(crate) fn start_revoke(&mut self, id: RegionId) -> Result<()> {
        self.own_region(id)?.over = true;
        self.regions.revoked = true;
        if id.0 < u64::from(self.segment.shape().regions) {
            self.segment
                .regions()
                .word64(id.0 as usize * REGION_BYTES)
                .store(0, Ordering::Relaxed);
        }
        // Pairs with the fence in `access`: either this side sees the accessor's slot, or the accessor
        // sees that the key is gone.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// The memory of a region that `start_revoke` removed, as soon as nobody uses it.
    pub(crate) fn revoked(&mut self, id: RegionId) -> Result<Option<Vec<u8>>> {
        let region = self.own_region(id)?;
        let (key, users) = (region.key, region.users);
        if users > 0 {
            return Ok(None);
        }
        let slots = self.segment.access_slots();
        let count = self.segment.shape().access_slots;
        for (number, peer) in self.peers.iter().take(count as usize) {
            let slot = slots.word64(number as usize * ACCESS_SLOT_BYTES);
            // Acquire: pairs with the release that empties the slot; the copy came before. What a process that has ended
            // left there means nothing.
            if slot.load(Ordering::Acquire) == key
                && (peer.link.is_some() || self.given_up.lives(number))
            {
                return Ok(None);
            }
        }
        match self.regions.own.remove(&(id.0 as u32)) {
            Some(region) => {
                self.regions.by_key.remove(&key);
                self.regions.revoked = false;
                // SAFETY: out of the table, no slot of a process that lives holds its key, no transfer uses it: nobody can
                // reach it.
                Ok(Some(unsafe { region.rebuild() }))
            }
            None => Err(Error::UnknownRequest),
        }
    }

    /// A peer asks for bytes of a region.
    pub(crate) fn on_get(&mut self, from: u32, source: &impl Source) {
        let [remote, key, offset, len] = words::<4>(source);
        let (place, offset) = match self.find_own(key, offset, len, Access::READ) {
            Ok(found) => found,
            Err(refusal) => return self.answer_access(from, remote, refusal, 0),
        };
        if len == 0 {
            return self.answer_access(from, remote, (wire::OK, 0), 0);
        }
        let Some(region) = self.regions.own.get_mut(&place) else {
            return;
        };
        region.users += 1;
        let bytes = RawSlice {
            start: region.start.wrapping_add(offset as usize),
            len: len as usize,
        };
        // SAFETY: within the region (just checked), which is not freed while it has users. A peer that writes there
        // meanwhile changes which bytes are sent.
        let data = unsafe { SendBuffer::new(&[bytes]) };
        let stage = SendStage::Streaming {
            remote,
            at: 0,
            end: len,
            confirm: false,
        };
        let slot = self.requests.insert(Operation::Send(Sending {
            to: from,
            tag: 0,
            immediate: None,
            data,
            stage,
            exposed: None,
            delivered: false,
        }));
        // Frees the slot by itself, and the region's user with it.
        self.requests.abandon(slot, Box::new(()));
        self.region_users.push((self.requests.id(slot), place));
        self.work.streams.push_back(slot);
    }

    /// A peer wants to write to a region.
    pub(crate) fn on_put(&mut self, from: u32, source: &impl Source) {
        let [remote, key, offset, len] = words::<4>(source);
        let (place, offset) = match self.find_own(key, offset, len, Access::WRITE) {
            Ok(found) => found,
            Err(refusal) => return self.answer_access(from, remote, refusal, 1),
        };
        let Some(region) = self.regions.own.get_mut(&place) else {
            return;
        };
        region.users += 1;
        let room = RawSliceMut {
            start: region.start.wrapping_add(offset as usize),
            len: len as usize,
        };
        // SAFETY: as in `on_get`.
        let into = unsafe { ReceiveBuffer::new(&[room]) };
        let incoming = Incoming {
            from,
            tag: 0,
            immediate: None,
            sent: len,
            wanted: len,
            got: 0,
            remote,
            address: 0,
            key: 0,
            region: Some(place),
            spell: None,
            confirm: false,
            path: Path::Pipeline,
            past_caches: false,
        };
        let stage = ReceiveStage::Assembling(incoming);
        let slot = self
            .requests
            .insert(Operation::Receive(Receiving { into, stage }));
        if len == 0 {
            return self.finish_put(slot, &incoming);
        }
        self.ask_for_stream(slot, &incoming);
    }

    /// A write into a region is complete.
    pub(crate) fn finish_put(&mut self, slot: Slot, incoming: &Incoming) {
        self.control(
            incoming.from,
            Control::new(
                wire::FINISHED,
                [incoming.remote, incoming.path.index() as u64],
            ),
        );
        self.abort_put(slot, incoming);
    }

    /// A write into a region ends, complete or not.
    pub(crate) fn abort_put(&mut self, slot: Slot, incoming: &Incoming) {
        self.requests.release(slot);
        self.leave_region(incoming.region);
    }

    fn leave_region(&mut self, place: Option<u32>) {
        if let Some(place) = place {
            self.regions.leave(place);
        }
    }

    /// Gives up the hold of reads that have been sent.
    pub(crate) fn sweep_region_users(&mut self) {
        let (requests, regions) = (&self.requests, &mut self.regions);
        self.region_users.retain(|(id, place)| {
            let goes_on = requests.find(*id).is_some();
            if !goes_on {
                regions.leave(*place);
            }
            goes_on
        });
    }

    fn answer_access(&mut self, to: u32, id: u64, (outcome, region): (u64, u64), write: u64) {
        self.control(
            to,
            Control::new(wire::ANSWERED, [id, outcome, region]).with_tag(write),
        );
    }

    /// Place of an own region, and where in it the offset points.
    fn find_own(
        &self,
        key: u64,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Result<(u32, u64), (u64, u64)> {
        let place = self.regions.by_key.get(&key);
        let found = place.and_then(|place| Some((place, self.regions.own.get(place)?)));
        let Some((place, region)) =
            found.filter(|(_, region)| !region.over && region.access.contains(access))
        else {
            return Err((wire::NO_REGION, 0));
        };
        let offset = offset.wrapping_sub(region.origin);
        match region.check(offset, len) {
            Ok(()) => Ok((*place, offset)),
            Err(_) => Err((wire::OUT_OF_REGION, region.len as u64)),
        }
    }
}

#[cfg(test)]
#[path = "regions_tests.rs"]
mod tests;
