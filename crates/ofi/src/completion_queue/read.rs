//! Completions are read: at once, or waited for.

use core::ffi::{c_int, c_void};

use super::{Completion, Queue};
use crate::endpoint::Endpoint;
use limic_ofi_abi::entries::{fi_cq_err_entry, fi_cq_tagged_entry};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Why nothing was read.
pub(super) enum Miss {
    Error(i32),
    /// Nothing is there; and whether it is time to give way to others.
    Empty(bool),
}

impl Miss {
    /// Gives way if it is time to. Not in a turn, for which other threads would wait.
    #[inline(always)]
    fn outside(self) -> i32 {
        match self {
            Self::Error(errno) => errno,
            Self::Empty(gives_way) => {
                if gives_way {
                    rustix::thread::sched_yield();
                }
                FI_EAGAIN
            }
        }
    }
}

/// Writes the beginning of a completion. Apart, so that a whole one goes through registers.
///
/// # Safety
/// There is room for `len` bytes, of which an entry has no less.
#[inline(never)]
unsafe fn put_part(completion: &Completion, entry: *mut u8, len: usize) {
    let whole = completion.entry();
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping((&raw const whole).cast(), entry, len) }
}

impl Queue {
    /// [`read`](Self::read) in a turn of its own.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    #[inline(always)]
    pub(super) unsafe fn read_now(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
    ) -> Result<usize, i32> {
        let turn = self.turns.data();
        // SAFETY: the caller's promise.
        let read = unsafe { self.read(buffer, count, sources) };
        match read {
            Ok(count) => Ok(count),
            Err(miss) => {
                turn.found_nothing();
                drop(turn);
                Err(miss.outside())
            }
        }
    }

    /// Reads up to `count` completions into the application's buffer.
    ///
    /// # Safety
    /// There is room for them at `buffer`, and for as many addresses at `sources` unless that is
    /// null.
    #[inline(always)]
    unsafe fn read(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
    ) -> Result<usize, Miss> {
        if !self.has_any() {
            self.progress();
            if !self.has_any() {
                self.look_longer();
            }
        }
        let mut done = 0;
        while done < count {
            // SAFETY: nothing below changes the list before the oldest one is dropped.
            let Some(oldest) = (unsafe { self.list.oldest() }) else {
                break;
            };
            if oldest.has_failed() {
                if done == 0 {
                    return Err(Miss::Error(FI_EAVAIL));
                }
                break;
            }
            // SAFETY: the caller promised room; there is an oldest one.
            unsafe {
                if !sources.is_null() {
                    *sources.add(done) = self.source_of(oldest);
                }
                self.write_entry(oldest, buffer.cast::<u8>().add(done * self.entry));
                self.list.drop_oldest();
            }
            done += 1;
        }
        if done > 0 {
            self.idle.reset();
            return Ok(done);
        }
        if count == 0 && self.has_any() {
            return self.look();
        }
        Err(Miss::Empty(self.gives_way()))
    }

    /// A read without room, while completions wait: it makes progress, and tells of a failed
    /// operation.
    #[cold]
    fn look(&self) -> Result<usize, Miss> {
        self.progress();
        if self.list.get(0).is_some_and(|oldest| oldest.has_failed()) {
            return Err(Miss::Error(FI_EAVAIL));
        }
        Ok(0)
    }

    /// Writes a completion in the application's format, which is the beginning of the longest one.
    ///
    /// # Safety
    /// There is room for an entry.
    #[inline(always)]
    unsafe fn write_entry(&self, completion: &Completion, entry: *mut u8) {
        const WHOLE: usize = size_of::<fi_cq_tagged_entry>();
        // SAFETY: the caller's promise.
        unsafe {
            match self.entry {
                WHOLE => entry
                    .cast::<fi_cq_tagged_entry>()
                    .write_unaligned(completion.entry()),
                len => put_part(completion, entry, len),
            }
        }
    }

    /// Who sent a message, or wrote with data, if an address vector names it.
    pub(super) fn source_of(&self, completion: &Completion) -> fi_addr_t {
        let Some(peer) = completion.source() else {
            return FI_ADDR_NOTAVAIL;
        };
        let address = |endpoint: &Endpoint| endpoint.address_of(peer);
        let source = self.bound.at(completion.endpoint(), address);
        source.unwrap_or(FI_ADDR_NOTAVAIL)
    }

    /// # Safety
    /// As [`read`](Self::read).
    pub(super) unsafe fn read_waiting(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
        condition: *const c_void,
        timeout: c_int,
    ) -> Result<usize, i32> {
        if self.bound.kind() == FI_WAIT_NONE {
            return Err(FI_ENOSYS);
        }
        // A hint only: what is there by the deadline is given. It is the number itself, not where
        // one stands.
        let wanted = if self.threshold {
            condition.addr().clamp(1, count.max(1))
        } else {
            1
        };
        let since = {
            let _turn = self.turns.data();
            self.signals.begin()
        };
        // SAFETY: the caller's promise.
        let read = unsafe { self.read_until(buffer, count, sources, wanted, timeout, since) };
        let _turn = self.turns.data();
        self.signals.end(since);
        read
    }

    /// Waits for that many completions, a failed one, a signal, or the end of the time (ms,
    /// negative for none).
    ///
    /// # Safety
    /// As [`read`](Self::read).
    unsafe fn read_until(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
        wanted: usize,
        timeout: c_int,
        since: u32,
    ) -> Result<usize, i32> {
        let look = |over| {
            self.progress();
            if self.length(wanted) >= wanted || (over && self.has_any()) {
                // SAFETY: the caller's promise.
                return Some(unsafe { self.read(buffer, count, sources) });
            }
            (self.signals.heard(since) || over).then_some(Err(Miss::Error(FI_EAGAIN)))
        };
        // The descriptor tells of the first completion.
        let bound = &self.bound;
        let on_descriptor = bound.has_descriptor() && wanted == 1;
        let may_sleep = || on_descriptor.then(|| self.may_sleep());
        let read = bound.wait("fi_cq_sread", &self.turns, timeout, look, may_sleep);
        read.map_err(Miss::outside)
    }

    /// Completions in the list, counted up to a limit; a failed one counts as enough.
    fn length(&self, limit: usize) -> usize {
        let mut first = (0..limit).map_while(|at| self.list.get(at));
        if first.any(|one| one.has_failed()) {
            return limit;
        }
        self.list.len().min(limit)
    }

    /// Reads the oldest completion, which is one of a failed operation.
    ///
    /// # Safety
    /// There is room for an entry, of which only later versions of the interface have the last
    /// fields.
    pub(super) unsafe fn read_error(&self, entry: *mut fi_cq_err_entry) -> Result<usize, i32> {
        let oldest = self.list.get(0).filter(Completion::has_failed);
        let failed = oldest.ok_or(FI_EAGAIN)?.error();
        let api = self.domain.fabric.api;
        // SAFETY: the caller's promise.
        unsafe {
            (*entry).op_context = failed.op_context;
            (*entry).flags = failed.flags;
            (*entry).len = failed.len;
            (*entry).buf = failed.buf;
            (*entry).data = failed.data;
            (*entry).tag = failed.tag;
            (*entry).olen = failed.olen;
            (*entry).err = failed.err;
            (*entry).prov_errno = failed.prov_errno;
            if api < fi_version(1, 5) {
                (*entry).err_data = core::ptr::null_mut();
            } else {
                // Room for such data stays the application's; there is none.
                (*entry).err_data_size = 0;
            }
        }
        // SAFETY: there is one.
        unsafe { self.list.drop_oldest() };
        Ok(1)
    }
}
