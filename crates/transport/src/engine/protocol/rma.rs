//! One-sided access to regions that a peer exposed: by single copy without the owner's help, else
//! in fragments with it.
//!
//! A region may not be taken back while somebody copies, and a cross-memory attach cannot be
//! stopped by its target. So each end says something and then looks: [`limic_shm::owner::region`].
//! The word of the accessor, and the owner's table, are each written by one endpoint alone: nobody
//! else can send a copy elsewhere, or hide one.

use limic_copy::{Failed, RemoteRange};
use limic_policy::{Path, select};
use limic_records::{self as frame, Accessed, Done, RegionAccess};
use limic_shm::bytes::{ReceiveBuffer, SendBuffer};
use limic_shm::owner::region::RegionTerms;

use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::outbox;
use crate::engine::peer::pair::{REGION_CACHE, ShmPair};
use crate::engine::peer::table::BacklogEntry;
use crate::engine::protocol::{receive, regions, rendezvous, send};
use crate::engine::request::{Operation, ReceiveStage, Receiving, SendStage, Sending, sent};
use crate::raw::{Access, Owner, Posted, RawSlice, RawSliceMut};
use crate::{Error, Peer, Result};

/// Starts a one-sided read.
///
/// # Safety
/// As [`OneSided::post_read`](crate::raw::OneSided::post_read).
pub(crate) unsafe fn post_read(
    cx: &mut Cx,
    from: u32,
    key: u64,
    offset: u64,
    into: &[RawSliceMut],
) -> Result<Posted> {
    // SAFETY: the caller's promise is the buffer's invariant.
    let into = unsafe { ReceiveBuffer::new(into) };
    let len = into.len();
    cx.peers.alive(from)?;
    if cx.peers.me() == Some(from) {
        return regions::read_own(cx, from, (key, offset), &into);
    }
    let asked = (offset, len, Access::READ);
    let done = access(cx, from, key, asked, |pair, remote| {
        pair.copies.read(Path::Cma, remote, &into, 0, u64::MAX)
    })?;
    if done {
        counting::count_received_by(cx, from, Path::Cma, len);
        return Ok(Posted::Done(sent(from, 0, len)));
    }
    let stage = ReceiveStage::Get {
        from,
        offset,
        got: 0,
    };
    let slot = cx
        .requests
        .insert(Operation::Receive(Receiving { into, stage }));
    let id = cx.requests.id(slot).0;
    let asked = RegionAccess {
        id,
        key,
        offset,
        len,
    };
    ask(cx, from, BacklogEntry::Control(asked.encode(frame::GET)));
    Ok(receive::posted(cx, slot, Owner::Caller))
}

/// Starts a one-sided write.
///
/// # Safety
/// As [`OneSided::post_write`](crate::raw::OneSided::post_write).
pub(crate) unsafe fn post_write(
    cx: &mut Cx,
    to: u32,
    key: u64,
    offset: u64,
    from: &[RawSlice],
) -> Result<Posted> {
    // SAFETY: the caller's promise is the buffer's invariant.
    let data = unsafe { SendBuffer::new(from) };
    let len = data.len();
    cx.peers.alive(to)?;
    if cx.peers.me() == Some(to) {
        return regions::write_own(cx, to, (key, offset), &data);
    }
    let asked = (offset, len, Access::WRITE);
    let done = access(cx, to, key, asked, |pair, remote| {
        // SAFETY: the peer has exposed the region, and waits for accesses before it takes the
        // memory back.
        unsafe { pair.copies.write(remote, &data, 0, u64::MAX) }
    })?;
    if done {
        counting::count_sent(cx, to, Path::Cma, len);
        return Ok(Posted::Done(sent(to, 0, len)));
    }
    let stage = SendStage::Put { key, offset };
    let sending = Sending::new(to, data, stage);
    let slot = cx.requests.insert(Operation::Send(sending));
    let id = cx.requests.id(slot);
    ask(cx, to, BacklogEntry::Message(id));
    Ok(receive::posted(cx, slot, Owner::Caller))
}

/// Accesses under way with the help of one owner: enough to keep it busy, and far fewer than it
/// serves before it takes this side for one that never waits.
pub(crate) const MOST_ASKED: u16 = 1024;
const _: () = assert!(MOST_ASKED <= regions::MOST_SERVED / 2);
const _: () = assert!(MOST_ASKED <= outbox::MOST_ANSWERS / 2);

/// Asks the owner for its help, or waits until one of many others is over. Not in the backlog: the
/// owner may wait for what stands behind it there, before it can end another one.
fn ask(cx: &mut Cx, owner: u32, access: BacklogEntry) {
    if let Some(access) = cx.peers.accesses.begin(owner, access, MOST_ASKED) {
        send::queue(cx, owner, access);
    }
}

