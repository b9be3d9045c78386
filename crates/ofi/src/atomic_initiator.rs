//! Atomic operations on peers' memory: messages that the owner executes when it makes progress, and
//! answers.
//!
//! Operations of one endpoint on another are executed in the order in which they were made, since
//! the messages keep theirs. The answer comes into a receive that names its sender, so an operation
//! ends when the owner dies.

use core::ffi::c_void;

use limic::raw::{Messages, Posted, RawSliceMut};
use limic::{Peer, Selector};

use crate::abi::atomic::fi_ioc;
use crate::abi::endpoint::fid_ep;
use crate::abi::errno::*;
use crate::abi::*;
use crate::call::{CallFlags, IOV_LIMIT, append, with};
use crate::control_channel::{answer_tag, atomic_tag};
use crate::endpoint::Endpoint;
use crate::node::{Node, Spare};
use crate::progress::{kind, name_of};
use crate::reduction::{knows, op, size_of_type};

/// Most bytes of elements of one operation.
pub(crate) const LONGEST: usize = 4096;
/// Bytes ahead of the operands in a message: key, offset, elements, type and operation.
pub(crate) const AHEAD: usize = 32;

/// What a call does beside changing memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicKind {
    Change,
    Fetch,
    Compare,
}

/// What a call says, beside its form and its elements.
#[derive(Clone, Copy)]
pub(crate) struct AtomicArgs {
    pub(crate) peer: fi_addr_t,
    pub(crate) addr: u64,
    /// Elements of the remote memory, if the call says it beside those of the local one.
    pub(crate) count: Option<usize>,
    pub(crate) key: u64,
    pub(crate) datatype: u32,
    pub(crate) op: u32,
    pub(crate) does: AtomicKind,
    pub(crate) context: *mut c_void,
}

/// Elements in the memory of a caller.
#[derive(Clone, Copy)]
pub(crate) enum Elements {
    One(*mut c_void, usize),
    Pieces(*const fi_ioc, usize),
}

impl Elements {
    pub(crate) const NONE: Self = Self::Pieces(core::ptr::null(), 0);

    /// Elements that are only read.
    pub(crate) fn of(start: *const c_void, count: usize) -> Self {
        Self::One(start.cast_mut(), count)
    }

    /// The same as bytes, for elements of `size` bytes each.
    ///
    /// # Safety
    /// An array of pieces is valid for its length.
    unsafe fn pieces(self, size: usize) -> Result<Room, i32> {
        let mut room = Room {
            pieces: [RawSliceMut {
                start: core::ptr::null_mut(),
                len: 0,
            }; IOV_LIMIT],
            count: 1,
        };
        let piece = |start: *mut c_void, count: usize| {
            let len = count.checked_mul(size).ok_or(FI_EINVAL)?;
            if len > 0 && start.is_null() {
                return Err(FI_EINVAL);
            }
            Ok(RawSliceMut {
                start: start.cast(),
                len,
            })
        };
        match self {
            Self::One(start, count) => room.pieces[0] = piece(start, count)?,
            Self::Pieces(pieces, count) => {
                if count > IOV_LIMIT || (pieces.is_null() && count > 0) {
                    return Err(FI_EINVAL);
                }
                room.count = count;
                for (number, place) in room.pieces.iter_mut().enumerate().take(count) {
                    // SAFETY: the caller's promise.
                    let ioc = unsafe { &*pieces.add(number) };
                    *place = piece(ioc.addr, ioc.count)?;
                }
            }
        }
        Ok(room)
    }
}

/// What a call works on.
pub(crate) struct Arrays {
    pub(crate) operand: Elements,
    pub(crate) compare: Elements,
    pub(crate) result: Elements,
}

/// Pieces of memory of a caller.
struct Room {
    pieces: [RawSliceMut; IOV_LIMIT],
    count: usize,
}

impl Room {
    fn as_slice(&self) -> &[RawSliceMut] {
        &self.pieces[..self.count]
    }

    fn len(&self) -> usize {
        self.as_slice().iter().map(|piece| piece.len).sum()
    }

    /// Where the pieces begin, and how long they are.
    fn pieces(&self) -> impl Iterator<Item = (*const u8, usize)> {
        self.as_slice()
            .iter()
            .map(|p| (p.start.cast_const(), p.len))
    }
}

/// A call of an atomic operation.
///
/// # Safety
/// `endpoint` is one of this provider. Arrays and operands are valid during the call; the room for
/// results, and a context that is lent, are the operation's until it is over.
pub(crate) unsafe fn call(
    endpoint: *mut fid_ep,
    form: CallFlags,
    given: &AtomicArgs,
    arrays: &Arrays,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        with(endpoint, |endpoint| {
            let reported = form.flags(&endpoint.sends) & FI_COMPLETION != 0;
            endpoint.atomic(given, reported, arrays)
        })
    }
}

