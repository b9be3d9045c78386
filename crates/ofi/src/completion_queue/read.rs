//! Completions are read: at once, or waited for.

use core::ffi::{c_int, c_void};
use std::time::Instant;

use super::Queue;
use crate::node::{Node, context_of, give_back, mark};
use crate::wait::{self, Patience, Told};
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

/// A completion in the longest format.
///
/// # Safety
/// The node is alive.
#[inline(always)]
pub(super) unsafe fn entry_of(node: *mut Node) -> fi_cq_tagged_entry {
    // SAFETY: the caller's promise.
    unsafe {
        fi_cq_tagged_entry {
            op_context: context_of(node),
            flags: (*node).flags & mark::PUBLIC,
            len: (*node).len,
            buf: (*node).buf,
            data: (*node).data,
            tag: (*node).tag,
        }
    }
}

/// The completion of an operation that failed.
///
/// # Safety
/// The node is alive.
pub(super) unsafe fn error_of(node: *mut Node) -> fi_cq_err_entry {
    // SAFETY: the caller's promise.
    unsafe {
        fi_cq_err_entry {
            op_context: context_of(node),
            flags: (*node).flags & mark::PUBLIC,
            len: (*node).len,
            buf: (*node).buf,
            data: (*node).data,
            tag: (*node).tag,
            olen: (*node).rest as usize,
            err: (*node).error,
            prov_errno: (*node).error,
            err_data: core::ptr::null_mut(),
            err_data_size: 0,
        }
    }
}

/// Writes the beginning of a completion. Apart, so that a whole one goes through registers.
///
/// # Safety
/// The node is alive, and there is room for `len` bytes, of which an entry has no less.
#[inline(never)]
unsafe fn put_part(node: *mut Node, entry: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    let whole = unsafe { entry_of(node) };
    // SAFETY: as above.
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
        if self.first.get().is_null() {
            self.progress();
            if self.first.get().is_null() {
                self.look_longer();
            }
        }
        let mut done = 0;
        while done < count {
            let node = self.first.get();
            if node.is_null() {
                break;
            }
            // SAFETY: nodes in the list are alive; the caller promised room.
            unsafe {
                if (*node).flags & mark::FAILED != 0 {
                    if done == 0 {
                        return Err(Miss::Error(FI_EAVAIL));
                    }
                    break;
                }
                if !sources.is_null() {
                    *sources.add(done) = self.source_of(node);
                }
                let entry = buffer.cast::<u8>().add(done * self.entry);
                self.put(node, entry);
                self.pop(node);
                give_back(node);
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
        // SAFETY: nodes in the list are alive, and there is one.
        let flags = unsafe { (*self.first.get()).flags };
        if flags & mark::FAILED != 0 {
            return Err(Miss::Error(FI_EAVAIL));
        }
        Ok(0)
    }

    /// Writes a completion in the application's format, which is the beginning of the longest one.
    ///
    /// # Safety
    /// The node is alive and there is room for an entry.
    #[inline(always)]
    unsafe fn put(&self, node: *mut Node, entry: *mut u8) {
        const WHOLE: usize = size_of::<fi_cq_tagged_entry>();
        // SAFETY: the caller's promise.
        unsafe {
            match self.entry {
                WHOLE => entry
                    .cast::<fi_cq_tagged_entry>()
                    .write_unaligned(entry_of(node)),
                len => put_part(node, entry, len),
            }
        }
    }

    /// Who sent a message, or wrote with data, if an address vector names it.
    ///
    /// # Safety
    /// The node is alive.
    pub(super) unsafe fn source_of(&self, node: *mut Node) -> fi_addr_t {
        // SAFETY: the caller's promise.
        let (flags, peer, number) = unsafe { ((*node).flags, (*node).peer, (*node).endpoint()) };
        if flags & (FI_RECV | FI_REMOTE_WRITE) == 0 {
            return FI_ADDR_NOTAVAIL;
        }
        let source = self.bound.at(number, |endpoint| endpoint.address_of(peer));
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
        let deadline = wait::deadline(timeout);
        let (mut patience, mut told) = (Patience::new(), Told::new());
        // The descriptor tells of the first completion.
        let on_descriptor = self.bound.has_descriptor() && wanted == 1;
        loop {
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            {
                let turn = self.turns.data();
                self.progress();
                if self.length(wanted) >= wanted || (over && self.has_any()) {
                    // SAFETY: the caller's promise.
                    let read = unsafe { self.read(buffer, count, sources) };
                    drop(turn);
                    return read.map_err(Miss::outside);
                }
                if self.signals.heard(since) || over {
                    return Err(FI_EAGAIN);
                }
                if on_descriptor && !self.may_sleep() {
                    continue;
                }
                self.bound.tell(&mut told, "fi_cq_sread");
                turn.found_nothing();
            }
            if on_descriptor {
                self.bound.sleep(deadline);
            } else {
                patience.step();
            }
        }
    }

    /// Completions in the list, counted up to a limit; a failed one counts as enough.
    fn length(&self, limit: usize) -> usize {
        let mut node = self.first.get();
        let mut count = 0;
        while !node.is_null() && count < limit {
            // SAFETY: nodes in the list are alive.
            unsafe {
                if (*node).flags & mark::FAILED != 0 {
                    return limit;
                }
                node = (*node).next;
            }
            count += 1;
        }
        count
    }

    /// Reads the oldest completion, which is one of a failed operation.
    ///
    /// # Safety
    /// There is room for an entry, of which only later versions of the interface have the last
    /// fields.
    pub(super) unsafe fn read_error(&self, entry: *mut fi_cq_err_entry) -> Result<usize, i32> {
        let node = self.first.get();
        // SAFETY: nodes in the list are alive.
        if node.is_null() || unsafe { (*node).flags } & mark::FAILED == 0 {
            return Err(FI_EAGAIN);
        }
        let api = self.domain.fabric.api;
        // SAFETY: as above; the room is the caller's promise.
        unsafe {
            let failed = error_of(node);
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
            self.pop(node);
            give_back(node);
        }
        Ok(1)
    }
}
