//! What the calls of all tables have in common: an endpoint, a sort of message, a form, and bytes.
//!
//! libfabric has each operation in several forms: of one buffer, of several pieces, with data,
//! injected, and as a message with flags. The functions of the tables only say which one was
//! called ([`c_call`]); what all forms do is in `send`, `receive`, `access` and `atomic::remote`.
//! The first two are inlined with the form known, so a plain send does not ask which form it is:
//! each function enters the domain with a closure of its own ([`with`]), which the compiler shares
//! with no other.

use core::ffi::c_void;

use limic::raw::{RawSlice, RawSliceMut};

use crate::endpoint::{Binding, Endpoint, sort};
use crate::{ffi_guard, object};
use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Most pieces of a buffer.
pub(crate) const IOV_LIMIT: usize = 8;

/// A call about an endpoint that is in use, in a turn of it.
///
/// # Safety
/// `endpoint` is one of this provider.
#[inline(always)]
pub(crate) unsafe fn with(
    endpoint: *mut fid_ep,
    body: impl FnOnce(&Endpoint) -> Result<usize, i32>,
) -> isize {
    ffi_guard::size(|| {
        // SAFETY: the caller's promise.
        let endpoint: &Endpoint = unsafe { object::object(endpoint) };
        let _turn = endpoint.turns.data();
        if !endpoint.enabled.get() {
            return Err(FI_EOPBADSTATE);
        }
        body(endpoint)
    })
}

/// A function of a table: its arguments, then the form, what the call says, and its bytes, with
/// which `$operation` is called. If the first argument is a reference, it is a message, which C
/// passes by its address.
macro_rules! c_call {
    ($operation:path: $name:ident($message:ident: &$type:ty, $($argument:tt: $of:ty),*)
        = $form:expr, $given:expr, $bytes:expr) => {
        unsafe extern "C" fn $name(
            endpoint: *mut fid_ep,
            message: *const $type,
            $($argument: $of),*
        ) -> isize {
            let body = |endpoint: &Endpoint| {
                // SAFETY: C passes a message that is valid during the call, or null.
                let $message = unsafe { message.as_ref() }.ok_or(FI_EINVAL)?;
                let (form, given, bytes) = ($form, $given, $bytes);
                // SAFETY: C lends what the message names until the operation is over, or, if it is
                // injected, until the call returns.
                unsafe { $operation(endpoint, form, &given, bytes) }
            };
            // SAFETY: C passes an endpoint that it was given.
            unsafe { with(endpoint, body) }
        }
    };
    ($operation:path: $name:ident($($argument:tt: $of:ty),*)
        = $form:expr, $given:expr, $bytes:expr) => {
        unsafe extern "C" fn $name(endpoint: *mut fid_ep, $($argument: $of),*) -> isize {
            let body = |endpoint: &Endpoint| {
                let (given, bytes) = ($given, $bytes);
                // SAFETY: C lends the buffers and the context until the operation is over, or, if
                // it is injected, until the call returns.
                unsafe { $operation(endpoint, $form, &given, bytes) }
            };
            // SAFETY: C passes an endpoint that it was given.
            unsafe { with(endpoint, body) }
        }
    };
}
pub(crate) use c_call;

/// What is injected has no context.
pub(crate) const NO_CONTEXT: *mut c_void = core::ptr::null_mut();

/// Flags that a call may have which sends, reads, writes or operates. `FI_MORE` changes nothing:
/// what is posted goes at once.
const STARTING: u64 = FI_REMOTE_CQ_DATA
    | FI_MORE
    | FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_MATCH_COMPLETE;
/// Flags that a call may have which receives or looks for messages. A receive is complete when its
/// bytes are in place, whatever it asks for. `FI_REMOTE_CQ_DATA` is a flag of sends; Intel MPI
/// passes it to receives too where its messages have such data, and it changes nothing.
const RECEIVING: u64 = FI_MULTI_RECV
    | FI_REMOTE_CQ_DATA
    | FI_MORE
    | FI_COMPLETION
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_PEEK
    | FI_CLAIM
    | FI_DISCARD;

