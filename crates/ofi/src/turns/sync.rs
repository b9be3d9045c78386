//! Real atomics, locks and fences; and the process.

pub(super) use core::sync::atomic::{AtomicBool, Ordering};
pub(super) use std::sync::{Mutex, MutexGuard};

pub(super) use limic_shm::process::Process;
pub(super) use rustix::thread::sched_yield as yield_now;
use rustix::thread::{MembarrierCommand, membarrier};

pub(super) use crate::ffi_guard::leave;

/// Whether there is a heavy fence, from now on.
pub(super) fn has_heavy_fence() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// A full barrier against the heavy fence of another thread alone.
#[inline(always)]
pub(super) fn light_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A full barrier on each processor that runs a thread of this process.
pub(super) fn heavy_fence() {
    // Cannot fail: it was registered when the domain was opened.
    let _ = membarrier(MembarrierCommand::PrivateExpedited);
}
