//! An endpoint of libfabric, with what it needs: all calls of C are here.

mod opening;

use core::ffi::{CStr, c_int, c_void};
use core::mem::{ManuallyDrop, zeroed};
use core::ptr::null_mut;
use std::os::fd::{BorrowedFd, RawFd};

use limic_fabric::Part;
use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::entries::{fi_cq_err_entry, fi_cq_msg_entry};
use limic_ofi_abi::errno::FI_EAVAIL;
use limic_ofi_abi::objects::{fid_av, fid_cq, fid_domain, fid_fabric, fid_mr};
use limic_ofi_abi::{
    FI_ADDR_UNSPEC, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_PROGRESS_AUTO, FI_RECV, FI_SEND, fi_addr_t,
};

use crate::library::Functions;
use crate::packet::PACKET;
use crate::pool::{Pool, Slot};
use crate::provider::{Info, name_of};

/// Completions that are read at once.
pub(crate) const AT_ONCE: usize = 16;

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
    /// One has failed, whose packet this is if it is known.
    Failed(Option<Slot>, String),
    /// The queue itself has.
    Broken(String),
}

/// An operation that has ended well: its packet, and the bytes that came.
pub(crate) type Ended = (Slot, usize);

/// An endpoint of libfabric.
pub(crate) struct Device {
    functions: Functions,
    pub(crate) info: Info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    vector: *mut fid_av,
    queue: *mut fid_cq,
    endpoint: *mut fid_ep,
    wait: Option<RawFd>,
    /// The bytes of a name.
    name_len: usize,
    kind: u8,
    pub(crate) part: Part,
    registered: u64,
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

    /// Whether a sleeper is woken by the descriptor. False: there is something already.
    pub(crate) fn may_sleep(&self) -> bool {
        // SAFETY: both are open.
        unsafe {
            let mut queue = &raw mut (*self.queue).fid;
            let trywait = (*(*self.fabric).ops).trywait;
            trywait(self.fabric, &raw mut queue, 1) == 0
        }
    }

    /// The address of the endpoint at a place, which may be anything. `None`: of another provider.
    pub(crate) fn name_at(&self, place: &[u8]) -> Option<Vec<u8>> {
        name_of(place, self.kind, self.name_len)
    }

    /// Whether a place is of this provider.
    pub(crate) fn reaches(&self, place: &[u8]) -> bool {
        self.name_at(place).is_some()
    }

    /// Enters a name into the address vector.
    pub(crate) fn insert(&mut self, name: &[u8]) -> Result<fi_addr_t, String> {
        let mut address = FI_ADDR_UNSPEC;
        // SAFETY: the name is as long as names of this provider are.
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
    /// Memory cannot be registered.
    pub(crate) fn take(&mut self) -> Result<Slot, String> {
        // SAFETY: libfabric gives all parts.
        let mode = unsafe { (*self.info.get().domain_attr).mr_mode };
        let (domain, functions) = (self.domain, self.functions);
        let registered = &mut self.registered;
        self.pool.take(|start, len| {
            if mode & FI_MR_LOCAL == 0 {
                return Ok((null_mut(), null_mut()));
            }
            *registered += u64::from(mode & FI_MR_PROV_KEY == 0);
            // SAFETY: the domain is open, and the pool's memory stays until it is closed.
            let made = unsafe { register(domain, start, len, *registered) };
            made.map_err(|error| format!("fi_mr_reg: {} (ulimit -l?)", functions.text(error)))
        })
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
        // SAFETY: the endpoint is open. The packet is the provider's until its completion, and
        // lives until the endpoint is closed.
        let result = unsafe {
            let recv = (*(*self.endpoint).msg).recv;
            let (room, context) = (self.pool.start(slot), self.pool.context(slot));
            let about = self.pool.description(slot);
            recv(
                self.endpoint,
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
        // SAFETY: as above; the address is one of the vector.
        let result = unsafe {
            let send = (*(*self.endpoint).msg).send;
            let (start, context) = (self.pool.start(slot), self.pool.context(slot));
            let about = self.pool.description(slot);
            send(
                self.endpoint,
                start.cast_const().cast(),
                len,
                about,
                to,
                context,
            )
        };
        self.posted(result)
    }

    /// Reads the completion queue, and moves on what is under way.
    pub(crate) fn look(&mut self, ended: &mut [Ended; AT_ONCE]) -> Looked {
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
            if let Some(slot) = self.pool.slot(entry.op_context) {
                ended[known] = (slot, entry.len);
                known += 1;
            }
        }
        Looked::Ended(known)
    }

    fn look_at_error(&self) -> Looked {
        // SAFETY: all of its fields are numbers or pointers; later versions do not write behind
        // what they are not given room for, as the interface's version says. The text is a string
        // that lasts until the next call.
        unsafe {
            let mut entry: fi_cq_err_entry = zeroed();
            let ops = (*self.queue).ops;
            let read = ((*ops).readerr)(self.queue, &raw mut entry, 0);
            if read != 1 {
                return Looked::Nothing;
            }
            let text =
                ((*ops).strerror)(self.queue, entry.prov_errno, entry.err_data, null_mut(), 0);
            let mut why = self.functions.text(entry.err);
            if !text.is_null() {
                let text = CStr::from_ptr(text).to_string_lossy();
                if text != why {
                    why = format!("{why}: {text}");
                }
            }
            Looked::Failed(self.pool.slot(entry.op_context), why)
        }
    }
}

/// Makes memory known to a provider, for packets; gives the registration and what describes it.
///
/// # Safety
/// The domain is open, and the memory stays until the registration is closed.
unsafe fn register(
    domain: *mut fid_domain,
    start: *mut u8,
    len: usize,
    key: u64,
) -> Result<(*mut fid_mr, *mut c_void), c_int> {
    let mut made: *mut fid_mr = null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        let (own, start) = (&raw mut (*domain).fid, start.cast_const().cast());
        let (access, into) = (FI_SEND | FI_RECV, &raw mut made);
        match ((*(*domain).mr).reg)(own, start, len, access, 0, key, 0, into, null_mut()) {
            0 => Ok((made, (*made).mem_desc)),
            error => Err(error.saturating_neg()),
        }
    }
}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Device({}, {:?})", self.info.provider(), self.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The providers that tests have do not ask for it.
    #[test]
    fn memory_can_be_registered() {
        let Ok(device) = Device::open(Some("tcp"), false) else {
            return println!("SKIPPED: no libfabric");
        };
        let mut memory = vec![0_u8; PACKET];
        // SAFETY: the domain is open, and the memory lasts longer than the registration.
        unsafe {
            let made = register(device.domain, memory.as_mut_ptr(), PACKET, 1);
            let (made, _) = made.expect("memory");
            assert!(opening::close(made));
        }
    }
}