/// The form of a call.
#[derive(Clone, Copy)]
pub(crate) enum CallFlags {
    /// Without flags: what the endpoint was opened with holds.
    Plain,
    /// With flags of its own.
    Message(u64),
    /// The bytes are the caller's again when the call returns, and nothing is reported if all goes
    /// well.
    Inject,
}

impl CallFlags {
    /// A call that starts something at a peer. What is asked beyond what there is, such as
    /// `FI_FENCE` or `FI_COMMIT_COMPLETE`, is refused, since the caller would rely on it.
    #[inline(always)]
    pub(crate) fn starting(flags: u64) -> Result<Self, i32> {
        Self::checked(flags, STARTING)
    }

    /// The same, of one whose target reports nothing, so that it takes no data.
    #[inline(always)]
    pub(crate) fn operating(flags: u64) -> Result<Self, i32> {
        Self::checked(flags, STARTING & !FI_REMOTE_CQ_DATA)
    }

    /// A call that receives.
    #[inline(always)]
    pub(crate) fn receiving(flags: u64) -> Result<Self, i32> {
        Self::checked(flags, RECEIVING)
    }

    #[inline(always)]
    fn checked(flags: u64, known: u64) -> Result<Self, i32> {
        if flags & !known == 0 {
            Ok(Self::Message(flags))
        } else {
            Err(FI_EBADFLAGS)
        }
    }

    /// The flags that hold: the call's own, or those of the endpoint if it has none.
    /// `FI_COMPLETION` says whether the end of the operation is reported.
    #[inline(always)]
    pub(crate) fn flags(self, binding: &Binding) -> u64 {
        match self {
            Self::Plain => binding.plain(),
            Self::Message(flags) => binding.with(flags),
            Self::Inject => FI_INJECT,
        }
    }

    /// The flags that the caller passed.
    #[inline(always)]
    pub(crate) fn own_flags(self) -> u64 {
        match self {
            Self::Plain | Self::Inject => 0,
            Self::Message(flags) => flags,
        }
    }
}

/// The word that travels with the bytes of a message, since it does so only if a flag says it.
#[inline(always)]
pub(crate) fn data(flags: u64, data: u64) -> Option<u64> {
    (flags & FI_REMOTE_CQ_DATA != 0).then_some(data)
}

/// Whether messages have tags, and the tag of this one.
#[derive(Clone, Copy)]
pub(crate) enum TagSpace {
    Tagged(u64),
    Untagged,
}

impl TagSpace {
    /// The flag of its completions.
    #[inline(always)]
    pub(crate) fn flag(self) -> u64 {
        match self {
            Self::Tagged(_) => FI_TAGGED,
            Self::Untagged => FI_MSG,
        }
    }

    /// The tag of limic's message. The highest bit is not the application's (`mem_tag_format` says
    /// so).
    #[inline(always)]
    pub(crate) fn tag(self) -> Result<u64, i32> {
        match self {
            Self::Tagged(tag) if tag & sort::NOT_TAGGED == 0 => Ok(tag),
            Self::Tagged(_) => Err(FI_EINVAL),
            Self::Untagged => Ok(sort::UNTAGGED),
        }
    }
}

/// The bytes of a call: one buffer, or an array of pieces.
#[derive(Clone, Copy)]
pub(crate) enum Bytes {
    One(*mut c_void, usize),
    Pieces(*const libc::iovec, usize),
}

impl Bytes {
    /// A buffer that is only read.
    #[inline(always)]
    pub(crate) fn of(start: *const c_void, len: usize) -> Self {
        Self::One(start.cast_mut(), len)
    }

