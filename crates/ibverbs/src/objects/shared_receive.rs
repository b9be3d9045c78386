//! Shared receive queues: one pool of receives for all connections, so that their memory does
//! not grow with the number of peers.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;

use super::domain::ProtectionDomain;
use super::pair_calls::post_receive;
use super::work::LocalSlice;
use crate::VerbsError;
use crate::error::leaked;

/// Where a queue pair takes its receives from.
#[derive(Clone, Copy, Debug)]
pub enum ReceiveQueue<'a> {
    /// The queue that it shares with others.
    Shared(&'a Arc<SharedReceiveQueue>),
    /// A queue of its own with so many entries.
    Own(u32),
}

/// A shared receive queue.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    raw: NonNull<sys::ibv_srq>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs allows every call on a shared receive queue from any thread.
unsafe impl Send for SharedReceiveQueue {}
// SAFETY: as above.
unsafe impl Sync for SharedReceiveQueue {}

impl SharedReceiveQueue {
    /// A queue for `entries` receives of one slice each.
    ///
    /// # Errors
    /// [`VerbsError::Limit`] (0 where the device has none), [`VerbsError::Call`].
    pub fn new(domain: &Arc<ProtectionDomain>, entries: u32) -> Result<Arc<Self>, VerbsError> {
        let context = domain.context();
        let most = context.limits().shared_receives;
        if entries > most {
            return Err(VerbsError::Limit {
                device: context.name().to_owned(),
                what: "entries of a shared receive queue",
                wanted: entries.into(),
                most: most.into(),
            });
        }
        let mut attr = sys::ibv_srq_init_attr {
            srq_context: std::ptr::null_mut(),
            attr: sys::ibv_srq_attr {
                max_wr: entries,
                max_sge: 1,
                srq_limit: 0,
            },
        };
        // SAFETY: a live domain, which the queue keeps alive.
        let raw = unsafe { sys::ibv_create_srq(domain.raw(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_create_srq"))?;
        Ok(Arc::new(Self {
            raw,
            _domain: Arc::clone(domain),
        }))
    }

    /// Adds a receive.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the queue is full.
    ///
    /// # Safety
    /// The slice's memory stays registered and is left alone until the receive completes, or until
    /// every queue pair on this queue is destroyed.
    pub unsafe fn post(&self, id: u64, slice: LocalSlice) -> Result<(), VerbsError> {
        post_receive("ibv_post_srq_recv", id, slice, |work, bad| {
            // SAFETY: a live queue; the request and its list live during the call.
            unsafe { sys::ibv_post_srq_recv(self.raw.as_ptr(), work, bad) }
        })
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_srq {
        self.raw.as_ptr()
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, after the queue pairs that hold a reference to it.
        let returned = unsafe { sys::ibv_destroy_srq(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_destroy_srq", returned);
        }
    }
}
