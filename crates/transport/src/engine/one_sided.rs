//! One-sided access to regions that a peer exposed: by single copy without the owner's help, else
//! through chunks with it.
//!
//! A region may not be taken back while somebody copies, and a cross-memory attach cannot be stopped
//! by its target. So whoever copies first puts the region's key into its access slot in the owner's
//! segment, and then looks again whether the region is still there; the owner first removes the region and then
//! waits until no slot holds its key (hazard pointers, Michael 2004).

use limic_shm::ring::Memory;
use limic_shm::segment::{ACCESS_SLOT_BYTES, REGION_BYTES};
use limic_shm::sync::{Ordering, fence};

use super::Core;
use super::peers::{Outgoing, REGION_PLACES};
use super::requests::{Operation, ReceiveStage, Receiving, SendStage, Sending, Slot};
use super::wire::{self, Control};
use crate::buffer::{ReceiveBuffer, SendBuffer, Source, words};
use crate::policy::Path;
use crate::raw::{Access, Posted, RawSlice, RawSliceMut};
use crate::single_copy::{Failed, RemoteBytes};
use crate::{Error, Peer, Result};

impl Core {
    /// Starts a one-sided read.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_read`](crate::RawEndpoint::post_read).
    pub(crate) unsafe fn post_read(
        &mut self,
        from: u32,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise is the buffer's invariant.
        let into = unsafe { ReceiveBuffer::new(into) };
        let len = into.len();
        self.check_alive(from)?;
        if self.peers.me == Some(from) {
            return self.read_own(from, key, offset, &into);
        }
        let asked = (offset, len, Access::READ);
        let done = self.access(from, key, asked, |link, remote| {
            link.remote.read(remote, &into, 0, u64::MAX)
        })?;
        if done {
            self.note_received_by(from, Path::Cma, len);
            return Ok(Posted::Done(super::send::sent(from, 0, len)));
        }
        let stage = ReceiveStage::Get {
            from,
            offset,
            got: 0,
        };
        let slot = self
            .requests
            .insert(Operation::Receive(Receiving { into, stage }));
        let id = self.requests.id(slot);
        self.queue(
            from,
            Outgoing::Control(Control::new(wire::GET, [id.0, key, offset, len])),
        );
        Ok(self.posted(slot))
    }

    /// Starts a one-sided write.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_write`](crate::RawEndpoint::post_write).
    pub(crate) unsafe fn post_write(
        &mut self,
        to: u32,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise is the buffer's invariant.
        let data = unsafe { SendBuffer::new(from) };
        let len = data.len();
        self.check_alive(to)?;
        if self.peers.me == Some(to) {
            return self.write_own(to, key, offset, &data);
        }
        let asked = (offset, len, Access::WRITE);
        let done = self.access(to, key, asked, |link, remote| {
            link.remote.write(remote, &data, 0, u64::MAX)
        })?;
        if done {
            self.note_sent(to, Path::Cma, len);
            return Ok(Posted::Done(super::send::sent(to, 0, len)));
        }
        let stage = SendStage::Put { key, offset };
        let slot = self.requests.insert(Operation::Send(Sending {
            to,
            tag: 0,
            immediate: None,
            data,
            stage,
            exposed: None,
            delivered: false,
        }));
        let id = self.requests.id(slot);
        self.queue(to, Outgoing::Message(id));
        Ok(self.posted(slot))
    }

    fn posted(&mut self, slot: Slot) -> Posted {
        match self.requests.take_done(slot) {
            Some(outcome) => Posted::Done(outcome),
            None => Posted::Pending(self.requests.id(slot)),
        }
    }

    fn check_alive(&mut self, peer: u32) -> Result<()> {
        match &self.peers.known(peer)?.failure {
            None => Ok(()),
            Some(why) => Err(Error::PeerFailed {
                peer: Peer(peer),
                why: why.clone(),
            }),
        }
    }