/// Elements that one operation may have. `None`: it cannot be done.
pub(crate) fn most(datatype: u32, op: u32, does: AtomicKind) -> Option<usize> {
    let fits = match does {
        // A change that changes nothing, or without the second operand, makes no sense.
        AtomicKind::Change => op != op::READ && !op::compares(op),
        AtomicKind::Fetch => !op::compares(op),
        AtomicKind::Compare => op::compares(op),
    };
    if !fits || !knows(datatype, op) {
        return None;
    }
    size_of_type(datatype).map(|size| LONGEST / size)
}

impl Endpoint {
    /// Starts an atomic operation.
    ///
    /// # Safety
    /// As [`call`].
    unsafe fn atomic(
        &self,
        atomic: &AtomicArgs,
        reported: bool,
        arrays: &Arrays,
    ) -> Result<usize, i32> {
        let size = size_of_type(atomic.datatype).ok_or(FI_EOPNOTSUPP)?;
        let most = most(atomic.datatype, atomic.op, atomic.does).ok_or(FI_EOPNOTSUPP)?;
        // A read has no operand, whatever is passed for it.
        let operand = match atomic.op {
            op::READ => Elements::NONE,
            _ => arrays.operand,
        };
        // SAFETY: the caller's promise.
        let (operand, compare, results) = unsafe {
            let compare = arrays.compare.pieces(size)?;
            (operand.pieces(size)?, compare, arrays.result.pieces(size)?)
        };
        let bytes = match atomic.op {
            op::READ => results.len(),
            _ => operand.len(),
        };
        let count = bytes / size;
        let agrees = (atomic.does == AtomicKind::Change || results.len() == bytes)
            && (atomic.does != AtomicKind::Compare || compare.len() == bytes)
            && atomic.count.is_none_or(|remote| remote == count);
        if !agrees || count == 0 || count > most {
            return Err(FI_EINVAL);
        }
        let peer = self.reachable(atomic.peer)?;
        self.tally.did_atomic();
        let node = self.node(atomic.context, reported);
        let direction = match atomic.does {
            AtomicKind::Change => FI_WRITE,
            AtomicKind::Fetch | AtomicKind::Compare => FI_READ,
        };
        // SAFETY: memory for a node, which is nobody else's during the operation.
        unsafe {
            node.write(Node {
                flags: FI_ATOMIC | direction | self.marks(atomic.context, reported),
                peer: peer.index(),
                rest: 1,
                ..Node::EMPTY
            });
        }
        let part = self.domain.pool.take(core::ptr::null_mut());
        let number = self.atomics.get().wrapping_add(1);
        self.atomics.set(number);
        // SAFETY: the part is this operation's, and the room is the caller's promise.
        let awaited = unsafe {
            (*part).whole = node;
            (*part).node.flags |= self.mark();
            self.await_answer(peer, number, part, results.as_slice())
        };
        if let Err(error) = awaited {
            // SAFETY: nobody waits for it.
            unsafe { self.part_is_over(part, &Err(error)) };
            return Ok(0);
        }
        let words = [
            atomic.key,
            atomic.addr,
            count as u64,
            u64::from(atomic.datatype) << 32 | u64::from(atomic.op),
        ];
        let mut message = Vec::with_capacity(AHEAD + 2 * bytes);
        message.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        // SAFETY: operands are readable during the call.
        unsafe {
            append(&mut message, operand.pieces().chain(compare.pieces()));
        }
        let fetches = u64::from(atomic.does != AtomicKind::Change);
        // If it cannot be sent, the peer is gone, and the receive of the answer has ended or will.
        let _ = self.say(peer, atomic_tag(number), Some(fetches), message);
        self.collect();
        Ok(0)
    }

    /// Posts the receive of an answer.
    ///
    /// # Safety
    /// The room for results is the operation's until it is over.
    unsafe fn await_answer(
        &self,
        peer: Peer,
        number: u32,
        part: *mut Spare,
        results: &[RawSliceMut],
    ) -> limic::Result<()> {
        let selector = Selector::exact(peer, limic::Tag(answer_tag(number)));
        // SAFETY: the caller's promise.
        match unsafe { self.limic.post_recv(&selector, results) }? {
            Posted::Pending(id) => self.watch(id, name_of(part, kind::PART)),
            // A peer that answers before it is asked.
            // SAFETY: the part is this operation's.
            Posted::Done(outcome) => unsafe { self.part_is_over(part, &outcome) },
        }
        Ok(())
    }
}
