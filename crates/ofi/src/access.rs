//! One-sided access of all forms: reads and writes of memory that peers have registered.

use core::ffi::c_void;

use limic::raw::{OneSided, Posted, RawSlice, RawSliceMut};
use limic::{Endpoint as _, Error, Outcome, Peer, RequestId};

use crate::asked::LONGEST_WRITE;
use crate::call::{Bytes, CallFlags, IOV_LIMIT, append, parts, slice, slice_mut};
use crate::endpoint::Endpoint;
use crate::errors::{errno_of, logged_errno};
use crate::memory_region::limic_key;
use crate::node::{Node, Spare, give_back, mark};
use crate::progress::{kind, name_of};
use crate::send::Of;
use limic_ofi_abi::endpoint::{fi_msg_rma, fi_rma_iov};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// What a call says, beside its form and its bytes.
pub(crate) struct RmaArgs {
    pub(crate) peer: fi_addr_t,
    pub(crate) remote: Remote,
    pub(crate) write: bool,
    /// A word for the target, after a write.
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
}

/// Where a call reads or writes.
#[derive(Clone, Copy)]
pub(crate) enum Remote {
    /// At this address under this key, as many bytes as the local ones.
    At(u64, u64),
    Pieces(*const fi_rma_iov, usize),
}

impl Remote {
    pub(crate) fn of(message: &fi_msg_rma) -> Self {
        Self::Pieces(message.rma_iov, message.rma_iov_count)
    }
}

/// A call that reads or writes.
///
/// # Safety
/// Arrays are valid for their lengths. The bytes, and a context that is lent, are the operation's
/// until it is over; injected bytes until the call returns. Nothing is written to those of a write.
#[inline(always)]
pub(crate) unsafe fn call(
    endpoint: &Endpoint,
    form: CallFlags,
    given: &RmaArgs,
    local: Bytes,
) -> Result<usize, i32> {
    let flags = form.flags(&endpoint.sends);
    let access = Access {
        peer: given.peer,
        write: given.write,
        data: given.data,
        context: given.context,
        reported: flags & FI_COMPLETION != 0,
        injected: given.write && flags & FI_INJECT != 0,
    };
    // The function of the table says all but the length.
    if let (Some(data), Remote::At(addr, key), Bytes::One(start, len @ ..=LONGEST_WRITE)) =
        (given.data, given.remote, local)
    {
        let (to, local) = (fi_rma_iov { addr, len, key }, [slice_mut(start, len)]);
        // SAFETY: the caller's promise.
        return unsafe { endpoint.write_short(&access, data, &to, &local) };
    }
    // SAFETY: the caller's promise.
    unsafe { begin(endpoint, &access, given, local) }
}

/// A call of any form.
///
/// # Safety
/// As [`call`].
#[inline(never)]
unsafe fn begin(
    endpoint: &Endpoint,
    access: &Access,
    given: &RmaArgs,
    local: Bytes,
) -> Result<usize, i32> {
    // SAFETY: the caller's promise.
    unsafe {
        let local = local.room()?;
        let one;
        let remote = match given.remote {
            Remote::At(addr, key) => {
                let len = local.len();
                one = [fi_rma_iov { addr, len, key }];
                &one[..]
            }
            Remote::Pieces(pieces, count) if !pieces.is_null() && count <= IOV_LIMIT => {
                core::slice::from_raw_parts(pieces, count)
            }
            Remote::Pieces(..) => return Err(FI_EINVAL),
        };
        endpoint.access(access, local.as_slice(), remote)
    }
}

/// One read or write.
struct Access {
    peer: fi_addr_t,
    write: bool,
    /// A word for the target, after a write.
    data: Option<u64>,
    context: *mut c_void,
    reported: bool,
    /// The bytes of a write are the caller's again when the call returns.
    injected: bool,
}

impl Access {
    /// Flags of its completion.
    fn flags(&self) -> u64 {
        FI_RMA | if self.write { FI_WRITE } else { FI_READ }
    }
}

/// What became of one piece.
enum Piece {
    Over(Outcome),
    /// With its bytes, if they were copied.
    Pending(RequestId, Option<Vec<u8>>),
}

