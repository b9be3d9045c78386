//! Peer mode (fi_peer(3)): another provider, the owner, has the completion queue, the counters and
//! the shared receive context, and limic serves them beside other providers. libfabric's `lnx` is
//! such an owner: limic within the node, another provider between nodes.
//!
//! # Who matches
//!
//! The owner does. An endpoint that is bound to a receive context of an owner reserves all tags
//! (`Runtime::reserve_tags`), so limic matches nothing: each message comes out as a matched probe
//! would give it. `messages` shows it to the owner, and receives it into the room that the owner
//! names, at once or later.
//!
//! # Who calls whom, and when
//!
//! - The owner calls in: data calls, and `fi_cq_read` or `fi_cntr_read` without room, which make
//!   progress. Only those two show messages and completions to the owner, since only they come
//!   under the locks that the owner wants there. What a send or a start ends in the meantime waits
//!   in the queue's own list.
//! - Its functions (`get_tag`, `queue_tag`, `free_entry`, `write`, `inc` and their like) are called
//!   within that turn of the endpoint, which is also that of all others at its receive context, its
//!   queue or its counter. They may lock what the owner has for itself, and must not call this
//!   provider about the same domain. The calls that owners alone make say `-FI_EBUSY` then
//!   (`asking`); others would wait for their own end. They find no borrow of what the provider
//!   keeps, but for the list of endpoints of the queue that is read.
//! - `free_entry` is called wherever a receive ends: also in a start or a send, and where the
//!   endpoint is closed.
//! - `foreach_unspec_addr` is called within `fi_av_insert`, with the turns of all objects of the
//!   domain. It calls [`messages::address_of_entry`] back, which is made for that.
//!
//! # Which versions
//!
//! These structures are libfabric's inner ones: it may change them in any version. A version whose
//! structures nobody has compared is refused ([`refusal`]).

mod asking;
mod messages;
mod receive_context;
mod reports;

use core::ffi::c_void;
use core::ptr::NonNull;

use limic_ofi_abi::errno::*;
use limic_ofi_abi::fi_version;
use limic_shm::process::ValueHere;

pub(crate) use self::asking::{Asking, not_asking};
pub(crate) use self::messages::Owned;
pub(crate) use self::receive_context::{ReceiveContext, open};
pub(crate) use self::reports::{OwnersCounter, OwnersQueue};
use crate::{core_library, log};

/// The first and the last version whose structures are those of `limic_ofi_abi::peer`.
const OLDEST: u32 = fi_version(2, 3);
const NEWEST: u32 = fi_version(2, 6);

/// Why there is no peer mode under the libfabric that loaded this library, if so.
pub(crate) fn refusal() -> Option<&'static str> {
    static WHY: ValueHere<Option<String>> = ValueHere::new();
    WHY.get_or_make(|| refusal_of(version())).as_deref()
}

/// The version of that libfabric.
fn version() -> Option<u32> {
    let found = core_library::symbol(c"fi_version");
    if found.is_null() {
        return None;
    }
    // SAFETY: this symbol of libfabric has had this type since version 1.0.
    let version =
        unsafe { core::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> u32>(found) };
    // SAFETY: it returns a number.
    Some(unsafe { version() })
}

fn refusal_of(version: Option<u32>) -> Option<String> {
    let said = |version: u32| format!("{}.{}", version >> 16, version & 0xffff);
    let known = format!("known are those of {} to {}", said(OLDEST), said(NEWEST));
    match version {
        Some(version) if (OLDEST..=NEWEST).contains(&version) => None,
        Some(version) => Some(format!(
            "peer mode's structures of libfabric {} are not known; {known}",
            said(version)
        )),
        None => Some(format!(
            "no libfabric says which peer mode's structures it has; {known}"
        )),
    }
}

/// Refuses what an owner passes for this object unless it is known, and as long as known ones.
///
/// # Safety
/// `given` is null, or points to a structure that begins with its length.
unsafe fn check<T>(what: &str, given: *const T) -> Result<(), i32> {
    if let Some(why) = refusal() {
        return Err(refused(what, why));
    }
    if given.is_null() {
        return Err(refused(what, "a structure is missing"));
    }
    // SAFETY: the caller's promise. Nothing is said yet of what comes behind.
    let length = unsafe { given.cast::<usize>().read() };
    let known = size_of::<T>();
    if length < known {
        let why = format!("a structure of {length} bytes, where {known} are expected");
        return Err(refused(what, &why));
    }
    Ok(())
}

/// The same of a table, all functions of which have to be there.
///
/// # Safety
/// As [`check`]; `T` is a length and functions.
unsafe fn check_table<T>(what: &str, given: *const T) -> Result<(), i32> {
    // SAFETY: the caller's promise; the table is long enough for its words, once that is checked.
    let words = unsafe {
        check(what, given)?;
        core::slice::from_raw_parts(given.cast::<usize>(), size_of::<T>() / size_of::<usize>())
    };
    if words.contains(&0) {
        return Err(refused(what, "a function is missing"));
    }
    Ok(())
}

/// What an owner passes as the context of an object: its own object, and the table of functions
/// there. Both are known, and as long as known ones.
///
/// # Safety
/// `context` is null or a `C`, and what it leads to is there: `object` and `table` read the fields
/// that lead on.
unsafe fn given<C, O, T>(
    what: &str,
    context: *mut c_void,
    object: impl FnOnce(*const C) -> *mut O,
    table: impl FnOnce(*const O) -> *const T,
) -> Result<(NonNull<O>, *const T), i32> {
    let context = context.cast::<C>().cast_const();
    // SAFETY: the caller's promise.
    unsafe { check(what, context)? };
    let owner = NonNull::new(object(context)).ok_or(FI_EINVAL)?;
    let table = table(owner.as_ptr());
    // SAFETY: as above.
    unsafe { check_table(what, table)? };
    Ok((owner, table))
}

#[cold]
fn refused(what: &str, why: &str) -> i32 {
    log::warn(&format_args!("no {what} of another provider: {why}"));
    FI_EINVAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_nobody_has_compared_are_refused() {
        for known in [OLDEST, fi_version(2, 5), NEWEST] {
            assert_eq!(refusal_of(Some(known)), None);
        }
        for (unknown, said) in [
            (fi_version(1, 17), "1.17"),
            (fi_version(2, 2), "2.2"),
            (NEWEST + 1, "2.7"),
        ] {
            let why = refusal_of(Some(unknown)).expect("refused");
            assert!(why.contains(said) && why.contains("2.3 to 2.6"), "{why}");
        }
        assert!(refusal_of(None).is_some());
    }
}
