//! An owner of queues, in Rust: what `lnx` does, as far as the tests need it. It has one completion
//! queue, one counter and one shared receive context, which a provider serves for two endpoints.
//!
//! Here are the functions that the provider calls; `ends` has the endpoints, and what an
//! application asks of the owner.

mod ends;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::cell::{Cell, RefCell};

use limic_ofi_abi::objects::fid_cq;
use limic_ofi_abi::peer::*;
use limic_ofi_abi::*;

pub(crate) use self::ends::{Ends, Libfabric, open_queue, open_queue_of};

/// What the queue was told of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: fi_addr_t,
    /// Error number, and bytes that did not fit.
    pub(crate) error: (c_int, usize),
}

/// A receive that waits for its message.
struct Posted {
    tagged: bool,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: usize,
    room: libc::iovec,
}

/// What the owner has.
#[derive(Default)]
pub(crate) struct Held {
    completions: RefCell<Vec<Completion>>,
    posted: RefCell<Vec<Posted>>,
    /// Messages without a receive; those with a tag are marked.
    unexpected: RefCell<Vec<(bool, *mut fi_peer_rx_entry)>>,
    /// Entries that were given out and not given back.
    pub(crate) entries: Cell<i32>,
    /// How often the owner says that it has no room before it takes an entry.
    pub(crate) busy: Cell<u32>,
    pub(crate) counted: Cell<(u32, u32)>,
    /// What the functions call back, if they do what they must not; and what came of it.
    pub(crate) calls_back: Cell<Option<*mut fid_cq>>,
    pub(crate) called_back: RefCell<Vec<isize>>,
}

/// What providers get, and what is behind it.
#[repr(C)]
struct Behind<T> {
    head: T,
    held: *const Held,
}

/// # Safety
/// `head` is that of a `Behind`.
unsafe fn held<'a, T>(head: *mut T) -> &'a Held {
    // SAFETY: the caller's promise; what is held is never freed.
    unsafe { &*(*head.cast::<Behind<T>>()).held }
}

static CQ_OWNER: fi_ops_cq_owner = fi_ops_cq_owner {
    size: size_of::<fi_ops_cq_owner>(),
    write,
    writeerr,
};
static CNTR_OWNER: fi_ops_cntr_owner = fi_ops_cntr_owner {
    size: size_of::<fi_ops_cntr_owner>(),
    inc,
    incerr,
};
static SRX_OWNER: fi_ops_srx_owner = fi_ops_srx_owner {
    size: size_of::<fi_ops_srx_owner>(),
    get_msg,
    get_tag,
    queue_msg,
    queue_tag,
    foreach_unspec_addr,
    free_entry,
};

unsafe extern "C" fn write(
    cq: *mut fid_peer_cq,
    context: *mut c_void,
    flags: u64,
    len: usize,
    _: *mut c_void,
    data: u64,
    tag: u64,
    source: fi_addr_t,
) -> isize {
    let completion = Completion {
        context: context.addr(),
        flags,
        len,
        data,
        tag,
        source,
        error: (0, 0),
    };
    // SAFETY: it was made below; so for the other functions.
    unsafe { held(cq) }
        .completions
        .borrow_mut()
        .push(completion);
    0
}

unsafe extern "C" fn writeerr(cq: *mut fid_peer_cq, error: *const fi_peer_cq_err_entry) -> isize {
    // SAFETY: the provider passes such an entry.
    let (failed, source) = unsafe { (&(*error).entry, (*error).src_addr) };
    let completion = Completion {
        context: failed.op_context.addr(),
        flags: failed.flags,
        len: failed.len,
        data: failed.data,
        tag: failed.tag,
        source,
        error: (failed.err, failed.olen),
    };
    // SAFETY: as above.
    unsafe { held(cq) }
        .completions
        .borrow_mut()
        .push(completion);
    0
}

unsafe extern "C" fn inc(cntr: *mut fid_peer_cntr) {
    // SAFETY: as above.
    let counted = unsafe { &held(cntr).counted };
    counted.set((counted.get().0 + 1, counted.get().1));
}