impl Endpoint {
    /// Reads into or writes from `local`; the remote pieces together are as long as the local ones.
    ///
    /// # Safety
    /// The local pieces are the operation's until it is over; injected ones until the call returns.
    unsafe fn access(
        &self,
        access: &Access,
        local: &[RawSliceMut],
        remote: &[fi_rma_iov],
    ) -> Result<usize, i32> {
        let peer = self.peer(access.peer)?;
        let total: usize = local.iter().map(|piece| piece.len).sum();
        let there = remote
            .iter()
            .try_fold(0_usize, |sum, piece| sum.checked_add(piece.len));
        if remote.is_empty() || there != Some(total) {
            return Err(FI_EINVAL);
        }
        // Each piece would count as an access of its own, and before the others are over.
        if remote.len() > 1 && self.caps & FI_RMA_EVENT != 0 {
            return Err(FI_EINVAL);
        }
        if let (Some(data), [whole], ..=LONGEST_WRITE) = (access.data, remote, total) {
            // SAFETY: the caller's promise.
            return unsafe { self.write_short(access, data, whole, local) };
        }
        self.attached(peer)?;
        self.may_begin(peer, false)?;
        // Its data goes in a copy of its own once it is over.
        if access.injected || access.data.is_some() {
            self.may_inject()?;
        }
        let node = || self.accessing(access, peer, total, access.data);
        if let [whole] = remote {
            // SAFETY: the caller's promise; nodes are this operation's.
            unsafe {
                let piece = self.access_piece(access, peer, local, whole)?;
                self.tally.accessed(access.write, total);
                match piece {
                    Piece::Over(outcome) => {
                        if outcome.is_ok() && access.data.is_none() {
                            self.over_at_once(
                                access.context,
                                access.reported,
                                access.flags(),
                                total,
                            );
                        } else {
                            self.finish(node(), outcome);
                        }
                        if self.caps & FI_RMA_EVENT != 0 {
                            // An endpoint's access to itself rings nobody: whoever sleeps until it
                            // is counted is woken from here.
                            self.hear_peers();
                        }
                    }
                    Piece::Pending(id, copy) => {
                        let node = node();
                        match copy {
                            None => self.watch(id, name_of(node, kind::NODE)),
                            Some(bytes) => self.watch_copy(id, bytes, Of::Operation(node)),
                        }
                    }
                }
            }
            return Ok(0);
        }
        self.tally.accessed(access.write, total);
        // SAFETY: as above.
        unsafe { self.access_pieces(access, peer, local, remote, node()) };
        Ok(0)
    }

    /// Has the target of a short write with data copy it into place.
    ///
    /// # Safety
    /// As [`access`](Self::access).
    unsafe fn write_short(
        &self,
        access: &Access,
        data: u64,
        to: &fi_rma_iov,
        local: &[RawSliceMut],
    ) -> Result<usize, i32> {
        let peer = self.peer(access.peer)?;
        self.may_ask(peer)?;
        let node = self.accessing(access, peer, to.len, None);
        // SAFETY: the caller's promise; the node is this operation's.
        unsafe { self.ask_to_write(peer, node, data, to, local) }?;
        self.tally.accessed(access.write, to.len);
        Ok(0)
    }

    /// The node of an access, which data may follow.
    fn accessing(
        &self,
        access: &Access,
        peer: Peer,
        total: usize,
        follows: Option<u64>,
    ) -> *mut Node {
        let notify = follows.map_or(0, |_| mark::NOTIFY);
        let node = Node {
            flags: access.flags() | notify,
            data: follows.unwrap_or(0),
            len: total,
            peer: peer.index(),
            ..Node::EMPTY
        };
        self.node(access.context, access.reported, node)
    }

    /// # Safety
    /// As [`access`](Self::access).
    unsafe fn access_piece(
        &self,
        access: &Access,
        peer: Peer,
        local: &[RawSliceMut],
        remote: &fi_rma_iov,
    ) -> Result<Piece, i32> {
        let key = limic_key(remote.key);
        // Kept only if the peer has to help.
        let mut copy = None;
        // SAFETY: the caller's promise; a copy lives until the piece is over.
        let posted = unsafe {
            if access.injected {
                let mut bytes = Vec::new();
                append(&mut bytes, parts(local));
                let whole = [RawSlice::from(&bytes[..])];
                copy = Some(bytes);
                self.limic.post_write(peer, key, remote.addr, &whole)
            } else if access.write {
                let mut slices = [slice(core::ptr::null_mut(), 0); IOV_LIMIT];
                for (to, from) in slices.iter_mut().zip(local) {
                    *to = slice(from.start.cast(), from.len);
                }
                let slices = &slices[..local.len()];
                self.limic.post_write(peer, key, remote.addr, slices)
            } else {
                self.limic.post_read(peer, key, remote.addr, local)
            }
        };
        match posted {
            Ok(Posted::Done(outcome)) => Ok(Piece::Over(outcome)),
            Ok(Posted::Pending(id)) => Ok(Piece::Pending(id, copy)),
            // The operation was made in good order, and the target refuses it.
            Err(error @ (Error::UnknownRegion { .. } | Error::OutOfRegion { .. })) => {
                Ok(Piece::Over(Err(error)))
            }
            Err(error) => Err(logged_errno(&error)),
        }
    }

