//! The objects of an endpoint of libfabric are opened, and closed.

use core::ffi::c_int;
use core::mem::{ManuallyDrop, zeroed};
use core::ptr::null_mut;
use std::collections::HashSet;

use limic_ofi_abi::entries::{fi_av_attr, fi_cq_attr};
use limic_ofi_abi::{
    FI_AV_TABLE, FI_AV_UNSPEC, FI_CQ_FORMAT_MSG, FI_MR_ENDPOINT, FI_RECV, FI_SEND, FI_WAIT_FD,
    FI_WAIT_NONE, command, fid,
};

use super::{Device, Looked, ROOM};
use crate::library::Functions;
use crate::provider::{Info, nothing, part_of};
use crate::settings::{OfiError, OfiSettings};

/// Looks at the queue of an endpoint that is to be closed, at most: peers may go on sending.
const LOOKS: u32 = 1 << 12;

impl Device {
    /// Opens an endpoint of the first provider that serves and can be opened.
    ///
    /// # Errors
    /// Says what is in the way, of the first one.
    pub(crate) fn open(settings: &OfiSettings) -> Result<Self, OfiError> {
        let functions = Functions::load().map_err(OfiError::Nothing)?;
        let mut failed = None;
        for info in Info::all(functions, settings)? {
            match Self::open_one(functions, info) {
                Ok(device) => return Ok(device),
                Err(why) => {
                    tracing::debug!("not used: {why}");
                    failed.get_or_insert(why);
                }
            }
        }
        Err(failed.map_or_else(|| nothing(settings.provider.as_deref()), OfiError::Failed))
    }

    fn open_one(functions: Functions, info: Info) -> Result<Self, String> {
        // What it is called is known when it is open.
        let part = part_of(0, &[1]).ok_or("no place")?;
        let mut device = Self {
            kind: info.kind(),
            functions,
            info,
            fabric: null_mut(),
            domain: null_mut(),
            vector: null_mut(),
            queue: null_mut(),
            events: null_mut(),
            endpoint: null_mut(),
            wait: None,
            name_len: 0,
            part,
            registered: HashSet::new(),
            pool: ManuallyDrop::default(),
        };
        let provider = device.info.provider();
        device
            .open_all()
            .map_err(|why| format!("{provider} of libfabric: {why}"))?;
        Ok(device)
    }

    fn checked(&self, what: &str, result: c_int) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        Err(format!(
            "{what}: {}",
            self.functions.text(result.saturating_neg())
        ))
    }

    fn open_all(&mut self) -> Result<(), String> {
        let info = self.info.as_ptr();
        // SAFETY: objects are opened one within the other, each of them there when it is used, and
        // attributes are whole.
        unsafe {
            let fabric =
                (self.functions.fabric)((*info).fabric_attr, &raw mut self.fabric, null_mut());
            self.checked("fi_fabric", fabric)?;
            let open = (*(*self.fabric).ops).domain;
            let domain = open(self.fabric, info, &raw mut self.domain, null_mut());
            self.checked("fi_domain", domain)?;
            let domain = (*self.domain).ops;
            let vector = match (*(*info).domain_attr).av_type {
                FI_AV_UNSPEC => FI_AV_TABLE,
                fixed => fixed,
            };
            let mut attributes: fi_av_attr = zeroed();
            attributes.r#type = vector;
            let (attributes, vector) = (&raw mut attributes, &raw mut self.vector);
            let vector = ((*domain).av_open)(self.domain, attributes, vector, null_mut());
            self.checked("fi_av_open", vector)?;
            self.open_queue()?;
            let endpoint = &raw mut self.endpoint;
            let endpoint = ((*domain).endpoint)(self.domain, info, endpoint, null_mut());
            self.checked("fi_endpoint", endpoint)?;
            let own = &raw mut (*self.endpoint).fid;
            let ops = (*own).ops;
            let vector = ((*ops).bind)(own, &raw mut (*self.vector).fid, 0);
            self.checked("fi_ep_bind", vector)?;
            let queue = ((*ops).bind)(own, &raw mut (*self.queue).fid, FI_SEND | FI_RECV);
            self.checked("fi_ep_bind", queue)?;
            self.listen();
            let enabled = ((*ops).control)(own, command::ENABLE, null_mut());
            let enabled = self.checked("fi_enable", enabled);
            enabled.map_err(|why| why + remedy(&self.info.provider()))?;
            let mut name = [0_u8; 256];
            let mut len = name.len();
            let getname = (*(*self.endpoint).cm).getname;
            let named = getname(own, name.as_mut_ptr().cast(), &raw mut len);
            self.checked("fi_getname", named)?;
            self.name_len = len;
            let name = name.get(..len).unwrap_or_default();
            self.part = part_of(self.kind, name)
                .ok_or_else(|| format!("its addresses of {len} bytes are longer than 31"))?;
        }
        Ok(())
    }

    /// A queue with a descriptor to sleep on, where there are any.
    ///
    /// # Safety
    /// The domain is open.
    unsafe fn open_queue(&mut self) -> Result<(), String> {
        // SAFETY: the caller's promise; a descriptor is an int.
        unsafe {
            let mut attributes: fi_cq_attr = zeroed();
            attributes.format = FI_CQ_FORMAT_MSG;
            attributes.wait_obj = FI_WAIT_FD;
            let open = (*(*self.domain).ops).cq_open;
            let with = &raw mut attributes;
            if open(self.domain, with, &raw mut self.queue, null_mut()) == 0 {
                let own = &raw mut (*self.queue).fid;
                let mut descriptor: c_int = -1;
                let into = (&raw mut descriptor).cast();
                let got = ((*(*own).ops).control)(own, command::GETWAIT, into);
                self.wait = (got == 0 && descriptor >= 0).then_some(descriptor);
                return Ok(());
            }
            (*with).wait_obj = FI_WAIT_NONE;
            let queue = open(self.domain, with, &raw mut self.queue, null_mut());
            self.checked("fi_cq_open", queue)
        }
    }
}

