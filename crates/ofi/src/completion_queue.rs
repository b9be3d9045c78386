//! Completion queues: a list of nodes, in the order in which their operations ended.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_void};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crate::abi::entries::{fi_cq_attr, fi_cq_err_entry, fi_cq_tagged_entry};
use crate::abi::errno::*;
use crate::abi::objects::{fi_ops_cq, fid_cq, fid_domain};
use crate::abi::*;
use crate::border;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::errors::text_of;
use crate::fabric::{no_bind, no_ops_open};
use crate::log;
use crate::node::{Node, context_of, mark};
use crate::object::{self, Head, Object};
use crate::wait::{Patience, WaitObject};

/// A completion queue.
#[repr(C)]
pub(crate) struct Queue {
    head: Head<fid_cq>,
    pub(crate) domain: Arc<Domain>,
    /// Oldest and youngest completion.
    first: Cell<*mut Node>,
    last: Cell<*mut Node>,
    /// Bytes of a completion in the application's format.
    entry: usize,
    /// Empty looks in a row.
    idle: Cell<u32>,
    /// Endpoints that report here; each makes progress when the queue is read.
    endpoints: RefCell<Vec<*const Endpoint>>,
    wait: Option<WaitObject>,
    wait_kind: u32,
    /// The condition of `sread` is a number of completions.
    threshold: bool,
    /// Somebody called `fi_cq_signal`.
    signalled: Cell<bool>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Queue {
    const CLASS: usize = class::CQ;
}

// SAFETY: touched only in calls that have entered its domain.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close,
    bind: no_bind,
    control,
    ops_open: no_ops_open,
    tostr: None,
    ops_set: None,
};

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
};

/// The longest sleep without looking around.
const LONGEST: Duration = Duration::from_millis(250);