    /// The pieces to send.
    ///
    /// # Safety
    /// An array of pieces is valid for its length.
    #[inline(always)]
    pub(crate) unsafe fn slices(self) -> Result<Pieces<RawSlice>, i32> {
        let none = slice(core::ptr::null_mut(), 0);
        // SAFETY: the caller's promise.
        unsafe { Pieces::new(self, none, slice) }
    }

    /// The room to receive into.
    ///
    /// # Safety
    /// As [`slices`](Self::slices).
    #[inline(always)]
    pub(crate) unsafe fn room(self) -> Result<Pieces<RawSliceMut>, i32> {
        let none = slice_mut(core::ptr::null_mut(), 0);
        // SAFETY: the caller's promise.
        unsafe { Pieces::new(self, none, slice_mut) }
    }

    /// The room for elements of `size` bytes each, of which the lengths are counts.
    ///
    /// # Safety
    /// As [`slices`](Self::slices).
    pub(crate) unsafe fn elements(self, size: usize) -> Result<Pieces<RawSliceMut>, i32> {
        // SAFETY: the caller's promise.
        let mut room = unsafe { self.room()? };
        let pieces = match &mut room {
            Pieces::One(one) => &mut one[..],
            Pieces::Some(all, count) => &mut all[..*count],
        };
        for piece in pieces {
            piece.len = piece.len.checked_mul(size).ok_or(FI_EINVAL)?;
            if piece.len > 0 && piece.start.is_null() {
                return Err(FI_EINVAL);
            }
        }
        Ok(room)
    }
}

#[inline(always)]
pub(crate) fn slice(start: *mut c_void, len: usize) -> RawSlice {
    RawSlice {
        start: start.cast_const().cast(),
        len,
    }
}

#[inline(always)]
pub(crate) fn slice_mut(start: *mut c_void, len: usize) -> RawSliceMut {
    RawSliceMut {
        start: start.cast(),
        len,
    }
}

/// Pieces of a buffer, in place.
pub(crate) enum Pieces<S> {
    One([S; 1]),
    Some([S; IOV_LIMIT], usize),
}

impl<S: Copy> Pieces<S> {
    /// # Safety
    /// As [`Bytes::slices`].
    #[inline(always)]
    unsafe fn new(
        bytes: Bytes,
        none: S,
        piece: impl Fn(*mut c_void, usize) -> S,
    ) -> Result<Self, i32> {
        let (iov, count) = match bytes {
            Bytes::One(start, len) => return Ok(Self::One([piece(start, len)])),
            Bytes::Pieces(iov, count) => (iov, count),
        };
        if count > IOV_LIMIT || (iov.is_null() && count > 0) {
            return Err(FI_EINVAL);
        }
        let mut all = [none; IOV_LIMIT];
        for (number, place) in all.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            let iov = unsafe { &*iov.add(number) };
            *place = piece(iov.iov_base, iov.iov_len);
        }
        Ok(Self::Some(all, count))
    }

    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[S] {
        match self {
            Self::One(one) => one,
            Self::Some(all, count) => &all[..*count],
        }
    }
}

impl Pieces<RawSliceMut> {
    /// Bytes in all of them.
    pub(crate) fn len(&self) -> usize {
        self.as_slice().iter().map(|piece| piece.len).sum()
    }
}

/// Where pieces begin, and how long they are.
pub(crate) fn parts(pieces: &[RawSliceMut]) -> impl Iterator<Item = (*const u8, usize)> {
    pieces
        .iter()
        .map(|piece| (piece.start.cast_const(), piece.len))
}

/// Puts the bytes of pieces behind others.
///
/// # Safety
/// The pieces are readable, and nobody writes to them during the call.
pub(crate) unsafe fn append(bytes: &mut Vec<u8>, pieces: impl Iterator<Item = (*const u8, usize)>) {
    // Pieces without bytes may begin anywhere.
    for (start, len) in pieces.filter(|(_, len)| *len > 0) {
        // SAFETY: the caller's promise.
        bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(start, len) });
    }
}
