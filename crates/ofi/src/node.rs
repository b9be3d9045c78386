//! One operation: a node in memory that the caller lends, or in a spare one.
//!
//! An application in the mode `FI_CONTEXT2` lends 64 bytes with each operation that it wants a
//! completion of. The node lies there until the operation is over, so posting allocates nothing.
//! The completion queue keeps a copy, and allocates only if more wait than ever before. Operations
//! without such memory (applications that do not know the mode, silent operations, parts of larger
//! ones) take a spare node from the endpoint's pool.

use core::cell::Cell;
use core::ffi::c_void;

use limic_ofi_abi::FI_ADDR_NOTAVAIL;
use limic_ofi_abi::peer::fi_peer_rx_entry;

/// Completion flags are below bit 32; these say more about the node.
pub(crate) mod mark {
    /// The node lies in a [`Spare`](super::Spare).
    pub(crate) const SPARE: u64 = 1 << 63;
    /// The operation failed: `error` is set.
    pub(crate) const FAILED: u64 = 1 << 62;
    /// Nobody wants a completion if it goes well.
    pub(crate) const SILENT: u64 = 1 << 61;
    /// A write whose target gets the word `data` when it is done.
    pub(crate) const NOTIFY: u64 = 1 << 60;
    /// A send that was asked to be complete only when it is delivered, or matched.
    pub(crate) const DELIVERED: u64 = 1 << 59;
    /// A look at messages, which receives none.
    pub(crate) const LOOK: u64 = 1 << 58;
    /// The number of the endpoint.
    pub(crate) const ENDPOINT_SHIFT: u32 = 32;
    /// What applications see.
    pub(crate) const PUBLIC: u64 = 0xffff_ffff;
}

/// What is known of an operation. It fits into a `fi_context2`. The first five words are those of a
/// completion in the longest format, behind the context.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Node {
    /// Completion flags, and [`mark`]s.
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// The other side, as the endpoint numbers its peers.
    pub(crate) peer: u32,
    /// Error number, if it failed.
    pub(crate) error: i32,
    /// While it is pending: its parts that are not over, if it has several; of a multi-receive, the
    /// transport's request. Then: the bytes that did not fit.
    pub(crate) rest: u64,
}

const _: () = assert!(size_of::<Node>() <= size_of::<limic_ofi_abi::fi_context2>());

/// No request.
pub(crate) const NO_REQUEST: u64 = u64::MAX;
/// No peer.
pub(crate) const NO_PEER: u32 = u32::MAX;

/// A node with memory of its own.
#[repr(C)]
pub(crate) struct Spare {
    pub(crate) node: Node,
    /// What the application calls the operation.
    pub(crate) context: *mut c_void,
    /// Where it goes when its operation is over.
    pool: *const Pool,
    /// The next one that nobody uses.
    next: *mut Spare,
    /// Of a multi-receive: its messages that are not reported.
    pub(crate) pieces: u32,
    /// Of a receive of another provider's: its entry, until that is given back.
    pub(crate) entry: *mut fi_peer_rx_entry,
    /// Of a part: the whole, whose `rest` counts the parts that are not over.
    pub(crate) whole: *mut Node,
}

impl Node {
    pub(crate) const EMPTY: Self = Self {
        flags: 0,
        len: 0,
        buf: core::ptr::null_mut(),
        data: 0,
        tag: 0,
        peer: NO_PEER,
        error: 0,
        rest: 0,
    };
}

/// What the application calls the operation of a node.
///
/// # Safety
/// `node` is a living node.
#[inline(always)]
pub(crate) unsafe fn context_of(node: *mut Node) -> *mut c_void {
    // SAFETY: the caller's promise; a marked node is the first field of a `Spare`.
    unsafe {
        if (*node).flags & mark::SPARE != 0 {
            (*node.cast::<Spare>()).context
        } else {
            node.cast()
        }
    }
}

/// Spare nodes of an endpoint, where it stays. They are freed with it.
pub(crate) struct Pool {
    free: Cell<*mut Spare>,
    all: Cell<Vec<*mut Spare>>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            free: Cell::new(core::ptr::null_mut()),
            all: Cell::new(Vec::new()),
        }
    }

    /// A spare node. Allocates only if more are in use than ever before.
    pub(crate) fn take(&self, context: *mut c_void) -> *mut Spare {
        let head = self.free.get();
        let spare = if head.is_null() {
            let spare = Box::into_raw(Box::new(Spare {
                node: Node::EMPTY,
                context,
                pool: self,
                next: core::ptr::null_mut(),
                pieces: 0,
                entry: core::ptr::null_mut(),
                whole: core::ptr::null_mut(),
            }));
            let mut all = self.all.take();
            all.push(spare);
            self.all.set(all);
            spare
        } else {
            // SAFETY: nodes of the list are spare ones of this pool that nobody uses.
            self.free.set(unsafe { (*head).next });
            head
        };
        // SAFETY: it is nobody else's.
        unsafe {
            (*spare).node = Node {
                flags: mark::SPARE,
                ..Node::EMPTY
            };
            (*spare).context = context;
            (*spare).pieces = 0;
        }
        spare
    }

    /// What `pick` gives for the first of the operations that the application calls `context` for
    /// which it gives anything. Linear: for cancellation only.
    pub(crate) fn find<T>(
        &self,
        context: *mut c_void,
        pick: impl Fn(*mut Spare) -> Option<T>,
    ) -> Option<T> {
        let all = self.all.take();
        let found = all.iter().copied().find_map(|place| {
            // SAFETY: nodes of the pool live as long as it.
            let spare = unsafe { &*place };
            let meant = spare.context == context && spare.node.flags & mark::SPARE != 0;
            meant.then(|| pick(place)).flatten()
        });
        self.all.set(all);
        found
    }
}

/// Takes back a node if it is a spare one.
///
/// # Safety
/// Nobody uses the node any more, and its endpoint is open.
#[inline(always)]
pub(crate) unsafe fn give_back(node: *mut Node) {
    // SAFETY: the caller's promise; a marked node is the first field of a `Spare`, whose pool is
    // the endpoint's.
    unsafe {
        if (*node).flags & mark::SPARE != 0 {
            let spare = node.cast::<Spare>();
            let pool = &*(*spare).pool;
            // Free ones have no marks, so none is found or given back again.
            (*node).flags = 0;
            (*spare).next = pool.free.get();
            pool.free.set(spare);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for spare in self.all.take() {
            // SAFETY: made by `take`; the endpoint is closed, so nobody uses it any more.
            drop(unsafe { Box::from_raw(spare) });
        }
    }
}

/// The address of a peer that no address vector names.
pub(crate) const UNNAMED: u64 = FI_ADDR_NOTAVAIL;
