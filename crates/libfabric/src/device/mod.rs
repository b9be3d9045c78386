//! An endpoint of libfabric, with what it needs: all calls of C are here.

mod events;
mod memory;
mod opening;

use core::ffi::{CStr, c_int};
use core::mem::{ManuallyDrop, zeroed};
use core::ptr::null_mut;
use std::collections::HashSet;
use std::os::fd::{BorrowedFd, RawFd};

use limic_fabric::Part;
use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::entries::{fi_cq_err_entry, fi_cq_msg_entry};
use limic_ofi_abi::errno::FI_EAVAIL;
use limic_ofi_abi::objects::{fid_av, fid_cq, fid_domain, fid_eq, fid_fabric, fid_mr};
use limic_ofi_abi::{
    FI_ADDR_UNSPEC, FI_MR_LOCAL, FI_PROGRESS_AUTO, FI_RECV, FI_SEND, FI_SOCKADDR, FI_SOCKADDR_IN,
    FI_SOCKADDR_IN6, fi_addr_t,
};

use crate::library::Functions;
use crate::packet::PACKET;
use crate::pool::{Memory, Operation, Pool, Slot};
use crate::provider::{Info, name_of};

pub(crate) use self::memory::{Registration, Remote};

/// Why nothing is posted any more.
const CLOSED: &str = "the endpoint of libfabric was closed";

/// Completions that are read at once.
const AT_ONCE: usize = 16;
/// Room for these.
pub(crate) const ROOM: [Ended; AT_ONCE] = [(Operation::Packet(0), 0); AT_ONCE];

/// What became of a post.
pub(crate) enum Posted {
    Yes,
    /// The provider takes no more now.
    Later,
    Failed(String),
}

/// What a look at the completion queue gave.
pub(crate) enum Looked {
    Nothing,
    /// So many operations have ended well.
    Ended(usize),
    /// One has failed, which it is if that is known.
    Failed(Option<Operation>, Failure),
    /// The queue itself has.
    Broken(String),
}

/// An operation that has ended well, and the bytes that came.
pub(crate) type Ended = (Operation, usize);

/// Why an operation has failed.
pub(crate) struct Failure {
    /// The number of the error.
    pub(crate) error: c_int,
    pub(crate) why: String,
}

/// An entry of a failure, which later versions of libfabric have made longer.
#[repr(C)]
struct Roomy {
    entry: fi_cq_err_entry,
    _spare: [u64; 8],
}

/// An endpoint of libfabric.
pub(crate) struct Device {
    functions: Functions,
    pub(crate) info: Info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    vector: *mut fid_av,
    queue: *mut fid_cq,
    /// Null: the provider has none.
    events: *mut fid_eq,
    endpoint: *mut fid_ep,
    wait: Option<RawFd>,
    /// The bytes of a name.
    name_len: usize,
    kind: u8,
    pub(crate) part: Part,
    /// What is registered, which is closed before the domain is.
    registered: HashSet<*mut fid_mr>,
    pub(crate) pool: ManuallyDrop<Pool>,
}

// SAFETY: its objects are used by one thread at a time, which is what FI_THREAD_DOMAIN asks for.
unsafe impl Send for Device {}

impl Device {
    /// Whether what is posted moves only when the queue is read.
    pub(crate) fn moves_by_looks(&self) -> bool {
        // SAFETY: libfabric gives all parts.
        unsafe { (*self.info.get().domain_attr).data_progress != FI_PROGRESS_AUTO }
    }

    /// Sends that the endpoint takes before it reports the first: all peers share them.
    pub(crate) fn most_sends(&self) -> usize {
        // SAFETY: libfabric gives all parts.
        match unsafe { (*self.info.get().tx_attr).size } {
            0 => usize::MAX,
            most => most,
        }
    }

    /// The descriptor to sleep on.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the queue's, which is open as long.
        self.wait.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether anything moves still.
    pub(crate) fn is_open(&self) -> bool {
        !self.endpoint.is_null()
    }

    fn open_endpoint(&self) -> Option<*mut fid_ep> {
        self.is_open().then_some(self.endpoint)
    }

    /// Whether a sleeper is woken by the descriptor. False: there is something already.
    pub(crate) fn may_sleep(&self) -> bool {
        // Some providers take it for granted that the queue has something to wait for, as efa, and
        // others have no such call, as opx.
        if self.wait.is_none() {
            return !self.is_open();
        }
        // SAFETY: both are open, and the queue has a descriptor.
        unsafe {
            let mut queue = &raw mut (*self.queue).fid;
            let trywait = (*(*self.fabric).ops).trywait;
            trywait(self.fabric, &raw mut queue, 1) == 0
        }
    }

    /// The name of the endpoint at a place, which may be anything. `None`: it is none of this
    /// provider.
    pub(crate) fn name_at(&self, place: &[u8]) -> Option<Vec<u8>> {
        let name = name_of(place, self.kind, self.name_len)?;
        let format = self.info.get().addr_format;
        let has_family = [FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&format);
        // The length of such a name goes by its family, which comes first: with the endpoint's own,
        // it is as long as the endpoint's own.
        let family = 1..1 + size_of::<libc::sa_family_t>();
        let is_ours = place.get(family.clone()) == self.part.place().get(family);
        (is_ours || !has_family).then_some(name)
    }

    /// Whether a place is of this provider, and the endpoint lives.
    pub(crate) fn reaches(&self, place: &[u8]) -> bool {
        self.is_open() && self.name_at(place).is_some()
    }