/// What to do where an endpoint of a provider cannot be enabled. Over verbs, `ofi_rxm` asks the
/// adapter for completions of all peers that there may be, and nothing but the environment changes
/// that.
fn remedy(provider: &str) -> &'static str {
    let has = |wanted| provider.split(';').any(|part| part == wanted);
    match has("ofi_rxm") && has("verbs") {
        true => {
            " (ofi_rxm asks the adapter for 256 completions for each of FI_UNIVERSE_SIZE peers \
             (1024 unless set): set it to the number of ranks times the endpoints of each, in all \
             of them; if that is too many still, set FI_OFI_RXM_MSG_TX_SIZE and \
             FI_OFI_RXM_MSG_RX_SIZE to less than 128)"
        }
        false => "",
    }
}

/// Closes an object, if it is there. False: it stays.
///
/// # Safety
/// It is open or null, and used no more.
pub(super) unsafe fn close<T>(object: *mut T) -> bool {
    let object: *mut fid = object.cast();
    // SAFETY: the caller's promise; each object begins with its head.
    object.is_null() || unsafe { ((*(*object).ops).close)(object) == 0 }
}

impl Device {
    /// Ends all that the endpoint does: nothing of it touches memory afterwards. False: it stays.
    pub(crate) fn close_endpoint(&mut self) -> bool {
        // An endpoint that memory is bound to stays open for it.
        if self.info.memory_mode() & FI_MR_ENDPOINT != 0 {
            self.close_registrations();
        }
        // Its name is known since it was enabled: `ofi_rxm` has nothing to read before.
        if self.name_len > 0 {
            self.empty_queue();
        }
        // SAFETY: open or null, and not used any more.
        let closed = unsafe { close(self.endpoint) };
        if closed {
            self.endpoint = null_mut();
            self.close_queues();
        }
        closed
    }

    /// What has come is taken off the queue. `ofi_rxm` over verbs takes it off while it closes a
    /// connection, and then gives the room of packets back to what is closed already: 1.17 ends the
    /// process by that.
    fn empty_queue(&mut self) {
        let mut ended = ROOM;
        for _ in 0..LOOKS {
            if let Looked::Nothing | Looked::Broken(_) = self.look(&mut ended) {
                return;
            }
        }
    }

    /// The queue of an endpoint that is closed goes too, so that it wakes nobody any more. To empty
    /// it does not serve: that of `ofi_rxm` in 1.17 still knows the endpoint, and `fi_trywait`
    /// takes it for one that is there.
    fn close_queues(&mut self) {
        // SAFETY: open or null, and not used any more; what they were bound to is closed.
        unsafe {
            if close(self.queue) {
                self.queue = null_mut();
            }
            if close(self.events) {
                self.events = null_mut();
            }
        }
        self.wait = None;
    }

    fn close_registrations(&mut self) -> bool {
        // SAFETY: each is open, and not used any more.
        self.registered.retain(|one| unsafe { !close(*one) });
        self.registered.is_empty()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // In the order in which one needs the other. The pool goes last, and stays if an endpoint
        // stays that may write there.
        if !self.close_endpoint() {
            return;
        }
        // SAFETY: not used any more.
        unsafe {
            let mut all = self.queue.is_null() && self.events.is_null();
            all &= close(self.vector);
            all &= self.close_registrations();
            if all && close(self.domain) {
                close(self.fabric);
                ManuallyDrop::drop(&mut self.pool);
            }
        }
    }
}

#[cfg(test)]
impl Device {
    /// One that any libfabric has. `None`: the test cannot run, which is told.
    pub(super) fn over_tcp() -> Option<Self> {
        let settings = OfiSettings {
            provider: Some("tcp".to_owned()),
            ..OfiSettings::default()
        };
        let device = Self::open(&settings).ok();
        if device.is_none() {
            println!("SKIPPED: no libfabric");
        }
        device
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_remedy_is_for_verbs_alone() {
        assert!(super::remedy("verbs;ofi_rxm").contains("FI_UNIVERSE_SIZE"));
        assert_eq!(super::remedy("tcp;ofi_rxm"), "");
    }
}
