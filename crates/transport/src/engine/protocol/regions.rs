//! One-sided access to regions of this endpoint: by itself, and by peers that need its help.
//!
//! `rma` is the other side, and says how the two keep a region from being taken back under a copy.

use core::time::Duration;

use limic_policy::Path;
use limic_records::{Accessed, Done, Next, RegionAccess};
use limic_shm::bytes::{LooseMemory, ReceiveBuffer, SendBuffer};

use super::{fragments, rendezvous, rma};
use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::envelope::Envelope;
use crate::engine::outbox;
use crate::engine::regions::Exposure;
use crate::engine::request::{
    Fragments, Incoming, Operation, ReceiveStage, Receiving, SendStage, Sending, Slot, sent,
};
use crate::raw::{Access, Posted, RawSlice, RawSliceMut, RegionId};
use crate::{Error, Peer, Result, Selector};

/// How long a region that is taken back waits for a peer that seems to access it and does not
/// answer: it is stopped.
const GIVES_UP_AFTER: Duration = Duration::from_secs(10);

/// How long it waits in all for transfers that move, however slowly.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// A closed endpoint exposes nothing. What it exposed before is left to its peers, and a new region
/// would have the name of one of those.
///
/// # Errors
/// [`Error::PeerFailed`] names this endpoint.
fn refuse_if_closed(cx: &mut Cx) -> Result<()> {
    if cx.identity.is_closed() {
        return cx.matching.check(&cx.peers, &Selector::any());
    }
    Ok(())
}

