// SPDX-License-Identifier: GPL-2.0

//! Pin descriptors from a pool that is filled when the module is loaded.
//!
//! One shard per few CPUs, so that a message takes and returns a descriptor without meeting the
//! other CPUs. An empty shard is no error: the descriptor is then allocated.

use crate::counters::COUNTERS;
use crate::ffi;
use crate::pinned::Run;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed};
use kernel::{new_spinlock, sync::SpinLock};

const SHARDS: usize = 8;
/// Runs in one descriptor: with them it fills a page.
pub(crate) const RUNS: usize = 4096 / size_of::<Run>();

type Block = [Run; RUNS];

#[pin_data]
struct Shard {
    #[pin]
    blocks: SpinLock<KVec<KBox<Block>>>,
}

type Shards = KVec<Pin<KBox<Shard>>>;

/// The shards, once [`fill`] has made them.
///
/// # Invariants
/// Null, or from `KBox::into_raw`. It is set before the device can be opened, and [`drain`] runs
/// when no file is open any more, and so no descriptor is in use; nobody else changes it.
static POOL: Atomic<*mut Shards> = Atomic::new(core::ptr::null_mut());

fn shard() -> Option<&'static Shard> {
    // Acquire: pairs with the full order of the store in `fill`.
    let shards = POOL.load(Acquire);
    // SAFETY: by the invariant it is null or points to shards that live as long as descriptors are
    // in use.
    let shards = unsafe { shards.as_ref() }?;
    shards.get(ffi::cpu() % SHARDS).map(|shard| &**shard)
}

fn new_block(flags: kernel::alloc::Flags) -> Result<KBox<Block>> {
    Ok(KBox::new([Run::EMPTY; RUNS], flags)?)
}

/// The pool, which goes with it.
pub(crate) struct Pool(());

impl Pool {
    /// Makes the pool. There is only one at a time.
    pub(crate) fn new(descriptors: usize) -> Result<Self> {
        fill(descriptors)?;
        Ok(Self(()))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drain();
    }
}

fn fill(descriptors: usize) -> Result {
    let each = descriptors.div_ceil(SHARDS);
    let mut shards = KVec::with_capacity(SHARDS, GFP_KERNEL)?;
    for _ in 0..SHARDS {
        // Twice the number, since descriptors may come back on another CPU than they were taken on.
        let mut blocks = KVec::with_capacity(2 * each, GFP_KERNEL)?;
        for _ in 0..each {
            blocks.push(new_block(GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let shard = KBox::pin_init(
            pin_init!(Shard { blocks <- new_spinlock!(blocks, "limic_pool") }),
            GFP_KERNEL,
        )?;
        shards.push(shard, GFP_KERNEL)?;
    }
    let shards = KBox::into_raw(KBox::new(shards, GFP_KERNEL)?);
    // INVARIANT: from `into_raw`.
    POOL.xchg(shards, Full);
    Ok(())
}

fn drain() {
    let shards = POOL.xchg(core::ptr::null_mut(), Full);
    if !shards.is_null() {
        // SAFETY: from `KBox::into_raw` by the invariant, and nobody has it any more.
        drop(unsafe { KBox::from_raw(shards) });
    }
}

/// A descriptor; goes back to the pool when dropped.
pub(crate) struct Descriptor(Option<KBox<Block>>);

impl Descriptor {
    pub(crate) fn take() -> Result<Self> {
        let pooled = shard().and_then(|shard| shard.blocks.lock().pop());
        if pooled.is_some() {
            return Ok(Self(pooled));
        }
        COUNTERS.pool_empty.add(1, Relaxed);
        Ok(Self(Some(new_block(GFP_KERNEL_ACCOUNT)?)))
    }

    pub(crate) fn runs(&self) -> &[Run] {
        self.0.as_ref().map_or(&[], |block| &block[..])
    }

    pub(crate) fn runs_mut(&mut self) -> &mut [Run] {
        self.0.as_mut().map_or(&mut [], |block| &mut block[..])
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let (Some(shard), Some(block)) = (shard(), self.0.take()) else {
            return;
        };
        // A shard that is full gives the block back, and it is freed here, outside of the lock.
        let surplus = shard.blocks.lock().push_within_capacity(block);
        drop(surplus);
    }
}
