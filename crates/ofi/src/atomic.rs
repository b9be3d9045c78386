//! Atomic operations: messages that the owner of the memory executes when it makes progress, and answers.
//!
//! Operations of one endpoint on another are executed in the order in which they were made, since the messages keep
//! theirs. The answer comes into a receive that names its sender, so an operation ends when the owner dies.

use core::ffi::{c_int, c_void};

use limic::raw::{Posted, RawSliceMut};
use limic::{Access, Peer, RawEndpoint, Selector};

use crate::abi::atomic::{fi_atomic_attr, fi_ioc, fi_msg_atomic, fi_ops_atomic, fi_rma_ioc};
use crate::abi::endpoint::fid_ep;
use crate::abi::errno::*;
use crate::abi::objects::fid_domain;
use crate::abi::*;
use crate::aside::{answer_tag, atomic_tag};
use crate::endpoint::Endpoint;
use crate::node::{Node, Spare};
use crate::progress::{kind, name_of};
use crate::reduction::{Reduction, knows, op, size_of_type};
use crate::send::IOV_LIMIT;
use crate::tagged::with;
use crate::{border, log};

pub(crate) static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// Most bytes of elements of one operation.
const LONGEST: usize = 4096;
/// Bytes ahead of the operands in a message: key, offset, elements, type and operation.
const AHEAD: usize = 32;

/// What a call does beside changing memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Change,
    Fetch,
    Compare,
}

/// One atomic operation.
struct Atomic {
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    form: Form,
    context: *mut c_void,
    reported: bool,
}

/// Elements that one operation may have. `None`: it cannot be done.
fn most(datatype: u32, op: u32, form: Form) -> Option<usize> {
    let fits = match form {
        // A change that changes nothing, or without the second operand, makes no sense.
        Form::Change => op != op::READ && !op::compares(op),
        Form::Fetch => !op::compares(op),
        Form::Compare => op::compares(op),
    };
    if !fits || !knows(datatype, op) {
        return None;
    }
    size_of_type(datatype).map(|size| LONGEST / size)
}

/// The bytes of the pieces of an array.
///
/// # Safety
/// `pieces` is valid for `count` entries, and what they name for as many elements.
unsafe fn gather(pieces: *const fi_ioc, count: usize, size: usize) -> Result<Vec<u8>, i32> {
    if count > IOV_LIMIT || (pieces.is_null() && count > 0) {
        return Err(FI_EINVAL);
    }
    let mut bytes = Vec::new();
    for number in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let piece = &*pieces.add(number);
            let len = piece.count.checked_mul(size).ok_or(FI_EINVAL)?;
            if len > 0 && !piece.addr.is_null() {
                let start = piece.addr.cast::<u8>();
                bytes.extend_from_slice(core::slice::from_raw_parts(start, len));
            }
        }
    }
    Ok(bytes)
}

/// Room for the result of an operation.
struct Results {
    room: [RawSliceMut; IOV_LIMIT],
    count: usize,
}

impl Results {
    /// # Safety
    /// As [`gather`].
    unsafe fn new(pieces: *mut fi_ioc, count: usize, size: usize) -> Result<Self, i32> {
        if count > IOV_LIMIT || (pieces.is_null() && count > 0) {
            return Err(FI_EINVAL);
        }
        let mut room = [RawSliceMut {
            start: core::ptr::null_mut(),
            len: 0,
        }; IOV_LIMIT];
        for (number, place) in room.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            let piece = unsafe { &*pieces.add(number) };
            *place = RawSliceMut {
                start: piece.addr.cast(),
                len: piece.count.checked_mul(size).ok_or(FI_EINVAL)?,
            };
        }
        Ok(Self { room, count })
    }

    fn as_slice(&self) -> &[RawSliceMut] {
        &self.room[..self.count]
    }

    fn len(&self) -> usize {
        self.as_slice().iter().map(|piece| piece.len).sum()
    }
}