/// An access with the owner's help is over: the next one is asked for.
pub(crate) fn access_is_over(cx: &mut Cx, owner: u32) {
    if let Some(next) = cx.peers.accesses.end(owner) {
        cx.peers.enqueue(owner, next);
    }
}

/// Tries single copy on a peer's region. `Ok(false)`: this pair cannot, or the region is not in the
/// table; the owner must help.
fn access(
    cx: &mut Cx,
    number: u32,
    key: u64,
    (offset, len, access): (u64, u64, Access),
    copy: impl FnOnce(&ShmPair, RemoteRange) -> Result<u64, Failed>,
) -> Result<bool> {
    let Some(peer) = cx.peers.get(number) else {
        return Ok(false);
    };
    let has_backlog = !peer.backlog.is_empty();
    let Some(pair) = peer.pair_mut() else {
        return Ok(false);
    };
    if select::one_sided(&pair.conditions.capabilities) != Path::Cma {
        return Ok(false);
    }
    let accesses = cx.memory.access();
    accesses.begin(key);
    let found = find_region(pair, key, access);
    let news = found.filter(|region| Access::reported_from(region.access).contains(access));
    if news.is_some() && has_backlog {
        // The news would wait in the backlog, and nothing would bound how much waits there.
        accesses.end();
        return Ok(false);
    }
    let result = match found {
        None => {
            accesses.end();
            return Ok(false);
        }
        Some(region)
            if offset
                .wrapping_sub(region.origin)
                .checked_add(len)
                .is_none_or(|end| end > region.len) =>
        {
            Err(Error::OutOfRegion {
                offset,
                len,
                region: region.len,
            })
        }
        Some(region) => {
            let address = region.address.wrapping_add(offset);
            let remote = RemoteRange {
                address: address.wrapping_sub(region.origin),
                key: 0,
                len,
            };
            Ok(if len == 0 { Ok(0) } else { copy(pair, remote) })
        }
    };
    if let (Ok(Ok(_)), Some(region)) = (&result, news) {
        // Before the access is over: an owner that takes the region back waits for that, and then
        // looks for the news.
        tell(cx, number, region.serial, access);
    }
    cx.memory.access().end();
    match result? {
        Ok(_) => Ok(true),
        Err(failed) => {
            rendezvous::demote(cx, number, Path::Cma, &failed.why);
            Ok(false)
        }
    }
}

/// The owner of a region wants to know of an access that it had no part in. The bytes are in place
/// before the record can be seen.
#[cold]
fn tell(cx: &mut Cx, owner: u32, serial: u64, access: Access) {
    let wrote = access.write;
    outbox::control(cx, owner, Accessed { serial, wrote }.encode());
}

/// The owner refused an access, or had nothing to send.
pub(crate) fn on_answer(cx: &mut Cx, from: u32, id: u64, answer: Done) {
    let Some(slot) = cx.requests.find(crate::RequestId(id)) else {
        return;
    };
    let (peer, offset, len) = match cx.requests.get(slot) {
        Operation::Send(Sending {
            to,
            data,
            stage: SendStage::Put { offset, .. },
            ..
        }) => (*to, *offset, data.len()),
        Operation::Receive(Receiving {
            into,
            stage: ReceiveStage::Get { from, offset, .. },
        }) => (*from, *offset, into.len()),
        _ => return,
    };
    if peer != from {
        return;
    }
    let outcome = match answer {
        Done::Nothing => sent(from, 0, 0),
        answer => Err(refused(from, offset, len, answer)),
    };
    access_is_over(cx, from);
    cx.requests.complete(slot, outcome);
}

/// What the owner's refusal of an access means to who asked.
pub(crate) fn refused(owner: u32, offset: u64, len: u64, answer: Done) -> Error {
    match answer {
        Done::OutOfRegion(region) => Error::OutOfRegion {
            offset,
            len,
            region,
        },
        _ => Error::UnknownRegion { peer: Peer(owner) },
    }
}

/// A peer's region, if it allows the access. One line of the peer's memory is read for a region
/// that was found before, and one per region in the way at the first time.
fn find_region(pair: &ShmPair, key: u64, access: Access) -> Option<RegionTerms> {
    if key == 0 {
        return None;
    }
    let table = &pair.regions.table;
    let look = |index: u32| {
        let region = table.look(index, key)?;
        Access::from_bits(region.access)
            .contains(access)
            .then_some(region)
    };
    let known = &pair.regions.cache[key as usize % REGION_CACHE];
    look(known.get())
        .or_else(|| (0..table.count()).find_map(|index| look(index).inspect(|_| known.set(index))))
}