    /// Accesses several remote pieces, of which the operation is the whole.
    ///
    /// # Safety
    /// As [`access`](Self::access).
    unsafe fn access_pieces(
        &self,
        access: &Access,
        peer: Peer,
        local: &[RawSliceMut],
        remote: &[fi_rma_iov],
        whole: *mut Node,
    ) {
        // One more part than there are, so that the whole is not over before all have begun.
        // SAFETY: the node is this operation's.
        unsafe { (*whole).rest = remote.len() as u64 + 1 };
        let mut from = 0;
        for piece in remote {
            let (cut, count) = cut(local, from, piece.len);
            from += piece.len;
            // SAFETY: as above; parts live until they are over.
            unsafe {
                let part = self.pool.take(core::ptr::null_mut());
                (*part).whole = whole;
                (*part).node.flags |= self.mark();
                match self.access_piece(access, peer, &cut[..count], piece) {
                    Ok(Piece::Over(outcome)) => self.part_is_over(part, &outcome),
                    Ok(Piece::Pending(id, None)) => self.watch(id, name_of(part, kind::PART)),
                    Ok(Piece::Pending(id, Some(bytes))) => {
                        self.watch_copy(id, bytes, Of::Part(part));
                    }
                    Err(errno) => self.part_failed(part, errno),
                }
            }
        }
        // SAFETY: as above.
        unsafe { self.one_part_less(whole) };
    }

    /// A part of a larger operation is over.
    ///
    /// # Safety
    /// `part` is one, and is not used any more.
    pub(crate) unsafe fn part_is_over(&self, part: *mut Spare, outcome: &Outcome) {
        // SAFETY: the caller's promise.
        unsafe { self.part_failed(part, outcome.as_ref().err().map_or(0, errno_of)) };
    }

    /// # Safety
    /// As [`part_is_over`](Self::part_is_over); 0 is no failure.
    unsafe fn part_failed(&self, part: *mut Spare, errno: i32) {
        // SAFETY: the caller's promise; the whole lives until its last part is over.
        unsafe {
            let whole = (*part).whole;
            if errno != 0 {
                (*whole).flags |= mark::FAILED;
                (*whole).error = errno;
            }
            give_back(part.cast());
            self.one_part_less(whole);
        }
    }

    /// # Safety
    /// `whole` counts its parts in `rest`.
    unsafe fn one_part_less(&self, whole: *mut Node) {
        // SAFETY: the caller's promise.
        unsafe {
            (*whole).rest -= 1;
            if (*whole).rest > 0 {
                return;
            }
            if (*whole).flags & mark::FAILED != 0 {
                (*whole).len = 0;
            }
            self.report(whole);
        }
    }

    /// Whether a peer's memory can be asked for. It is not waited for: that might be an endpoint
    /// which this very thread has to move along.
    pub(crate) fn attached(&self, peer: Peer) -> Result<(), i32> {
        match self.limic.attach(peer) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.progress();
                Err(FI_EAGAIN)
            }
            Err(error) => Err(logged_errno(&error)),
        }
    }
}

/// The pieces of `len` bytes from the byte `from` on, and how many there are.
fn cut(
    local: &[RawSliceMut],
    mut from: usize,
    mut len: usize,
) -> ([RawSliceMut; IOV_LIMIT], usize) {
    let mut pieces = [slice_mut(core::ptr::null_mut(), 0); IOV_LIMIT];
    let mut count = 0;
    for piece in local {
        let skipped = from.min(piece.len);
        from -= skipped;
        let taken = (piece.len - skipped).min(len);
        len -= taken;
        if taken > 0 && count < IOV_LIMIT {
            pieces[count] = slice_mut(piece.start.wrapping_add(skipped).cast(), taken);
            count += 1;
        }
    }
    (pieces, count)
}
