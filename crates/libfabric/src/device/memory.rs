//! Memory that the provider knows, and reads of what a peer has registered.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use limic_ofi_abi::objects::fid_mr;
use limic_ofi_abi::{
    FI_KEY_NOTAVAIL, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ,
    FI_REMOTE_READ, command, fi_addr_t, fid,
};

use super::{CLOSED, Device, Posted, opening};
use crate::pool::Operation;

/// Memory that is registered, until [`Device::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration(*mut fid_mr);

impl Registration {
    /// What describes it in operations of this side.
    pub(super) fn description(self) -> *mut c_void {
        // SAFETY: it is open.
        unsafe { (*self.0).mem_desc }
    }
}

// SAFETY: as the device, whose it is.
unsafe impl Send for Registration {}

/// A part of a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) peer: fi_addr_t,
    pub(crate) start: u64,
    pub(crate) key: u64,
}

impl Device {
    /// Makes memory known to the provider.
    ///
    /// # Safety
    /// The memory stays until [`forget`](Self::forget), or until the device is gone.
    pub(super) unsafe fn register(
        &mut self,
        start: *mut u8,
        len: usize,
        access: u64,
    ) -> Result<Registration, String> {
        let mode = self.info.memory_mode();
        let key = match mode & FI_MR_PROV_KEY {
            0 => self.info.key()?,
            _ => 0,
        };
        let failed = |what: &str, error: c_int| {
            let text = self.functions.text(error.saturating_neg());
            format!("{what}: {text} (ulimit -l?)")
        };
        let mut made: *mut fid_mr = null_mut();
        // SAFETY: the domain is open, and the caller's promise; objects begin with their heads.
        unsafe {
            let (own, start) = (&raw mut (*self.domain).fid, start.cast_const().cast());
            let into = &raw mut made;
            let reg = (*(*self.domain).mr).reg;
            match reg(own, start, len, access, 0, key, 0, into, null_mut()) {
                0 => {}
                error => return Err(failed("fi_mr_reg", error)),
            }
            if mode & FI_MR_ENDPOINT != 0 {
                let own: *mut fid = made.cast();
                let ops = (*own).ops;
                let bound = match self.open_endpoint() {
                    Some(endpoint) => ((*ops).bind)(own, endpoint.cast(), 0),
                    None => -libc::ENOTCONN,
                };
                let enabled = match bound {
                    0 => ((*ops).control)(own, command::ENABLE, null_mut()),
                    error => error,
                };
                if enabled != 0 {
                    let why = failed("fi_mr_enable", enabled);
                    opening::close(made);
                    return Err(why);
                }
            }
        }
        self.registered.insert(made);
        Ok(Registration(made))
    }

    /// Memory is the caller's again. One that is forgotten already stays that.
    pub(crate) fn forget(&mut self, one: Registration) {
        if !self.registered.remove(&one.0) {
            return;
        }
        // SAFETY: it was there, so it is open; no operation of this side uses it.
        if !unsafe { opening::close(one.0) } {
            tracing::error!("fi_close of registered memory has failed: it stays registered");
        }
    }

    /// Lets peers read memory: where it begins for them, and the key.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub(crate) unsafe fn offer(
        &mut self,
        start: *const u8,
        len: usize,
    ) -> Result<(Registration, u64, u64), String> {
        // SAFETY: the caller's promise.
        let made = unsafe { self.register(start.cast_mut(), len, FI_REMOTE_READ) }?;
        // SAFETY: it is open.
        let key = unsafe { (*made.0).key };
        if key == FI_KEY_NOTAVAIL {
            self.forget(made);
            return Err("the provider has no key for the memory".to_owned());
        }
        let begins = match self.info.memory_mode() & FI_MR_VIRT_ADDR {
            0 => 0,
            _ => start as u64,
        };
        Ok((made, begins, key))
    }

    /// Makes room for reads known, where the provider asks for that.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub(crate) unsafe fn make_room(
        &mut self,
        start: *mut u8,
        len: usize,
    ) -> Result<Option<Registration>, String> {
        if self.info.memory_mode() & FI_MR_LOCAL == 0 {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.register(start, len, FI_READ) }.map(Some)
    }

    /// Reads memory of a peer. Posted, the room is the provider's until the completion.
    ///
    /// # Safety
    /// `into` has room for `len` bytes, until the completion or the end of the endpoint, and is
    /// registered by `room` if there is that.
    pub(crate) unsafe fn post_read(
        &mut self,
        number: u32,
        from: Remote,
        (into, len): (*mut u8, usize),
        room: Option<Registration>,
    ) -> Posted {
        let Some(endpoint) = self.open_endpoint() else {
            return Posted::Failed(CLOSED.to_owned());
        };
        let about = room.map_or(null_mut(), Registration::description);
        let context = self.pool.context(Operation::Read(number));
        let Remote { peer, start, key } = from;
        // SAFETY: the endpoint is open, and has reads; the address is one of the vector; and the
        // caller's promise.
        let result = unsafe {
            let read = (*(*endpoint).rma).read;
            read(endpoint, into.cast(), len, about, peer, start, key, context)
        };
        self.posted(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The providers that tests have do not ask for it.
    #[test]
    fn memory_can_be_registered() {
        let Some(mut device) = Device::over_tcp() else {
            return;
        };
        let mut memory = vec![0_u8; 4096];
        // SAFETY: the memory lasts longer than the registration.
        let made = unsafe { device.register(memory.as_mut_ptr(), memory.len(), FI_READ) };
        let made = made.expect("memory");
        assert_eq!(device.registered.len(), 1);
        device.forget(made);
        device.forget(made);
        assert!(device.registered.is_empty());
    }
}
