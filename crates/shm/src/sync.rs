//! The seam for atomics: real ones, or loom's under `--cfg loom`.

#[cfg(loom)]
pub mod modelled;

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use modelled::{heavy_fence, light_fence};

/// A full barrier, but only against the [`heavy_fence`] of another thread or process, if this
/// process is registered for those.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn light_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A full barrier here, and on each processor that runs a thread of a registered process. False:
/// the kernel refuses it.
#[cfg(not(loom))]
pub(crate) fn heavy_fence() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}