/// Exposes memory under a random key.
pub(crate) fn expose(cx: &mut Cx, memory: Vec<u8>) -> Result<(RegionId, u64)> {
    refuse_if_closed(cx)?;
    let memory = LooseMemory::of(memory);
    let exposure = Exposure {
        memory,
        key: None,
        access: Access::BOTH,
        origin: 0,
    };
    let exposed = cx.regions.expose(&cx.memory.segment, exposure);
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
pub(crate) unsafe fn expose_raw(
    cx: &mut Cx,
    memory: RawSliceMut,
    key: Option<u64>,
    access: Access,
    origin: u64,
) -> Result<(RegionId, u64)> {
    refuse_if_closed(cx)?;
    let exposure = Exposure {
        memory: LooseMemory::new(memory, None),
        key,
        access,
        origin,
    };
    cx.regions.expose(&cx.memory.segment, exposure)
}

/// Copies out of an own region.
pub(crate) fn region_read(cx: &mut Cx, id: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
    let from = cx.regions.bytes(id, offset, into.len())?;
    // SAFETY: within the region, whose memory is this endpoint's until `revoke`. A peer that writes
    // now changes which bytes are copied.
    unsafe { core::ptr::copy_nonoverlapping(from.start, into.as_mut_ptr(), into.len()) };
    Ok(())
}

/// Copies into an own region.
pub(crate) fn region_write(cx: &mut Cx, id: RegionId, offset: u64, from: &[u8]) -> Result<()> {
    let into = cx.regions.bytes(id, offset, from.len())?;
    // SAFETY: as in `region_read`.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), into.start, from.len()) };
    Ok(())
}

/// Bytes of a region, to be sent.
///
/// # Safety
/// They stay as long as the buffer does.
unsafe fn send_buffer(bytes: RawSliceMut) -> SendBuffer {
    let RawSliceMut { start, len } = bytes;
    // SAFETY: the caller's promise.
    unsafe { SendBuffer::new(&[RawSlice { start, len }]) }
}

/// A one-sided read of a region of this endpoint by itself: one plain copy, done at once. Nothing
/// of it goes through a ring, so messages to itself go one way only, and keep their order.
pub(crate) fn read_own(
    cx: &mut Cx,
    me: u32,
    (key, offset): (u64, u64),
    into: &ReceiveBuffer,
) -> Result<Posted> {
    let len = into.len();
    let found = cx.regions.find(key, offset, len, Access::READ);
    let (index, bytes) = found.map_err(|refusal| rma::refused(me, offset, len, refusal))?;
    // SAFETY: within the region, which is not freed during this call. A peer that writes there
    // meanwhile changes which bytes are copied.
    into.copy_from_send(&unsafe { send_buffer(bytes) }, len);
    counting::assign_row(cx, me);
    counting::count_received_by(cx, me, Path::SelfCopy, len);
    note_access(cx, index, Access::READ);
    Ok(Posted::Done(sent(me, 0, len)))
}

/// A one-sided write, as [`read_own`].
pub(crate) fn write_own(
    cx: &mut Cx,
    me: u32,
    (key, offset): (u64, u64),
    data: &SendBuffer,
) -> Result<Posted> {
    let len = data.len();
    let found = cx.regions.find(key, offset, len, Access::WRITE);
    let (index, bytes) = found.map_err(|refusal| rma::refused(me, offset, len, refusal))?;
    // SAFETY: as in `read_own`.
    unsafe { ReceiveBuffer::new(&[bytes]) }.copy_from_send(data, len);
    counting::assign_row(cx, me);
    counting::count_sent(cx, me, Path::SelfCopy, len);
    note_access(cx, index, Access::WRITE);
    Ok(Posted::Done(sent(me, 0, len)))
}

/// The memory of a region that is being taken back, as soon as nobody uses it. After an error it
/// is not being taken back any more.
pub(crate) fn revoked(cx: &mut Cx, id: RegionId) -> Result<Option<Vec<u8>>> {
    if unused(cx, id)?.is_none() {
        return Ok(None);
    }
    // SAFETY: out of the table, no peer that lives says that it accesses it, no transfer uses it.
    unsafe { cx.regions.take(id) }.map(Some)
}

/// `Some` as soon as nobody uses a region that is being taken back. After an error it is not being
/// taken back any more.
pub(crate) fn unused(cx: &mut Cx, id: RegionId) -> Result<Option<()>> {
    look_for_users(cx, id).inspect_err(|_| cx.regions.end_revoke(id))
}

fn look_for_users(cx: &mut Cx, id: RegionId) -> Result<Option<()>> {
    if cx.regions.is_used(id)? {
        let (peer, moved) = transfers(cx, id);
        let is_late = cx.regions.unmoved_for(id, moved) >= GIVES_UP_AFTER
            || cx.regions.taken_back_for(id) >= LONGEST;
        return match peer.filter(|_| is_late) {
            Some(peer) => Err(Error::RegionInUse { peer: Peer(peer) }),
            None => Ok(None),
        };
    }
    let key = cx.regions.key(id)?;
    for number in 0..cx.peers.len() {
        let accesses = accessed_by(cx, number);
        if accesses == Some(key) && !is_refuted(cx, id, number)? {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// The key of the region of this endpoint that a peer says it accesses.
pub(crate) fn accesses(cx: &mut Cx, peer: u32) -> Option<u64> {
    accessed_by(cx, peer).filter(|key| cx.regions.has(*key))
}

/// The key of the region that a peer says it accesses. What a process that has ended left there
/// means nothing.
fn accessed_by(cx: &mut Cx, peer: u32) -> Option<u64> {
    match cx.peers.pair(peer) {
        Some(pair) => Some(pair.regions.access.key()),
        None => cx.quarantine.accesses(peer),
    }
}

/// The peers that seem to access a region, by themselves or with this endpoint's help.
pub(crate) fn accessors(cx: &mut Cx, id: RegionId) -> Vec<u32> {
    let key = cx.regions.key(id).ok();
    let mut peers: Vec<u32> = (0..cx.peers.len())
        .filter(|peer| key.is_some() && accessed_by(cx, *peer) == key)
        .collect();
    peers.extend(transfers(cx, id).0);
    peers
}

/// Of the transfers that use a region with this endpoint's help: a peer that has one, and a number
/// that changes whenever one of them moves.
fn transfers(cx: &mut Cx, id: RegionId) -> (Option<u32>, u64) {
    let (mut peer, mut moved) = (None, 0_u64);
    for slot in cx.requests.slots() {
        if let Some(sending) = cx.requests.sending(slot) {
            if let SendStage::Fragments(read) = sending.stage {
                if read.region.map(u64::from) == Some(id.0) {
                    moved = moved.wrapping_add(read.at);
                    peer = peer.or(Some(sending.to));
                }
            }
            continue;
        }
        let stage = cx.requests.receiving(slot).map(|receiving| receiving.stage);
        if let Some(ReceiveStage::Assembling(incoming)) = stage {
            if incoming.region.map(u64::from) == Some(id.0) {
                moved = moved.wrapping_add(incoming.got);
                peer = peer.or(Some(incoming.from()));
            }
        }
    }
    (peer, moved)
}

/// Whether a peer, when asked, shows that it is not in the middle of an access, though it still
/// says that it accesses a region.
///
/// # Errors
/// [`Error::RegionInUse`]: it says nothing for long.
fn is_refuted(cx: &mut Cx, id: RegionId, peer: u32) -> Result<bool> {
    let inquiry = cx.regions.accessor(id, peer);
    let refuted = inquiry.is_refuted(&mut cx.peers, &cx.sockets, peer);
    if !refuted && inquiry.age() >= GIVES_UP_AFTER {
        return Err(Error::RegionInUse { peer: Peer(peer) });
    }
    Ok(refuted)
}

/// Accesses of one peer that wait for this endpoint's help at a time. Each has an operation here,
/// and most have a record in the backlog. A peer that keeps the rules asks for fewer (`rma`).
pub(crate) const MOST_SERVED: u16 = u16::MAX;

/// Whether one more access of a peer is served. One with too many is given up.
fn is_admitted(cx: &mut Cx, from: u32) -> bool {
    let Some(peer) = cx.peers.get(from) else {
        return false;
    };
    if peer.served < MOST_SERVED {
        peer.served += 1;
        return true;
    }
    cx.peers.violated(
        from,
        format!("more than {MOST_SERVED} one-sided accesses before it waited for some"),
    );
    false
}

/// A peer asks for help. From now on its ring is read where the time is counted: `progress::apart`.
fn asks_help(cx: &mut Cx, from: u32) {
    cx.regions.help.note();
    if !cx.regions.help.is_timed() && cx.peers.pair(from).is_some() {
        cx.peers.notes.asks_help(from);
    }
}

/// A peer asks for bytes of a region.
pub(crate) fn on_get(cx: &mut Cx, from: u32, asked: RegionAccess) {
    let RegionAccess {
        id,
        key,
        offset,
        len,
    } = asked;
    asks_help(cx, from);
    let (index, bytes) = match cx.regions.find(key, offset, len, Access::READ) {
        Ok(found) => found,
        Err(refusal) => return outbox::answer(cx, from, refusal.encode(id)),
    };
    if len == 0 {
        note_access(cx, index, Access::READ);
        return outbox::answer(cx, from, Done::Nothing.encode(id));
    }
    if !is_admitted(cx, from) {
        return;
    }
    // SAFETY: within the region, which is not freed while it has users. A peer that writes there
    // meanwhile changes which bytes are sent.
    let data = unsafe { send_buffer(bytes) };
    let stage = SendStage::Fragments(Fragments {
        receive: Some(id),
        region: Some(index),
        ..Fragments::new(0, len)
    });
    let sending = Sending::new(from, data, stage);
    let slot = cx.requests.insert(Operation::Send(sending));
    cx.regions.enter(index);
    cx.requests.leave_alone(slot);
    fragments::wait_for_room(cx, from, slot);
}

/// A peer wants to write to a region.
pub(crate) fn on_put(cx: &mut Cx, from: u32, asked: RegionAccess) {
    let RegionAccess {
        id,
        key,
        offset,
        len,
    } = asked;
    asks_help(cx, from);
    let (index, bytes) = match cx.regions.find(key, offset, len, Access::WRITE) {
        Ok(found) => found,
        Err(refusal) => return outbox::answer(cx, from, refusal.encode(id)),
    };
    if !is_admitted(cx, from) {
        return;
    }
    cx.regions.enter(index);
    // SAFETY: as in `on_get`.
    let into = unsafe { ReceiveBuffer::new(&[bytes]) };
    let incoming = Incoming {
        remote: id,
        region: Some(index),
        path: Path::Pipeline,
        ..Incoming::new(Envelope::new(from, 0), len, len)
    };
    let stage = ReceiveStage::Assembling(incoming);
    let slot = cx
        .requests
        .insert(Operation::Receive(Receiving { into, stage }));
    if len == 0 {
        return finish_put(cx, slot, &incoming);
    }
    rendezvous::request_fragments(cx, slot, &incoming, Next::Usual);
}

/// The runtime wants to know of accesses to the region under this key, or of none.
pub(crate) fn report_accesses(cx: &mut Cx, key: u64, kinds: Access) {
    cx.regions.set_wanted(&cx.memory.segment, key, kinds);
    if kinds == Access::NONE {
        cx.matching.forget_accesses(key);
    }
}

/// A region was accessed, of which the runtime may want to know.
pub(crate) fn note_access(cx: &mut Cx, index: u32, kind: Access) {
    if let Some(key) = cx.regions.reported(index, kind) {
        cx.matching.reserve_access(key, kind.write);
    }
}

/// A peer says that it has accessed a region by itself. The region may be gone, and another one
/// have its key; and a peer may say anything. What nobody wants to know is passed over.
pub(crate) fn on_accessed(cx: &mut Cx, accessed: Accessed) {
    let Accessed { serial, wrote } = accessed;
    let kind = if wrote { Access::WRITE } else { Access::READ };
    cx.matching.note_unasked();
    if let Some(key) = cx.regions.reported_by_peer(serial, kind) {
        cx.matching.reserve_access(key, wrote);
    }
}

/// A write into a region is complete.
pub(crate) fn finish_put(cx: &mut Cx, slot: Slot, incoming: &Incoming) {
    if let Some(index) = incoming.region {
        note_access(cx, index, Access::WRITE);
    }
    let done = Done::Received(incoming.path).encode(incoming.remote);
    outbox::answer(cx, incoming.from(), done);
    abort_put(cx, slot, incoming);
}

/// A write into a region ends, complete or not.
pub(crate) fn abort_put(cx: &mut Cx, slot: Slot, incoming: &Incoming) {
    cx.requests.release(slot);
    end_access(cx, incoming.region, incoming.from());
}

/// A peer's access to a region of this endpoint ends, complete or not, if it is one.
pub(crate) fn end_access(cx: &mut Cx, region: Option<u32>, from: u32) {
    let Some(index) = region else {
        return;
    };
    cx.regions.leave(index);
    if let Some(peer) = cx.peers.get(from) {
        peer.served -= 1;
    }
}
