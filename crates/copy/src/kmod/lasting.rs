//! Exposures that last: buffers that are sent from again and again stay exposed to their receiver,
//! behind a latch that is open only while a message is under way. So a message costs its sender no
//! call.

use core::ops::Range;
use std::sync::Arc;

use super::abi::{self, LATCHES};
use super::engine::KmodPair;
use super::session::Session;
use crate::{Access, CopyError, LocalSlice, RefusalReason};

/// A buffer and its receiver are looked for in so many latches.
const WAYS: usize = 4;

/// A buffer that is exposed to a peer.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    base: usize,
    len: usize,
    /// The receiver's session.
    peer: u64,
    /// The clock when it was last used; 0 if there is nothing.
    used: u64,
}

/// The buffers of one session that stay exposed: at most 64, and at most as much memory as the
/// module's parameter `kept` and RLIMIT_MEMLOCK allow; those that were not used for longest make
/// way.
///
/// A message is what the exposure is: the same bytes, to the same peer. So a peer reaches what is
/// sent to it, and while it is, and nothing else.
#[derive(Debug)]
pub struct Lasting {
    session: Arc<Session>,
    entries: [Entry; LATCHES],
    clock: u64,
}

/// A message whose bytes the peer may read until this is dropped.
#[derive(Debug)]
pub struct Opened {
    session: Arc<Session>,
    index: usize,
    handle: u64,
}

impl Lasting {
    /// `None` if the module has no latches, or there is one of this session already.
    pub(crate) fn new(session: &Arc<Session>) -> Option<Self> {
        let latches = session.latches.as_ref()?;
        latches.lend().then(|| Self::of(session))
    }

    fn of(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::clone(session),
            entries: [Entry::default(); LATCHES],
            clock: 0,
        }
    }

    /// Lets the pair's peer read a buffer, without a call if it came before. `None`: it has to be
    /// exposed for this message alone, since other buffers are under way in all latches that it may
    /// take, or its memory is being changed or cannot be pinned.
    ///
    /// # Safety
    /// The buffer is readable until the result is dropped. Afterwards it may be anything, also
    /// unmapped.
    pub unsafe fn open(&mut self, pair: &KmodPair, local: LocalSlice) -> Option<Opened> {
        let latches = self.session.latches.as_ref()?;
        let wanted = Entry {
            base: local.pointer().addr(),
            len: local.len(),
            peer: pair.peer(),
            used: self.clock + 1,
        };
        self.clock += 1;
        let ways = ways(&wanted);
        for (entry, index) in self.entries[ways.clone()].iter_mut().zip(ways.clone()) {
            // 0 where another thread has ended the exposure to make room. It strikes the latch
            // first, so one that opens still has the exposure that was looked up before.
            let handle = latches.handle(index);
            if entry.is_of(&wanted) && handle != 0 && latches.open(index) {
                entry.used = wanted.used;
                return Some(self.opened(index, handle));
            }
        }
        let free = ways.filter(|&index| latches.is_shut(index));
        let index = free.min_by_key(|&index| match latches.is_struck(index) {
            true => 0,
            false => self.entries[index].used,
        })?;
        self.session.empty(index);
        self.entries[index] = Entry::default();
        // SAFETY: the caller's promise: readable while the latch is open, which is while the result
        // lives. The exposure lasts longer, but behind a latch that is shut then.
        let handle = match unsafe { pair.expose_behind(local, index) } {
            Err(error) if needs_room(&error) && self.make_room(wanted.len) => {
                // SAFETY: as above.
                unsafe { pair.expose_behind(local, index) }
            }
            result => result,
        };
        let handle = handle.ok()?;
        let latches = self.session.latches.as_ref()?;
        latches.put(index, handle);
        self.entries[index] = wanted;
        latches.open(index).then(|| self.opened(index, handle))
    }

    fn opened(&self, index: usize, handle: u64) -> Opened {
        Opened {
            session: Arc::clone(&self.session),
            index,
            handle,
        }
    }

    /// Ends exposures of so many bytes, those first that were not used for longest. False if there
    /// are not so many.
    fn make_room(&mut self, bytes: usize) -> bool {
        let Some(latches) = &self.session.latches else {
            return false;
        };
        let shut = |index: &usize| latches.is_shut(*index);
        let all: usize = (0..LATCHES)
            .filter(shut)
            .map(|index| self.entries[index].len)
            .sum();
        if all < bytes {
            return false;
        }
        let mut left = bytes;
        while left > 0 {
            let held = (0..LATCHES).filter(|&index| self.entries[index].used > 0);
            let Some(index) = held.filter(shut).min_by_key(|&i| self.entries[i].used) else {
                break;
            };
            self.session.empty(index);
            left = left.saturating_sub(self.entries[index].len);
            self.entries[index] = Entry::default();
        }
        true
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        // What stays exposed is known to the latches, and makes way for what the next one exposes.
        if let Some(latches) = &self.session.latches {
            latches.give_back();
        }
    }
}

impl Entry {
    fn is_of(&self, other: &Self) -> bool {
        (self.base, self.len, self.peer) == (other.base, other.len, other.peer) && self.used > 0
    }
}

/// The latches that a buffer may take.
fn ways(entry: &Entry) -> Range<usize> {
    // Fibonacci hashing: the top bits of the product depend on all of them.
    let key = entry.base as u64 ^ (entry.len as u64).rotate_left(40) ^ entry.peer;
    let set = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - (LATCHES / WAYS).trailing_zeros());
    let first = set as usize * WAYS;
    first..first + WAYS
}

/// Whether less pinned memory would help.
fn needs_room(error: &CopyError) -> bool {
    match error {
        CopyError::Refused(refused) => refused.reason == RefusalReason::LockedMemory,
        error => *error == CopyError::Other(libc::ENOSPC),
    }
}

impl Opened {
    /// What names the bytes to the peer.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.handle
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(latches) = &self.session.latches else {
            return;
        };
        if !latches.shut(self.index) {
            // A peer that still copies is waited for here, and what has changed is let go.
            self.session.empty(self.index);
        }
    }
}

impl KmodPair {
    /// Exposes a buffer behind a latch, for reading.
    ///
    /// # Safety
    /// The buffer is readable whenever the latch is open.
    unsafe fn expose_behind(&self, local: LocalSlice, index: usize) -> Result<u64, CopyError> {
        // SAFETY: the caller's promise, passed on.
        let range = unsafe { self.expose_at(&[local], Access::Read, abi::EXPOSE_LATCH, index) }?;
        Ok(range.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another thread that needs room ends exposures, and leaves the entries that name them.
    #[test]
    fn a_message_is_never_given_the_handle_of_no_exposure() {
        let session = Arc::new(Session::over_a_file());
        let (pair, _) = KmodPair::with_group(&session);
        let latches = session.latches.as_ref().expect("latches");
        let mut lasting = Lasting::new(&session).expect("latches");
        let buffer = [0_u8; 4096];
        let local = LocalSlice::new(buffer.as_ptr(), buffer.len());
        let entry = Entry {
            base: buffer.as_ptr().addr(),
            len: buffer.len(),
            peer: 0,
            used: 1,
        };
        let index = ways(&entry).start;
        for handle in [7, 0] {
            lasting.entries[index] = entry;
            latches.put(index, handle);
            // SAFETY: nobody reaches the buffer: there is no module.
            let opened = unsafe { lasting.open(&pair, local) };
            let found = opened.as_ref().map(Opened::handle);
            assert_eq!(found, (handle != 0).then_some(handle));
        }
    }
}
