//! Protection domains: what belongs together.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;

use super::device::Context;
use crate::VerbsError;
use crate::error::leaked;

/// A protection domain: queue pairs, memory regions and queues of one domain may be used together.
#[derive(Debug)]
pub struct ProtectionDomain {
    raw: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: libibverbs allows every call on a domain from any thread.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new domain.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: an open context, which the domain keeps open.
        let raw = unsafe { sys::ibv_alloc_pd(context.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_alloc_pd"))?;
        Ok(Arc::new(Self {
            raw,
            context: Arc::clone(context),
        }))
    }

    /// The device that it is on.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once, after all that holds a reference to it.
        let returned = unsafe { sys::ibv_dealloc_pd(self.raw()) };
        if returned != 0 {
            leaked("ibv_dealloc_pd", returned);
        }
    }
}