    /// Tries single copy on a peer's region. `Ok(false)`: this pair cannot, or the region is not in the table; the
    /// owner must help.
    fn access(
        &mut self,
        number: u32,
        key: u64,
        (offset, len, access): (u64, u64, Access),
        copy: impl FnOnce(&super::peers::Link, RemoteBytes) -> Result<u64, Failed>,
    ) -> Result<bool> {
        let Some(link) = self.peers.link(number) else {
            return Ok(false);
        };
        let shape = link.segment.shape();
        if !link.capabilities.paths.contains(Path::Cma) || link.my_number >= shape.access_slots {
            return Ok(false);
        }
        let slot = link
            .access_slots
            .word64(link.my_number as usize * ACCESS_SLOT_BYTES);
        slot.store(key, Ordering::Relaxed);
        // Pairs with the fence in `start_revoke`.
        fence(Ordering::SeqCst);
        let found = find_region(link, key, access);
        let result = match found {
            None => {
                slot.store(0, Ordering::Release);
                return Ok(false);
            }
            Some((_, region, origin))
                if offset
                    .wrapping_sub(origin)
                    .checked_add(len)
                    .is_none_or(|end| end > region) =>
            {
                Err(Error::OutOfRegion {
                    offset,
                    len,
                    region,
                })
            }
            Some((address, _, origin)) => {
                let remote = RemoteBytes {
                    address: address.wrapping_add(offset).wrapping_sub(origin),
                    key: 0,
                    len,
                };
                Ok(if len == 0 { Ok(0) } else { copy(link, remote) })
            }
        };
        // Pairs with the acquire in `revoked`: the copy is over.
        slot.store(0, Ordering::Release);
        match result? {
            Ok(_) => Ok(true),
            Err(failed) => {
                self.demote(number, Path::Cma, &failed.why);
                Ok(false)
            }
        }
    }

    /// The owner refused an access, or had nothing to send.
    pub(crate) fn on_answered(&mut self, from: u32, tag: u64, source: &impl Source) {
        let [id, outcome, region] = words::<3>(source);
        let Some(slot) = self.requests.find(crate::RequestId(id)) else {
            return;
        };
        let (offset, len) = match self.requests.get(slot) {
            Operation::Send(Sending {
                to,
                data,
                stage: SendStage::Put { offset, .. },
                ..
            }) if tag == 1 && *to == from => (*offset, data.len()),
            Operation::Receive(Receiving {
                into,
                stage:
                    ReceiveStage::Get {
                        from: peer, offset, ..
                    },
            }) if tag == 0 && *peer == from => (*offset, into.len()),
            _ => return,
        };
        if outcome == wire::OK {
            // An empty read: there is nothing to send.
            return self.requests.complete(slot, super::send::sent(from, 0, 0));
        }
        let error = refused(from, offset, len, (outcome, region));
        self.requests.complete(slot, Err(error));
    }
}

/// What the owner's refusal of an access means to who asked.
pub(super) fn refused(owner: u32, offset: u64, len: u64, (outcome, region): (u64, u64)) -> Error {
    match outcome {
        wire::OUT_OF_REGION => Error::OutOfRegion {
            offset,
            len,
            region,
        },
        _ => Error::UnknownRegion { peer: Peer(owner) },
    }
}

/// Address, length and origin of a peer's region, if it allows the access. One line of the peer's memory is read for a region
/// that was found before, and one per region in the way at the first time.
fn find_region(link: &super::peers::Link, key: u64, access: Access) -> Option<(u64, u64, u64)> {
    if key == 0 {
        return None;
    }
    let count = link.segment.shape().regions;
    let look = |place: u32| {
        if place >= count {
            return None;
        }
        let word = |at| link.regions.word64(place as usize * REGION_BYTES + at);
        // Acquire: pairs with the release in `enter_region`.
        let live = word(0).load(Ordering::Acquire) == key
            && Access::from_bits(word(24).load(Ordering::Relaxed)).contains(access);
        let read = |at| word(at).load(Ordering::Relaxed);
        live.then(|| (read(8), read(16), read(32)))
    };
    let known = &link.region_places[key as usize % REGION_PLACES];
    look(known.get())
        .or_else(|| (0..count).find_map(|place| look(place).inspect(|_| known.set(place))))
}