impl Queue {
    /// Puts a completion at the end.
    ///
    /// # Safety
    /// The node is in no list, and stays where it is until it is taken out.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, node: *mut Node) {
        // SAFETY: the caller's promise; what is in the list was pushed under it.
        unsafe {
            (*node).next = core::ptr::null_mut();
            let last = self.last.get();
            if last.is_null() {
                self.first.set(node);
            } else {
                (*last).next = node;
            }
        }
        self.last.set(node);
    }

    /// Takes the oldest completion out.
    ///
    /// # Safety
    /// `node` is the first.
    #[inline(always)]
    unsafe fn pop(&self, node: *mut Node) {
        // SAFETY: the caller's promise.
        let next = unsafe { (*node).next };
        self.first.set(next);
        if next.is_null() {
            self.last.set(core::ptr::null_mut());
        }
    }

    /// An endpoint reports here from now on.
    pub(crate) fn add(&self, endpoint: &Endpoint) -> Result<(), i32> {
        let mut endpoints = self.endpoints.borrow_mut();
        if endpoints.contains(&core::ptr::from_ref(endpoint)) {
            return Ok(());
        }
        if let Some(wait) = &self.wait {
            let added = wait.add(endpoint.wake_fd(), endpoint.number);
            added.map_err(|errno| errno.raw_os_error())?;
        }
        endpoints.push(endpoint);
        Ok(())
    }

    /// An endpoint closes: what it has not reported yet is forgotten, since the memory of its nodes may go.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        let gone = core::ptr::from_ref(endpoint);
        self.endpoints.borrow_mut().retain(|known| *known != gone);
        if let Some(wait) = &self.wait {
            wait.remove(endpoint.wake_fd());
        }
        let mut node = self.first.replace(core::ptr::null_mut());
        self.last.set(core::ptr::null_mut());
        while !node.is_null() {
            // SAFETY: nodes in the list are alive.
            unsafe {
                let next = (*node).next;
                let number = (*node).flags >> mark::ENDPOINT_SHIFT & 0xffff;
                if number == u64::from(endpoint.number) {
                    self.domain.pool.give_back(node);
                } else {
                    self.push(node);
                }
                node = next;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn progress(&self) {
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: an endpoint takes itself out before it goes.
            unsafe { (**endpoint).progress() };
        }
    }

    /// Whether nothing is there and senders will ring.
    pub(crate) fn may_sleep(&self) -> bool {
        self.progress();
        if !self.first.get().is_null() || self.signalled.take() {
            return false;
        }
        let armed = self.endpoints.borrow().iter().all(|endpoint| {
            // SAFETY: an endpoint takes itself out before it goes.
            unsafe { (**endpoint).arm() }
        });
        // Arming makes progress once more.
        armed && self.first.get().is_null()
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.first.get().is_null()
    }

    /// Reads up to `count` completions into the application's buffer.
    ///
    /// # Safety
    /// There is room for them at `buffer`, and for as many addresses at `sources` unless that is null.
    #[inline(always)]
    unsafe fn read(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
    ) -> Result<usize, i32> {
        if self.first.get().is_null() {
            self.progress();
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
                        return Err(FI_EAVAIL);
                    }
                    break;
                }
                if !sources.is_null() {
                    *sources.add(done) = self.source_of(node);
                }
                let entry = buffer.cast::<u8>().add(done * self.entry);
                self.put(node, entry);
                self.pop(node);
                self.domain.pool.give_back(node);
            }
            done += 1;
        }
        if done > 0 {
            self.idle.set(0);
            return Ok(done);
        }
        self.give_way();
        Err(FI_EAGAIN)
    }

    /// Writes a completion in the application's format, which is the beginning of the longest one.
    ///
    /// # Safety
    /// The node is alive and there is room for an entry.
    #[inline(always)]
    unsafe fn put(&self, node: *mut Node, entry: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let whole = fi_cq_tagged_entry {
                op_context: context_of(node),
                flags: (*node).flags & mark::PUBLIC,
                len: (*node).len,
                buf: (*node).buf,
                data: (*node).data,
                tag: (*node).tag,
            };
            let from = (&raw const whole).cast::<u8>();
            if self.entry == size_of::<fi_cq_tagged_entry>() {
                const WHOLE: usize = size_of::<fi_cq_tagged_entry>();
                core::ptr::copy_nonoverlapping(from, entry, WHOLE);
            } else {
                core::ptr::copy_nonoverlapping(from, entry, self.entry);
            }
        }
    }

    /// The sender of a message, if an address vector names it.
    ///
    /// # Safety
    /// The node is alive.
    unsafe fn source_of(&self, node: *mut Node) -> fi_addr_t {
        // SAFETY: the caller's promise.
        let (flags, peer) = unsafe { ((*node).flags, (*node).peer) };
        if flags & FI_RECV == 0 {
            return FI_ADDR_NOTAVAIL;
        }
        let number = flags >> mark::ENDPOINT_SHIFT & 0xffff;
        let endpoints = self.endpoints.borrow();
        // SAFETY: an endpoint takes itself out before it goes.
        let mut all = endpoints.iter().map(|endpoint| unsafe { &**endpoint });
        all.find(|endpoint| u64::from(endpoint.number) == number)
            .map_or(FI_ADDR_NOTAVAIL, |endpoint| endpoint.address_of(peer))
    }

    /// An empty look. Who is waited for may wait for this very CPU.
    #[inline(always)]
    fn give_way(&self) {
        let idle = self.idle.get().wrapping_add(1);
        self.idle.set(idle);
        if idle >= self.domain.patience.get() {
            self.idle.set(0);
            rustix::thread::sched_yield();
        }
    }

    /// # Safety
    /// As [`read`](Self::read).
    unsafe fn read_waiting(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
        condition: *const c_void,
        timeout: c_int,
    ) -> Result<usize, i32> {
        if self.wait_kind == FI_WAIT_NONE {
            return Err(FI_ENOSYS);
        }
        // A hint only: what is there by the deadline is given.
        let wanted = if self.threshold && !condition.is_null() {
            // SAFETY: with this condition it is a number of completions.
            unsafe { *condition.cast::<usize>() }.clamp(1, count.max(1))
        } else {
            1
        };
        let deadline = u64::try_from(timeout)
            .ok()
            .map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut patience = Patience::new();
        loop {
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            {
                let _turn = self.domain.enter();
                self.progress();
                if self.length(wanted) >= wanted || (over && self.has_any()) {
                    // SAFETY: the caller's promise.
                    return unsafe { self.read(buffer, count, sources) };
                }
                let waiting = self.wait.as_ref();
                if self.signalled.take() || waiting.is_some_and(WaitObject::take_signal) {
                    return Err(FI_EAGAIN);
                }
                if over {
                    return Err(FI_EAGAIN);
                }
                if waiting.is_some() && wanted == 1 && !self.may_sleep() {
                    continue;
                }
            }
            match &self.wait {
                Some(wait) if wanted == 1 => {
                    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                    wait.sleep(left.unwrap_or(LONGEST).min(LONGEST));
                }
                _ => patience.step(),
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
}

/// `fi_cq_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    queue: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    border::status(|| {
        // SAFETY: C passes attributes or null.
        let attr = unsafe { attr.as_ref() }.ok_or(FI_EINVAL)?;
        if queue.is_null() {
            return Err(FI_EINVAL);
        }
        let entry = match attr.format {
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_TAGGED => 48,
            FI_CQ_FORMAT_CONTEXT => 8,
            FI_CQ_FORMAT_MSG => 24,
            FI_CQ_FORMAT_DATA => 40,
            _ => return Err(FI_EINVAL),
        };
        let wait = match attr.wait_obj {
            FI_WAIT_NONE | FI_WAIT_YIELD => None,
            FI_WAIT_UNSPEC | FI_WAIT_FD => {
                Some(WaitObject::new().map_err(|errno| errno.raw_os_error())?)
            }
            other => {
                log::info(&format_args!(
                    "wait object {other} is not known; FI_WAIT_FD is"
                ));
                return Err(FI_ENOSYS);
            }
        };
        if !matches!(attr.wait_cond, FI_CQ_COND_NONE | FI_CQ_COND_THRESHOLD) {
            return Err(FI_EINVAL);
        }
        let object = Arc::new(Queue {
            head: Head::new(fid_cq {
                fid: object::fid_of::<Queue>(context, &OPS),
                ops: &CQ_OPS,
            }),
            // SAFETY: a domain of this provider.
            domain: unsafe { object::share(domain) },
            first: Cell::new(core::ptr::null_mut()),
            last: Cell::new(core::ptr::null_mut()),
            entry,
            idle: Cell::new(0),
            endpoints: RefCell::default(),
            wait,
            wait_kind: attr.wait_obj,
            threshold: attr.wait_cond == FI_CQ_COND_THRESHOLD,
            signalled: Cell::new(false),
        });
        // SAFETY: checked.
        unsafe { *queue = object::hand_out(object) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    border::status(|| {
        // SAFETY: C closes what it was given, once.
        unsafe { object::take_back::<Queue>(fid) }
            .map(drop)
            .ok_or(FI_EBUSY)
    })
}

unsafe extern "C" fn control(fid: *mut fid, what: c_int, argument: *mut c_void) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given.
        let queue: &Queue = unsafe { object::object(fid) };
        if argument.is_null() {
            return Err(FI_EINVAL);
        }
        match (what, &queue.wait) {
            // SAFETY: the argument of this command is room for a descriptor.
            (command::GETWAIT, Some(wait)) => unsafe {
                *argument.cast::<c_int>() = wait.descriptor();
            },
            // SAFETY: the argument of this command is room for a kind.
            (command::GETWAITOBJ, _) => unsafe {
                *argument.cast::<u32>() = match &queue.wait {
                    Some(_) => FI_WAIT_FD,
                    None => queue.wait_kind,
                };
            },
            _ => return Err(FI_ENOSYS),
        }
        Ok(())
    })
}

