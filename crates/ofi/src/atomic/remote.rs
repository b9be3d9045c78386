//! Atomic operations on peers' memory, which its owner is asked for: what is said of one, and how
//! the owner executes it.

use core::ffi::c_void;

use limic::Access;
use limic_ofi_abi::atomic::op;

use super::reduction::{Reduction, knows, size_of_type};
use crate::asked::{Asked, word};
use crate::call::{Bytes, CallFlags, append, parts};
use crate::control_channel::Topic;
use crate::endpoint::Endpoint;
use crate::node::Node;
use crate::unanswered::Room;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Most bytes of elements of one operation.
pub(super) const LONGEST: usize = 4096;

/// What a call does beside changing memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtomicKind {
    Change,
    Fetch,
    Compare,
}

/// What a call says, beside its form and its elements.
pub(super) struct AtomicArgs {
    pub(super) peer: fi_addr_t,
    pub(super) addr: u64,
    /// Elements of the remote memory, if the call says it beside those of the local one.
    pub(super) count: Option<usize>,
    pub(super) key: u64,
    pub(super) datatype: u32,
    pub(super) op: u32,
    pub(super) context: *mut c_void,
}

/// What a call works on: elements, whose number stands in place of their bytes.
pub(super) struct Arrays {
    does: AtomicKind,
    operand: Bytes,
    compare: Bytes,
    result: Bytes,
}

impl Arrays {
    const NONE: Bytes = Bytes::Pieces(core::ptr::null(), 0);

    pub(super) fn change(operand: Bytes) -> Self {
        Self {
            does: AtomicKind::Change,
            operand,
            compare: Self::NONE,
            result: Self::NONE,
        }
    }

    pub(super) fn fetch(operand: Bytes, result: Bytes) -> Self {
        Self {
            does: AtomicKind::Fetch,
            operand,
            compare: Self::NONE,
            result,
        }
    }

    pub(super) fn compare(operand: Bytes, compare: Bytes, result: Bytes) -> Self {
        Self {
            does: AtomicKind::Compare,
            operand,
            compare,
            result,
        }
    }
}

/// What stands before the operands in a message.
struct Header {
    key: u64,
    addr: u64,
    /// Elements.
    count: u64,
    datatype: u32,
    op: u32,
}

impl Header {
    const LEN: usize = 32;

    /// The words of a message, behind this first one.
    fn words(&self, first: u64) -> [u64; 5] {
        let kind = u64::from(self.datatype) << 32 | u64::from(self.op);
        [first, self.key, self.addr, self.count, kind]
    }

    /// Splits a message.
    fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (header, operands) = message.split_at_checked(Self::LEN)?;
        let word = |number| word(header, number);
        let kind = word(3)?;
        let header = Self {
            key: word(0)?,
            addr: word(1)?,
            count: word(2)?,
            datatype: (kind >> 32) as u32,
            op: kind as u32,
        };
        Some((header, operands))
    }
}

/// Elements that one operation may have. `None`: it cannot be done.
pub(super) fn most(datatype: u32, op: u32, does: AtomicKind) -> Option<usize> {
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

/// A call of an atomic operation.
///
/// # Safety
/// Arrays and operands are valid during the call; the room for results, and a context that is lent,
/// are the operation's until it is over.
pub(super) unsafe fn call(
    endpoint: &Endpoint,
    form: CallFlags,
    given: &AtomicArgs,
    arrays: Arrays,
) -> Result<usize, i32> {
    let reported = form.flags(&endpoint.sends) & FI_COMPLETION != 0;
    // SAFETY: the caller's promise.
    unsafe { endpoint.atomic(given, reported, &arrays) }
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
        let most = most(atomic.datatype, atomic.op, arrays.does).ok_or(FI_EOPNOTSUPP)?;
        // A read has no operand, whatever is passed for it.
        let operand = match atomic.op {
            op::READ => Arrays::NONE,
            _ => arrays.operand,
        };
        // SAFETY: the caller's promise.
        let (operand, compare, results) = unsafe {
            let compare = arrays.compare.elements(size)?;
            let results = arrays.result.elements(size)?;
            (operand.elements(size)?, compare, results)
        };
        let bytes = match atomic.op {
            op::READ => results.len(),
            _ => operand.len(),
        };
        let count = bytes / size;
        let agrees = (arrays.does == AtomicKind::Change || results.len() == bytes)
            && (arrays.does != AtomicKind::Compare || compare.len() == bytes)
            && atomic.count.is_none_or(|remote| remote == count);
        if !agrees || count == 0 || count > most {
            return Err(FI_EINVAL);
        }
        let peer = self.peer(atomic.peer)?;
        self.may_ask(peer)?;
        let direction = match arrays.does {
            AtomicKind::Change => FI_WRITE,
            AtomicKind::Fetch | AtomicKind::Compare => FI_READ,
        };
        let node = Node {
            flags: FI_ATOMIC | direction,
            peer: peer.index(),
            ..Node::EMPTY
        };
        let node = self.node(atomic.context, reported, node);
        let header = Header {
            key: atomic.key,
            addr: atomic.addr,
            count: count as u64,
            datatype: atomic.datatype,
            op: atomic.op,
        };
        let asked = Asked {
            topic: match arrays.does {
                AtomicKind::Change => Topic::Change,
                AtomicKind::Fetch | AtomicKind::Compare => Topic::Fetch,
            },
            word: None,
            room: Room::of(results.as_slice()),
        };
        let put = |first, message: &mut Vec<u8>| {
            let words = header.words(first).map(u64::to_ne_bytes);
            message.extend_from_slice(words.as_flattened());
            // SAFETY: operands are readable during the call.
            unsafe {
                append(
                    message,
                    parts(operand.as_slice()).chain(parts(compare.as_slice())),
                )
            };
        };
        // SAFETY: the node is this operation's, and the room is the caller's promise.
        unsafe { self.ask(peer, node, asked, put) }?;
        self.tally.did_atomic();
        Ok(0)
    }

    /// Executes an operation, and puts behind the results of others what was there before, which a
    /// peer gets if it fetches. Whatever the message says is checked first.
    pub(crate) fn execute(
        &self,
        message: &[u8],
        fetches: bool,
        results: &mut Vec<u8>,
    ) -> Result<(), i32> {
        if self.caps & FI_ATOMIC == 0 {
            return Err(FI_EKEYREJECTED);
        }
        let (header, operands) = Header::read(message).ok_or(FI_EINVAL)?;
        let Header {
            key,
            addr,
            count,
            datatype,
            op,
        } = header;
        let size = size_of_type(datatype).ok_or(FI_EOPNOTSUPP)?;
        let count = usize::try_from(count).map_err(|_| FI_EINVAL)?;
        if !knows(datatype, op) || count > LONGEST / size {
            return Err(FI_EOPNOTSUPP);
        }
        let bytes = count * size;
        let wanted = match op {
            op::READ => 0,
            op if op::compares(op) => 2 * bytes,
            _ => bytes,
        };
        if operands.len() != wanted {
            return Err(FI_EINVAL);
        }
        let access = Access {
            read: fetches,
            write: op != op::READ,
        };
        let target = self.domain.reached(key, addr, bytes, access)?;
        let (operand, compare) = operands.split_at(bytes.min(operands.len()));
        let reduction = Reduction {
            datatype,
            op,
            operand,
            compare,
        };
        // SAFETY: within a region, which the application registered for such accesses, and which
        // is not closed during this call; its own threads that look at it meanwhile accept what
        // libfabric says of that.
        unsafe { reduction.run(target, count, results) };
        self.has_executed_for_peer(key, fetches, access.write);
        Ok(())
    }
}
