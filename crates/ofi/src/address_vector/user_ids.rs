//! Names that the application chooses for addresses (`FI_AV_USER_ID`).

use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::HashMap;

use super::AddressVector;
use crate::{ffi_guard, object};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::fid_av;
use limic_ofi_abi::*;

/// What the application calls each position, where it chooses that itself.
#[derive(Default)]
pub(super) struct UserIds {
    chosen: RefCell<HashMap<fi_addr_t, fi_addr_t>>,
    /// The vector was opened with the flag: a position has no name before it is given one.
    pub(super) are_for_all: bool,
}

impl UserIds {
    pub(super) fn of_vector(flags: u64) -> Self {
        Self {
            are_for_all: flags & FI_AV_USER_ID != 0,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, at: fi_addr_t) -> fi_addr_t {
        let own = if self.are_for_all {
            FI_ADDR_NOTAVAIL
        } else {
            at
        };
        self.chosen.borrow().get(&at).copied().unwrap_or(own)
    }

    pub(super) fn set(&self, at: fi_addr_t, user_id: fi_addr_t) {
        self.chosen.borrow_mut().insert(at, user_id);
    }

    pub(super) fn forget(&self, at: fi_addr_t) {
        self.chosen.borrow_mut().remove(&at);
    }
}

/// `fi_av_set_user_id`.
pub(super) unsafe extern "C" fn set_user_id(
    av: *mut fid_av,
    at: fi_addr_t,
    user_id: fi_addr_t,
    flags: u64,
) -> c_int {
    ffi_guard::status(|| {
        // The only flag is for authorization keys, which are not offered.
        if flags != 0 {
            return Err(FI_EBADFLAGS);
        }
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        let _turn = av.domain.enter_alone();
        if !av.user_ids.are_for_all || av.entry(at).is_none() {
            return Err(FI_EINVAL);
        }
        av.domain
            .for_each_endpoint(|endpoint| endpoint.forget_name(av, at));
        av.user_ids.set(at, user_id);
        av.domain
            .for_each_endpoint(|endpoint| endpoint.tell_addresses(av));
        Ok(())
    })
}