impl Endpoint {
    /// Starts an atomic operation.
    ///
    /// # Safety
    /// The room for results is the operation's until it is over; so is a context that is lent.
    unsafe fn atomic(
        &self,
        atomic: &Atomic,
        operand: &[u8],
        compare: &[u8],
        results: &Results,
    ) -> Result<usize, i32> {
        let size = size_of_type(atomic.datatype).ok_or(FI_EOPNOTSUPP)?;
        let most = most(atomic.datatype, atomic.op, atomic.form).ok_or(FI_EOPNOTSUPP)?;
        let bytes = match (atomic.op, atomic.form) {
            (op::READ, _) => results.len(),
            _ => operand.len(),
        };
        let count = bytes / size;
        let agrees = (atomic.form == Form::Change || results.len() == bytes)
            && (atomic.form != Form::Compare || compare.len() == bytes);
        if !agrees || count == 0 || count > most {
            return Err(FI_EINVAL);
        }
        let peer = self.reachable(atomic.peer)?;
        self.tally.did_atomic();
        let node = self.node(atomic.context, atomic.reported);
        let direction = match atomic.form {
            Form::Change => FI_WRITE,
            Form::Fetch | Form::Compare => FI_READ,
        };
        // SAFETY: memory for a node, which is nobody else's during the operation.
        unsafe {
            node.write(Node {
                flags: FI_ATOMIC | direction | self.marks(atomic.context, atomic.reported),
                peer: peer.index(),
                request: 1,
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
            self.await_answer(peer, number, part, results)
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
        if atomic.op != op::READ {
            message.extend_from_slice(operand);
        }
        message.extend_from_slice(compare);
        let fetches = u64::from(atomic.form != Form::Change);
        // If it cannot be sent, the peer is gone, and the receive of the answer has ended or will.
        let _ = self.say(peer, atomic_tag(number), Some(fetches), message);
        self.collect();
        Ok(0)
    }

    /// Posts the receive of an answer.
    ///
    /// # Safety
    /// As [`atomic`](Self::atomic).
    unsafe fn await_answer(
        &self,
        peer: Peer,
        number: u32,
        part: *mut Spare,
        results: &Results,
    ) -> limic::Result<()> {
        let selector = Selector::exact(peer, limic::Tag(answer_tag(number)));
        // SAFETY: the caller's promise.
        match unsafe { self.limic.post_recv(&selector, results.as_slice()) }? {
            Posted::Pending(id) => self.watch(id, name_of(part, kind::PART)),
            // A peer that answers before it is asked.
            // SAFETY: the part is this operation's.
            Posted::Done(outcome) => unsafe { self.part_is_over(part, &outcome) },
        }
        Ok(())
    }

    /// A peer asks for an atomic operation.
    pub(crate) fn answer(&self, peer: Peer, number: u32, message: &[u8], fetches: bool) {
        let (result, errno) = match self.execute(message) {
            Ok(before) if fetches => (before, 0),
            Ok(_) => (Vec::new(), 0),
            Err(errno) => (Vec::new(), errno),
        };
        if errno != 0 {
            log::warn(&format_args!(
                "an atomic operation of {peer} is refused: {}",
                crate::errors::text_of(errno).to_string_lossy()
            ));
        }
        let word = Some(errno as u64);
        if let Err(errno) = self.say(peer, answer_tag(number), word, result) {
            log::info(&format_args!("{peer} gets no answer: error {errno}"));
        }
    }

    /// Executes an operation. Whatever the message says is checked first.
    fn execute(&self, message: &[u8]) -> Result<Vec<u8>, i32> {
        let word = |number: usize| -> Result<u64, i32> {
            let bytes = message.get(8 * number..).and_then(<[u8]>::first_chunk);
            bytes
                .map(|bytes| u64::from_ne_bytes(*bytes))
                .ok_or(FI_EINVAL)
        };
        let (key, addr, count) = (word(0)?, word(1)?, word(2)?);
        let (datatype, op) = ((word(3)? >> 32) as u32, word(3)? as u32);
        let size = size_of_type(datatype).ok_or(FI_EOPNOTSUPP)?;
        let count = usize::try_from(count).map_err(|_| FI_EINVAL)?;
        if !knows(datatype, op) || count > LONGEST / size {
            return Err(FI_EOPNOTSUPP);
        }
        let bytes = count * size;
        let operands = message.get(AHEAD..).unwrap_or_default();
        let wanted = match op {
            op::READ => 0,
            op if op::compares(op) => 2 * bytes,
            _ => bytes,
        };
        if operands.len() != wanted {
            return Err(FI_EINVAL);
        }
        let regions = self.domain.regions.borrow();
        let region = regions.get(&key).ok_or(FI_EKEYREJECTED)?;
        let access = if op == op::READ {
            Access::READ
        } else {
            Access::WRITE
        };
        let target = region.part(addr, bytes, access)?;
        let (operand, compare) = operands.split_at(bytes.min(operands.len()));
        let reduction = Reduction {
            datatype,
            op,
            operand,
            compare,
        };
        // SAFETY: within the region, which the application registered for such accesses; its own threads that look at
        // it meanwhile accept what libfabric says of that.
        Ok(unsafe { reduction.run(target, count) })
    }
}

/// `fi_query_atomic`.
pub(crate) unsafe extern "C" fn query(
    _: *mut fid_domain,
    datatype: u32,
    op: u32,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    border::status(|| {
        let form = match flags {
            0 => Form::Change,
            FI_FETCH_ATOMIC => Form::Fetch,
            FI_COMPARE_ATOMIC => Form::Compare,
            _ => return Err(FI_EINVAL),
        };
        let most = most(datatype, op, form).ok_or(FI_EOPNOTSUPP)?;
        // SAFETY: C passes attributes or null.
        if let Some(attr) = unsafe { attr.as_mut() } {
            attr.count = most;
            attr.size = LONGEST / most;
        }
        Ok(())
    })
}

/// Says how many elements an operation may have.
fn valid(datatype: u32, op: u32, form: Form, count: *mut usize) -> c_int {
    border::status(|| {
        let most = most(datatype, op, form).ok_or(FI_EOPNOTSUPP)?;
        // SAFETY: C passes a number or null.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = most;
        }
        Ok(())
    })
}

unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(datatype, op, Form::Change, count)
}

unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(datatype, op, Form::Fetch, count)
}

unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(datatype, op, Form::Compare, count)
}

/// Arrays of pieces, as the calls pass them.
struct Arrays {
    operand: (*const fi_ioc, usize),
    compare: (*const fi_ioc, usize),
    result: (*mut fi_ioc, usize),
}

/// A call.
///
/// # Safety
/// C passes what it was given, operands that are valid during the call, and room for results and a context until the
/// operation is over; so in all calls of this file.
unsafe fn call(endpoint: *mut fid_ep, atomic: Atomic, arrays: &Arrays) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        with(endpoint, |endpoint| {
            let atomic = Atomic {
                reported: atomic.reported && endpoint.sends.reports(),
                ..atomic
            };
            start(endpoint, &atomic, arrays)
        })
    }
}

/// # Safety
/// As [`call`].
unsafe fn start(endpoint: &Endpoint, atomic: &Atomic, arrays: &Arrays) -> Result<usize, i32> {
    let size = size_of_type(atomic.datatype).ok_or(FI_EOPNOTSUPP)?;
    // SAFETY: the caller's promise.
    unsafe {
        let operand = gather(arrays.operand.0, arrays.operand.1, size)?;
        let compare = gather(arrays.compare.0, arrays.compare.1, size)?;
        let results = Results::new(arrays.result.0, arrays.result.1, size)?;
        endpoint.atomic(atomic, &operand, &compare, &results)
    }
}

/// A call with a message.
///
/// # Safety
/// As [`call`].
unsafe fn call_message(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    flags: u64,
    form: Form,
    compare: (*const fi_ioc, usize),
    result: (*mut fi_ioc, usize),
) -> isize {
    // SAFETY: the message and its arrays are valid during the call.
    unsafe {
        with(endpoint, |endpoint| {
            let message = message.as_ref().ok_or(FI_EINVAL)?;
            // Several pieces of remote memory are not offered (`iov_limit` of atomics is 1).
            if message.rma_iov_count != 1 || message.rma_iov.is_null() {
                return Err(FI_EINVAL);
            }
            let fi_rma_ioc { addr, key, .. } = *message.rma_iov;
            let atomic = Atomic {
                peer: message.addr,
                addr,
                key,
                datatype: message.datatype,
                op: message.op,
                form,
                context: message.context,
                reported: endpoint.sends.reports_with(flags),
            };
            let arrays = Arrays {
                operand: (message.msg_iov, message.iov_count),
                compare,
                result,
            };
            start(endpoint, &atomic, &arrays)
        })
    }
}