    /// Enters a name into the address vector.
    pub(crate) fn insert(&mut self, name: &[u8]) -> Result<fi_addr_t, String> {
        let mut address = FI_ADDR_UNSPEC;
        // Where names are strings, each has an end.
        let name = [name, &[0]].concat();
        // SAFETY: the name is as long as the endpoint's own, and of its family if there are
        // several, as `name_at` makes sure; a string ends.
        let inserted = unsafe {
            let insert = (*(*self.vector).ops).insert;
            let name = name.as_ptr().cast();
            insert(self.vector, name, 1, &raw mut address, 0, null_mut())
        };
        match inserted {
            1 if address != FI_ADDR_UNSPEC => Ok(address),
            error => Err(format!(
                "fi_av_insert: {}",
                self.functions.text(error.min(0).saturating_neg())
            )),
        }
    }

    /// A packet of one's own.
    ///
    /// # Errors
    /// There is no memory, or it cannot be registered.
    pub(crate) fn take(&mut self) -> Result<Slot, String> {
        if let Some(slot) = self.pool.take() {
            return Ok(slot);
        }
        let memory = Memory::new()?;
        let description = match self.info.memory_mode() & FI_MR_LOCAL {
            0 => null_mut(),
            _ => {
                let (start, len) = memory.range();
                // SAFETY: the pool's memory stays until all registrations are closed.
                let made = unsafe { self.register(start, len, FI_SEND | FI_RECV) }?;
                made.description()
            }
        };
        self.pool.add(memory, description);
        self.pool.take().ok_or_else(|| "no packets".to_owned())
    }

    fn posted(&self, result: isize) -> Posted {
        match c_int::try_from(-result).unwrap_or(libc::EIO) {
            0 => Posted::Yes,
            libc::EAGAIN => Posted::Later,
            error => Posted::Failed(self.functions.text(error)),
        }
    }

    /// Gives a packet, which is the caller's, to be filled by who sends one.
    pub(crate) fn post_receive(&mut self, slot: Slot) -> Posted {
        let Some(endpoint) = self.open_endpoint() else {
            return Posted::Failed(CLOSED.to_owned());
        };
        // SAFETY: the endpoint is open. The packet is the provider's until its completion, and
        // lives until the endpoint is closed.
        let result = unsafe {
            let recv = (*(*endpoint).msg).recv;
            let context = self.pool.context(Operation::Packet(slot));
            let (room, about) = (self.pool.start(slot), self.pool.description(slot));
            recv(
                endpoint,
                room.cast(),
                PACKET,
                about,
                FI_ADDR_UNSPEC,
                context,
            )
        };
        self.posted(result)
    }

    /// Sends the first bytes of a packet, which is the caller's. Not posted, it stays that.
    pub(crate) fn post_send(&mut self, slot: Slot, len: usize, to: fi_addr_t) -> Posted {
        debug_assert!(len <= PACKET, "the packet's own");
        let Some(endpoint) = self.open_endpoint() else {
            return Posted::Failed(CLOSED.to_owned());
        };
        // SAFETY: as above; the address is one of the vector.
        let result = unsafe {
            let send = (*(*endpoint).msg).send;
            let context = self.pool.context(Operation::Packet(slot));
            let (start, about) = (self.pool.start(slot), self.pool.description(slot));
            send(endpoint, start.cast_const().cast(), len, about, to, context)
        };
        self.posted(result)
    }

    /// Reads the completion queue, and moves on what is under way.
    pub(crate) fn look(&mut self, ended: &mut [Ended; AT_ONCE]) -> Looked {
        // The queue goes with the endpoint.
        if !self.is_open() {
            return Looked::Nothing;
        }
        let nothing = fi_cq_msg_entry {
            op_context: null_mut(),
            flags: 0,
            len: 0,
        };
        let mut entries = [nothing; AT_ONCE];
        // SAFETY: room for so many entries of the queue's format.
        let read = unsafe {
            let read = (*(*self.queue).ops).read;
            read(self.queue, entries.as_mut_ptr().cast(), AT_ONCE)
        };
        let Ok(count) = usize::try_from(read) else {
            return match c_int::try_from(-read).unwrap_or(libc::EIO) {
                libc::EAGAIN => Looked::Nothing,
                FI_EAVAIL => self.look_at_error(),
                error => Looked::Broken(self.functions.text(error)),
            };
        };
        let mut known = 0;
        for entry in entries.iter().take(count) {
            if let Some(operation) = self.pool.operation(entry.op_context) {
                ended[known] = (operation, entry.len);
                known += 1;
            }
        }
        Looked::Ended(known)
    }

    fn look_at_error(&self) -> Looked {
        // SAFETY: all of its fields are numbers or pointers. Later versions write no more than the
        // interface's version has; a provider that copies all of a longer entry all the same has
        // room behind it. The text is a string that lasts until the next call.
        unsafe {
            let mut room: Roomy = zeroed();
            let ops = (*self.queue).ops;
            let read = ((*ops).readerr)(self.queue, (&raw mut room).cast(), 0);
            if read != 1 {
                return Looked::Nothing;
            }
            let entry = room.entry;
            let text =
                ((*ops).strerror)(self.queue, entry.prov_errno, entry.err_data, null_mut(), 0);
            let mut why = self.functions.text(entry.err);
            if !text.is_null() {
                let text = CStr::from_ptr(text).to_string_lossy();
                if text != why {
                    why = format!("{why}: {text}");
                }
            }
            let error = entry.err;
            Looked::Failed(
                self.pool.operation(entry.op_context),
                Failure { error, why },
            )
        }
    }
}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Device({}, {:?})", self.info.provider(), self.pool)
    }
}
