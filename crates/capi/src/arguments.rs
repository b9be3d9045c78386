//! Checks of what C hands over: pointers, lengths, labels.

use core::mem::MaybeUninit;

use limic::raw::{RawSlice, RawSliceMut};
use limic::{Peer, Selector, Tag};

use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_INVALID, LIMIC_ERR_SIZE};

/// As the source of a receive or probe: any peer.
pub const LIMIC_ANY_SOURCE: u32 = 0xffff_ffff;

/// As the tag of a receive or probe: any tag. No message can have this tag.
pub const LIMIC_ANY_TAG: u32 = 0xffff_ffff;

/// The highest context id; the one above is the library's.
pub const LIMIC_CONTEXT_MAX: u32 = 0xffff_fffe;

/// The highest tag of 64 bits; those above are the library's.
pub const LIMIC_TAG_MAX: u64 = 0xffff_fffe_ffff_ffff;

/// Where a result goes.
///
/// # Safety
/// `to` is NULL or valid for writes of a `T`.
#[inline(always)]
pub(crate) unsafe fn output<'a, T>(
    to: *mut T,
    what: &str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    // SAFETY: valid if not NULL, by the caller's promise; `MaybeUninit` asks for no initialised
    // memory.
    unsafe { to.cast::<MaybeUninit<T>>().as_mut() }.ok_or_else(|| Failure::null(what))
}

/// Bytes to send.
#[inline(always)]
pub(crate) fn bytes(data: *const core::ffi::c_void, len: usize) -> Result<RawSlice, Failure> {
    check(data.is_null(), len)?;
    // An empty message may come from NULL; the transport wants an address in any case.
    let start = if len == 0 { EMPTY } else { data.cast() };
    Ok(RawSlice { start, len })
}

/// Room to receive into.
#[inline(always)]
pub(crate) fn room(data: *mut core::ffi::c_void, len: usize) -> Result<RawSliceMut, Failure> {
    check(data.is_null(), len)?;
    let start = if len == 0 {
        EMPTY.cast_mut()
    } else {
        data.cast()
    };
    Ok(RawSliceMut { start, len })
}

/// An address for no bytes.
const EMPTY: *const u8 = core::ptr::without_provenance(64);

#[inline(always)]
fn check(null: bool, len: usize) -> Result<(), Failure> {
    if null && len > 0 {
        return Err(Failure::null("the buffer"));
    }
    if len > isize::MAX as usize {
        return Err(too_long(len));
    }
    Ok(())
}

#[cold]
pub(crate) fn too_long(len: usize) -> Failure {
    Failure::new(
        LIMIC_ERR_INVALID,
        format!("a length of {len} bytes is above PTRDIFF_MAX; was it negative?"),
    )
}

/// The label of a message to send.
#[inline(always)]
pub(crate) fn label(tag: u32, context: u32) -> Result<Tag, Failure> {
    if tag == LIMIC_ANY_TAG || context > LIMIC_CONTEXT_MAX {
        return Err(reserved(tag, context));
    }
    Ok(Tag::mpi(context, tag))
}

/// What a receive or probe asks for.
#[inline(always)]
pub(crate) fn selector(source: u32, tag: u32, context: u32) -> Result<Selector, Failure> {
    if context > LIMIC_CONTEXT_MAX {
        return Err(reserved(tag, context));
    }
    let source = (source != LIMIC_ANY_SOURCE).then(|| Peer::from_index(source));
    let tag = (tag != LIMIC_ANY_TAG).then_some(tag);
    Ok(Selector::mpi(source, context, tag))
}

/// The tag of 64 bits of a message to send.
#[inline(always)]
pub(crate) fn wide(tag: u64) -> Result<Tag, Failure> {
    if tag > LIMIC_TAG_MAX {
        return Err(not_theirs(tag));
    }
    Ok(Tag(tag))
}

/// What a receive or probe asks for under a mask. The highest bit always counts, so that a mask of
/// few bits takes nothing of the library's.
#[inline(always)]
pub(crate) fn masked(source: u32, tag: u64, mask: u64) -> Result<Selector, Failure> {
    const OWN: u64 = !(u32::MAX as u64);
    let mask = mask | Tag::LIBRARY.0;
    if (tag ^ OWN) & mask & OWN == 0 {
        return Err(not_theirs(tag));
    }
    let source = (source != LIMIC_ANY_SOURCE).then(|| Peer::from_index(source));
    let tag = Tag(tag);
    Ok(Selector { source, tag, mask })
}

#[cold]
fn not_theirs(tag: u64) -> Failure {
    Failure::new(
        LIMIC_ERR_INVALID,
        format!("tag {tag:#x} means the library's own: at most LIMIC_TAG_MAX, under its mask too"),
    )
}

#[cold]
fn reserved(tag: u32, context: u32) -> Failure {
    let text = if context > LIMIC_CONTEXT_MAX {
        format!("context {context:#x} is reserved: at most LIMIC_CONTEXT_MAX")
    } else {
        format!("tag {tag:#x} is LIMIC_ANY_TAG, which no message can have")
    };
    Failure::new(LIMIC_ERR_INVALID, text)
}

/// Checks that a caller's buffer holds what is put there.
pub(crate) fn has_room(given: usize, needed: usize, what: &str) -> Result<(), Failure> {
    if given >= needed {
        return Ok(());
    }
    Err(Failure::new(
        LIMIC_ERR_SIZE,
        format!("{what} needs {needed} bytes, {given} were given"),
    ))
}