/// One piece of an array.
fn one(addr: *const c_void, count: usize) -> fi_ioc {
    fi_ioc {
        addr: addr.cast_mut(),
        count,
    }
}

const NOTHING: (*const fi_ioc, usize) = (core::ptr::null(), 0);
const NO_RESULT: (*mut fi_ioc, usize) = (core::ptr::null_mut(), 0);

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let operand = one(buffer, count);
    let desc = core::ptr::null_mut();
    // SAFETY: handed on.
    unsafe {
        writev(
            endpoint, &operand, desc, 1, peer, addr, key, datatype, op, context,
        )
    }
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    operand: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let atomic = Atomic {
        peer,
        addr,
        key,
        datatype,
        op,
        form: Form::Change,
        context,
        reported: true,
    };
    let arrays = Arrays {
        operand: (operand, count),
        compare: NOTHING,
        result: NO_RESULT,
    };
    // SAFETY: as `call` says.
    unsafe { call(endpoint, atomic, &arrays) }
}

unsafe extern "C" fn writemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    // SAFETY: as `call` says.
    unsafe { call_message(endpoint, message, flags, Form::Change, NOTHING, NO_RESULT) }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    let atomic = Atomic {
        peer,
        addr,
        key,
        datatype,
        op,
        form: Form::Change,
        context: core::ptr::null_mut(),
        reported: false,
    };
    let arrays = Arrays {
        operand: (&one(buffer, count), 1),
        compare: NOTHING,
        result: NO_RESULT,
    };
    // SAFETY: as `call` says.
    unsafe { call(endpoint, atomic, &arrays) }
}

unsafe extern "C" fn readwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (operand, mut result) = (one(buffer, count), one(result, count));
    let desc = core::ptr::null_mut();
    // SAFETY: handed on.
    unsafe {
        readwritev(
            endpoint,
            &operand,
            desc,
            1,
            &mut result,
            desc,
            1,
            peer,
            addr,
            key,
            datatype,
            op,
            context,
        )
    }
}

unsafe extern "C" fn readwritev(
    endpoint: *mut fid_ep,
    operand: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let atomic = Atomic {
        peer,
        addr,
        key,
        datatype,
        op,
        form: Form::Fetch,
        context,
        reported: true,
    };
    let arrays = Arrays {
        // A read has no operand, whatever is passed for it.
        operand: if op == op::READ {
            NOTHING
        } else {
            (operand, count)
        },
        compare: NOTHING,
        result: (result, result_count),
    };
    // SAFETY: as `call` says.
    unsafe { call(endpoint, atomic, &arrays) }
}

unsafe extern "C" fn readwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let result = (result, result_count);
    // SAFETY: as `call` says.
    unsafe { call_message(endpoint, message, flags, Form::Fetch, NOTHING, result) }
}

unsafe extern "C" fn compwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    _: *mut c_void,
    compare: *const c_void,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (operand, compare) = (one(buffer, count), one(compare, count));
    let mut result = one(result, count);
    let desc = core::ptr::null_mut();
    // SAFETY: handed on.
    unsafe {
        compwritev(
            endpoint,
            &operand,
            desc,
            1,
            &compare,
            desc,
            1,
            &mut result,
            desc,
            1,
            peer,
            addr,
            key,
            datatype,
            op,
            context,
        )
    }
}

unsafe extern "C" fn compwritev(
    endpoint: *mut fid_ep,
    operand: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    compare: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: usize,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let atomic = Atomic {
        peer,
        addr,
        key,
        datatype,
        op,
        form: Form::Compare,
        context,
        reported: true,
    };
    let arrays = Arrays {
        operand: (operand, count),
        compare: (compare, compare_count),
        result: (result, result_count),
    };
    // SAFETY: as `call` says.
    unsafe { call(endpoint, atomic, &arrays) }
}

unsafe extern "C" fn compwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    compare: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: usize,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let (compare, result) = ((compare, compare_count), (result, result_count));
    // SAFETY: as `call` says.
    unsafe { call_message(endpoint, message, flags, Form::Compare, compare, result) }
}
