//! Completion queues: what became of work requests.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::event::epoll;

use crate::sys;

use super::device::Context;
use crate::VerbsError;
use crate::error::leaked;

/// How a work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStatus {
    /// As asked.
    Done,
    /// The queue pair failed before this request was done: it may or may not have had an effect.
    Flushed,
    /// The peer did not answer for all retries: it is gone, or the network is.
    NoAnswer,
    /// The peer had no receive for all retries.
    NoReceive,
    /// The peer refused: wrong key, or outside the region.
    RemoteAccess,
    /// Anything else, by its number (`ibv_wc_status`).
    Other(u32),
}

/// What a completed work request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// A receive. Only known to be one if it succeeded.
    Receive,
    /// Something of the send queue.
    Send,
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that the request was posted with.
    pub id: u64,
    /// How it ended.
    pub status: WorkStatus,
    /// What it was; meaningless unless it succeeded.
    pub kind: WorkKind,
    /// Bytes received; meaningless for anything but a receive that succeeded.
    pub bytes: u32,
    /// The queue pair of this process.
    pub queue_pair: u32,
}

/// Entries taken in one call.
pub(crate) const BATCH: usize = 32;

/// The file descriptor through which a sleeper hears of completions.
#[derive(Debug)]
pub struct Notifier {
    raw: NonNull<sys::ibv_comp_channel>,
    /// With the channel in it, so that those who sleep on a copy of this can be rid of that.
    set: OwnedFd,
    _context: Arc<Context>,
}

// SAFETY: libibverbs allows calls on a channel from any thread.
unsafe impl Send for Notifier {}
// SAFETY: as above.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// A new channel, not blocking.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, VerbsError> {
        let failed = |call| move |errno| VerbsError::Call { call, errno };
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll_create1"))?;
        // SAFETY: an open context, which the channel keeps open.
        let raw = unsafe { sys::ibv_create_comp_channel(context.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_create_comp_channel"))?;
        let channel = Self {
            raw,
            set,
            _context: Arc::clone(context),
        };
        rustix::io::ioctl_fionbio(channel.fd(), true)
            .map_err(failed("ioctl FIONBIO on the completion channel"))?;
        let (data, readable) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        epoll::add(&channel.set, channel.fd(), data, readable).map_err(failed("epoll_ctl"))?;
        Ok(Arc::new(channel))
    }

    /// From now on nobody hears anything. The channel of a device that is gone wakes sleepers for
    /// ever.
    pub(crate) fn silence(&self) {
        // It can only be out of the set.
        let _ = epoll::delete(&self.set, self.fd());
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the channel's and open as long as it.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, after the queues that hold a reference to it.
        let returned = unsafe { sys::ibv_destroy_comp_channel(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_destroy_comp_channel", returned);
        }
    }
}

/// A completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: NonNull<sys::ibv_cq>,
    notifier: Option<Arc<Notifier>>,
    _context: Arc<Context>,
}

