//! Whether this thread runs a function of an owner, which calls back what it must not.

use core::cell::Cell;

use limic_ofi_abi::errno::FI_EBUSY;

use crate::domain::Domain;

std::thread_local! {
    /// The domain of the endpoint within whose turn this thread asks an owner.
    static ASKING: Cell<*const Domain> = const { Cell::new(core::ptr::null()) };
}

/// While it lives, this thread runs functions of an owner.
#[must_use]
pub(crate) struct Asking {
    /// An owner may have called about another domain.
    before: *const Domain,
}

impl Asking {
    pub(crate) fn within(domain: &Domain) -> Self {
        let before = ASKING.replace(domain);
        Self { before }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.set(self.before);
    }
}

/// Refuses a call of an owner from within what this thread asks it.
pub(crate) fn not_asking(domain: &Domain) -> Result<(), i32> {
    if core::ptr::eq(ASKING.get(), domain) {
        return Err(FI_EBUSY);
    }
    Ok(())
}