unsafe extern "C" fn read(queue: *mut fid_cq, buffer: *mut c_void, count: usize) -> isize {
    border::size(|| {
        // SAFETY: C passes what it was given, and room for `count` entries; so below.
        unsafe {
            let queue: &Queue = object::object(queue);
            let _turn = queue.domain.enter();
            queue.read(buffer, count, core::ptr::null_mut())
        }
    })
}

unsafe extern "C" fn readfrom(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
) -> isize {
    border::size(|| {
        // SAFETY: as above.
        unsafe {
            let queue: &Queue = object::object(queue);
            let _turn = queue.domain.enter();
            queue.read(buffer, count, sources)
        }
    })
}

unsafe extern "C" fn sread(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: usize,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as above.
    unsafe {
        sreadfrom(
            queue,
            buffer,
            count,
            core::ptr::null_mut(),
            condition,
            timeout,
        )
    }
}

unsafe extern "C" fn sreadfrom(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    border::size(|| {
        // SAFETY: as above.
        unsafe {
            let queue: &Queue = object::object(queue);
            queue.read_waiting(buffer, count, sources, condition, timeout)
        }
    })
}

/// `fi_cq_readerr`: the oldest completion, which is one of a failed operation.
unsafe extern "C" fn readerr(queue: *mut fid_cq, entry: *mut fi_cq_err_entry, _: u64) -> isize {
    border::size(|| {
        // SAFETY: C passes what it was given.
        let queue: &Queue = unsafe { object::object(queue) };
        let _turn = queue.domain.enter();
        let node = queue.first.get();
        // SAFETY: nodes in the list are alive.
        if node.is_null() || unsafe { (*node).flags } & mark::FAILED == 0 {
            return Err(FI_EAGAIN);
        }
        let api = queue.domain.fabric.api;
        // SAFETY: as above; C passes room for an entry, whose last fields only later versions have.
        unsafe {
            (*entry).op_context = context_of(node);
            (*entry).flags = (*node).flags & mark::PUBLIC;
            (*entry).len = (*node).len;
            (*entry).buf = (*node).buf;
            (*entry).data = (*node).data;
            (*entry).tag = (*node).tag;
            (*entry).olen = (*node).request as usize;
            (*entry).err = (*node).error;
            (*entry).prov_errno = (*node).error;
            if api < fi_version(1, 5) {
                (*entry).err_data = core::ptr::null_mut();
            } else {
                // Room for such data stays the application's; there is none.
                (*entry).err_data_size = 0;
            }
            queue.pop(node);
            queue.domain.pool.give_back(node);
        }
        Ok(1)
    })
}

/// `fi_cq_signal`: whoever waits in `fi_cq_sread` returns.
unsafe extern "C" fn signal(queue: *mut fid_cq) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given.
        let queue: &Queue = unsafe { object::object(queue) };
        match &queue.wait {
            Some(wait) => wait.signal(),
            None => {
                let _turn = queue.domain.enter();
                queue.signalled.set(true);
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn strerror(
    _: *mut fid_cq,
    errno: c_int,
    _: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = text_of(errno);
    if !buffer.is_null() && len > 0 {
        let count = text.count_bytes().min(len - 1);
        // SAFETY: C passes room for `len` bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buffer, count);
            *buffer.add(count) = 0;
        }
    }
    text.as_ptr()
}