// SAFETY: libibverbs allows every call on a completion queue from any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue with room for `entries`. More completions than that break every queue pair that uses
    /// it.
    ///
    /// # Errors
    /// [`VerbsError::Limit`], [`VerbsError::Call`].
    pub fn new(
        context: &Arc<Context>,
        entries: u32,
        notifier: Option<&Arc<Notifier>>,
    ) -> Result<Arc<Self>, VerbsError> {
        let most = context.limits().completions;
        if entries > most {
            return Err(VerbsError::Limit {
                device: context.name().to_owned(),
                what: "entries of a completion queue",
                wanted: entries.into(),
                most: most.into(),
            });
        }
        let channel = notifier.map_or(std::ptr::null_mut(), |n| n.raw.as_ptr());
        // SAFETY: an open context and a live channel, which the queue keeps alive.
        let raw = unsafe {
            sys::ibv_create_cq(
                context.raw(),
                entries.max(1) as i32,
                std::ptr::null_mut(),
                channel,
                0,
            )
        };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_create_cq"))?;
        Ok(Arc::new(Self {
            raw,
            notifier: notifier.cloned(),
            _context: Arc::clone(context),
        }))
    }

    /// Makes room for at least `entries`; what lies in the queue stays.
    ///
    /// # Errors
    /// [`VerbsError::Call`]: not every device can do this.
    pub fn grow(&self, entries: u32) -> Result<(), VerbsError> {
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: a live queue; the call may run beside others of the queue.
        let returned = unsafe { sys::ibv_resize_cq(self.raw.as_ptr(), entries) };
        VerbsError::check("ibv_resize_cq", returned)
    }

    /// Takes completions, at most one batch, and hands each to `take`. True if there were any.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the queue overflowed or the device is gone.
    pub fn poll(&self, mut take: impl FnMut(Completion)) -> Result<bool, VerbsError> {
        let mut entries = [const { std::mem::MaybeUninit::<sys::ibv_wc>::uninit() }; BATCH];
        // SAFETY: a live queue and room for `BATCH` entries, of which the first `count` are filled.
        let count = unsafe {
            sys::ibv_poll_cq(
                self.raw.as_ptr(),
                BATCH as i32,
                entries.as_mut_ptr().cast::<sys::ibv_wc>(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            return Err(VerbsError::Call {
                call: "ibv_poll_cq",
                errno: rustix::io::Errno::IO,
            });
        };
        for entry in entries.iter().take(count) {
            // SAFETY: one of the first `count`, filled by the call; plain C data.
            take(decode(unsafe { entry.assume_init_ref() }));
        }
        Ok(count > 0)
    }

    /// Asks that the next completion makes the notifier's descriptor readable. Poll once more after
    /// this: what came before it gives no notice.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: a live queue.
        let returned = unsafe { sys::ibv_req_notify_cq(self.raw.as_ptr(), 0) };
        VerbsError::check("ibv_req_notify_cq", returned)
    }

    /// Takes all notices off the descriptor, so that it is not readable any more.
    pub fn take_notices(&self) {
        let Some(notifier) = &self.notifier else {
            return;
        };
        let mut queue = std::ptr::null_mut();
        let mut context = std::ptr::null_mut();
        let mut taken = 0;
        // SAFETY: a live channel that does not block; the call writes the two pointers.
        while unsafe {
            sys::ibv_get_cq_event(notifier.raw.as_ptr(), &raw mut queue, &raw mut context)
        } == 0
        {
            taken += 1;
        }
        if taken > 0 {
            // SAFETY: a live queue; each notice taken is acknowledged once, as ibv_destroy_cq(3)
            // demands.
            unsafe { sys::ibv_ack_cq_events(self.raw.as_ptr(), taken) };
        }
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_cq {
        self.raw.as_ptr()
    }
}

fn decode(entry: &sys::ibv_wc) -> Completion {
    use sys::ibv_wc_status as status;
    Completion {
        id: entry.wr_id,
        status: match entry.status {
            status::IBV_WC_SUCCESS => WorkStatus::Done,
            status::IBV_WC_WR_FLUSH_ERR => WorkStatus::Flushed,
            status::IBV_WC_RETRY_EXC_ERR => WorkStatus::NoAnswer,
            status::IBV_WC_RNR_RETRY_EXC_ERR => WorkStatus::NoReceive,
            status::IBV_WC_REM_ACCESS_ERR | status::IBV_WC_REM_INV_REQ_ERR => {
                WorkStatus::RemoteAccess
            }
            other => WorkStatus::Other(other),
        },
        kind: if entry.opcode & sys::ibv_wc_opcode::IBV_WC_RECV != 0 {
            WorkKind::Receive
        } else {
            WorkKind::Send
        },
        bytes: entry.byte_len,
        queue_pair: entry.qp_num,
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, after the queue pairs that hold a reference to it.
        let returned = unsafe { sys::ibv_destroy_cq(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_destroy_cq", returned);
        }
    }
}