unsafe extern "C" fn incerr(cntr: *mut fid_peer_cntr) {
    // SAFETY: as above.
    let counted = unsafe { &held(cntr).counted };
    counted.set((counted.get().0, counted.get().1 + 1));
}

unsafe extern "C" fn get_msg(
    srx: *mut fid_peer_srx,
    wanted: *mut fi_peer_match_attr,
    entry: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: the provider's promise.
    unsafe { get(srx, false, &*wanted, &mut *entry) }
}

unsafe extern "C" fn get_tag(
    srx: *mut fid_peer_srx,
    wanted: *mut fi_peer_match_attr,
    entry: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: as above.
    unsafe { get(srx, true, &*wanted, &mut *entry) }
}

unsafe fn get(
    srx: *mut fid_peer_srx,
    tagged: bool,
    wanted: &fi_peer_match_attr,
    entry: &mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: the caller's promise.
    let held = unsafe { held(srx) };
    if held.busy.get() > 0 {
        held.busy.set(held.busy.get() - 1);
        return -libc::EAGAIN;
    }
    let fits = |posted: &Posted| {
        posted.tagged == tagged
            && (posted.from == FI_ADDR_UNSPEC || posted.from == wanted.addr)
            && (posted.tag ^ wanted.tag) & !posted.ignore == 0
    };
    let mut all = held.posted.borrow_mut();
    let found = all.iter().position(fits).map(|at| all.remove(at));
    held.entries.set(held.entries.get() + 1);
    let made = Box::into_raw(Box::new(fi_peer_rx_entry {
        srx,
        addr: wanted.addr,
        msg_size: wanted.msg_size,
        tag: wanted.tag,
        cq_data: 0,
        flags: FI_RECV | if tagged { FI_TAGGED } else { FI_MSG },
        context: null_mut(),
        count: 0,
        desc: null_mut(),
        peer_context: null_mut(),
        owner_context: null_mut(),
        iov: Box::into_raw(Box::new(libc::iovec {
            iov_base: null_mut(),
            iov_len: 0,
        })),
    }));
    *entry = made;
    match found {
        // SAFETY: just made.
        Some(posted) => unsafe {
            fill(made, &posted);
            0
        },
        None => -libc::ENOENT,
    }
}

unsafe fn fill(entry: *mut fi_peer_rx_entry, posted: &Posted) {
    // SAFETY: the caller has made it.
    unsafe {
        *(*entry).iov = posted.room;
        (*entry).count = 1;
        (*entry).context = core::ptr::without_provenance_mut(posted.context);
    }
}

unsafe extern "C" fn queue_msg(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: it was made by `get`.
    unsafe { held((*entry).srx) }
        .unexpected
        .borrow_mut()
        .push((false, entry));
    0
}

unsafe extern "C" fn queue_tag(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: as above.
    let held = unsafe { held((*entry).srx) };
    if let Some(queue) = held.calls_back.get() {
        // SAFETY: the queue is open.
        let code = unsafe { ((*(*queue).ops).read)(queue, null_mut(), 0) };
        held.called_back.borrow_mut().push(code);
    }
    held.unexpected.borrow_mut().push((true, entry));
    0
}

unsafe extern "C" fn foreach_unspec_addr(
    srx: *mut fid_peer_srx,
    get_addr: unsafe extern "C" fn(*mut fi_peer_rx_entry) -> fi_addr_t,
) {
    // SAFETY: as above. An entry that is none of the provider's is asked about too, as `lnx` does.
    unsafe {
        assert_eq!(
            get_addr(core::ptr::without_provenance_mut(64)),
            FI_ADDR_UNSPEC
        );
        for (_, entry) in held(srx).unexpected.borrow().iter() {
            if (**entry).addr == FI_ADDR_UNSPEC {
                (**entry).addr = get_addr(*entry);
            }
        }
    }
}

unsafe extern "C" fn free_entry(entry: *mut fi_peer_rx_entry) {
    // SAFETY: it was made by `get`, and is given back once.
    unsafe {
        let entries = &held((*entry).srx).entries;
        entries.set(entries.get() - 1);
        let entry = Box::from_raw(entry);
        drop(Box::from_raw(entry.iov));
    }
}
