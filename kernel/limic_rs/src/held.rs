// SPDX-License-Identifier: GPL-2.0

//! What an exposure or a request holds: pinned memory, of its own or kept for longer, behind a gate
//! and perhaps a latch.

use crate::gate::Gate;
use crate::latch::Latch;
use crate::pinned::{Pinned, Position};
use kernel::sync::Arc;

/// Whose pins they are.
pub(crate) enum Pins {
    /// Of one exposure or request alone.
    Own(Pinned),
    /// Perhaps also of a session that keeps them (`kept.rs`), and of others that use them.
    Kept(Arc<Pinned>),
}

impl core::ops::Deref for Pins {
    type Target = Pinned;

    fn deref(&self) -> &Pinned {
        match self {
            Self::Own(pinned) => pinned,
            Self::Kept(pinned) => pinned,
        }
    }
}

/// What goes as soon as the gate is shut, whoever still knows of it.
struct Memory {
    pins: Pins,
    /// In front of an exposure that its owner opens and shuts.
    latch: Option<Latch>,
}

/// Pinned memory and its gate: what peers copy from and to.
///
/// A peer that copies has a reference to it for as long as its own page faults take, but to the
/// pins only inside of the gate. So they go when the owner shuts it, and not when the peer likes.
///
/// # Invariants
/// `skip` and `len` name bytes that the pins have.
pub(crate) struct Held {
    skip: u64,
    len: u64,
    gate: Gate<Memory>,
}

impl Held {
    /// All of it.
    pub(crate) fn new(pins: Pins) -> Self {
        let len = pins.len();
        Self::part(pins, 0, len)
    }

    /// `len` bytes from `skip` on, or fewer if there are not so many.
    pub(crate) fn part(pins: Pins, skip: u64, len: u64) -> Self {
        let skip = skip.min(pins.len());
        // INVARIANT: cut to what there is.
        let len = len.min(pins.len() - skip);
        Self {
            skip,
            len,
            gate: Gate::open(Memory { pins, latch: None }),
        }
    }

    /// The same behind a latch.
    pub(crate) fn behind(mut self, latch: Option<Latch>) -> Self {
        if let Some(memory) = self.gate.get_mut() {
            memory.latch = latch;
        }
        self
    }

    /// Names the exposure that its latch is in front of. False if it has none, or that was struck
    /// already, or the gate is shut.
    pub(crate) fn name(&self, handle: u64) -> bool {
        let inside = self.gate.enter();
        let latch = inside.as_ref().and_then(|memory| memory.latch.as_ref());
        latch.is_some_and(|latch| latch.name(handle))
    }

    /// Goes in for one burst, at the bytes from `offset` on. `None` if the gate or the latch is
    /// shut.
    ///
    /// `burst` must not sleep: the owner waits for it.
    pub(crate) fn enter<R>(&self, offset: u64, burst: impl FnOnce(Position<'_>) -> R) -> Option<R> {
        let memory = self.gate.enter()?;
        let _latch = match &memory.latch {
            Some(latch) => Some(latch.enter()?),
            None => None,
        };
        Some(burst(memory.pins.seek(self.skip + offset)))
    }

    /// Ends all access for good. When it returns, nobody touches the bytes any more, and pins and
    /// latch are free, unless another thread is just ending it. May sleep.
    pub(crate) fn shut(&self) {
        drop(self.gate.shut());
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}
