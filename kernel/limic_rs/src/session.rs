// SPDX-License-Identifier: GPL-2.0

//! A session: one open file, of one address space.

use crate::abi;
use crate::costs;
use crate::counters::COUNTERS;
use crate::device;
use crate::exposure::{Exposures, Own};
use crate::ffi::{self, MmEvents, MmWatch};
use crate::group::{Groups, Membership};
use crate::held::Held;
use crate::kept::Kept;
use crate::latch::Latch;
use crate::mailbox::Mailbox;
use crate::pieces::Pieces;
use crate::realm::Realm;
use crate::request::Requests;
use kernel::fs::File;
use kernel::mm::Mm;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, SetOnce};
use kernel::{new_mutex, sync::Mutex};

/// What all sessions share.
#[pin_data]
pub(crate) struct Shared {
    pub(crate) exposures: Exposures,
    #[pin]
    pub(crate) groups: Groups,
}

impl Shared {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let exposures = Exposures::new()?;
        Arc::pin_init(
            pin_init!(Self { exposures, groups <- Groups::new() }),
            GFP_KERNEL,
        )
    }
}

/// In the count of calls: its owner ends the session, so no further ones begin.
const ENDING: u32 = 1 << 31;

/// What LIMIC_IOC_HELLO settles.
struct Greeted {
    id: u64,
    /// Of sessions that use messages.
    requests: Option<Arc<Requests>>,
    unexpected: u32,
}

/// A session.
///
/// # Invariants
/// - `watch`, unless null, is a running watch over `mm` with this session as its owner. It is set
///   before the session is greeted, and so before anything is pinned, and stopped before the
///   session is freed.
/// - Calls are taken from tasks that use `mm` only. `calls` is the number of those that are under
///   way; once [`ENDING`] is set, no further one begins. So none is under way while
///   [`end`](Self::end) runs: it runs when nobody uses `mm` any more, when nobody has the file, or
///   when the owner has set that bit and found none.
#[pin_data(PinnedDrop)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    mm: ARef<Mm>,
    realm: Arc<Realm>,
    watch: Atomic<*mut MmWatch>,
    calls: Atomic<u32>,
    ended: Atomic<bool>,
    greeted: SetOnce<Greeted>,
    membership: SetOnce<Membership>,
    own: Arc<Own>,
    #[pin]
    kept: Kept,
    /// Calls that change what the session is take turns.
    #[pin]
    setup: Mutex<()>,
}

/// The session that a watch belongs to.
///
/// # Safety
/// `owner` is a session that is pinned and lives as long as the reference is used.
unsafe fn session_of<'a>(owner: *mut c_void) -> &'a Session {
    // SAFETY: by the caller.
    unsafe { &*owner.cast::<Session>() }
}

/// What the watch over the address space calls, each with a session that is pinned and lives.
static EVENTS: MmEvents = MmEvents {
    begin: {
        unsafe extern "C" fn begin(owner: *mut c_void, under_way: c_uint) {
            // SAFETY: the watch is stopped before its session goes.
            unsafe { session_of(owner) }
                .kept
                .watch_begins(under_way as usize);
        }
        begin
    },
    end: {
        unsafe extern "C" fn end(owner: *mut c_void) {
            // SAFETY: as for `begin`.
            unsafe { session_of(owner) }.end(abi::MEMBER_LEFT);
        }
        end
    },
    change_begins: {
        unsafe extern "C" fn change_begins(owner: *mut c_void, start: usize, end: usize) -> bool {
            // SAFETY: as for `begin`.
            let session = unsafe { session_of(owner) };
            session.kept.change_begins(start as u64, end as u64)
        }
        change_begins
    },
    change_ends: {
        unsafe extern "C" fn change_ends(owner: *mut c_void) {
            // SAFETY: as for `begin`.
            unsafe { session_of(owner) }.kept.change_ends();
        }
        change_ends
    },
    sweep: {
        unsafe extern "C" fn sweep(owner: *mut c_void) {
            // SAFETY: as for `begin`.
            unsafe { session_of(owner) }.sweep();
        }
        sweep
    },
};

impl Session {
    /// The session of a file that is being opened. It notes whose it is, and no more: whoever opens
    /// a misc device holds a lock that the opens of all others wait for.
    pub(crate) fn open(file: &File, shared: Arc<Shared>) -> Result<Pin<KBox<Self>>> {
        let mm = ffi::current_mm();
        if mm.is_null() {
            // A kernel thread.
            return Err(EINVAL);
        }
        // SAFETY: the current task uses it, so it is alive here.
        let mm: ARef<Mm> = unsafe { Mm::from_raw(mm) }.into();
        let realm = Realm::of_opener(file)?;
        let own = Own::new()?;
        let session = KBox::pin_init(
            pin_init!(Self {
                shared,
                mm,
                realm,
                watch: Atomic::new(core::ptr::null_mut()),
                calls: Atomic::new(0),
                ended: Atomic::new(false),
                greeted: SetOnce::new(),
                membership: SetOnce::new(),
                own,
                kept <- Kept::new(),
                setup <- new_mutex!((), "limic_session"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        COUNTERS.sessions.add(1, Relaxed);
        Ok(session)
    }

    /// Watches the address space of the caller, which is the session's.
    fn start_watch(&self) -> Result {
        let owner = core::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the session is pinned in the box of its file, and stops the watch before it goes
        // (`Drop`).
        let watch = unsafe { ffi::watch_current_mm(abi::MAX_SESSIONS, owner, &EVENTS) }?;
        // INVARIANT: started just now.
        self.watch.store(watch, Relaxed);
        Ok(())
    }

    /// Undoes all that the session holds. Only the first call does something; `how` is what its
    /// group is told.
    fn end(&self, how: u32) {
        if self.ended.xchg(true, Full) {
            return;
        }
        if let Some(greeted) = self.greeted.as_ref() {
            costs::session_ended(greeted.id);
        }
        self.own.end(&self.shared.exposures);
        let requests = self.greeted.as_ref().and_then(|it| it.requests.as_deref());
        if let Some(membership) = self.membership.as_ref() {
            self.shared.groups.leave(membership, requests, how);
        }
        if let Some(requests) = requests {
            requests.events.end();
        }
        self.kept.close();
    }

    /// Stops the watch. Called when nothing that it tells matters any more, and by one task at a
    /// time.
    fn stop_watch(&self) {
        let watch = self.watch.load(Relaxed);
        if !watch.is_null() {
            // INVARIANT: stopped next.
            self.watch.store(core::ptr::null_mut(), Relaxed);
            // SAFETY: by the invariant it runs, and nobody else finds it any more.
            unsafe { ffi::limic_mm_watch_stop(watch) };
        }
    }

    /// Whether the caller is of the process that opened the session.
    pub(crate) fn check_owner(&self) -> Result {
        if ffi::current_mm() != self.mm.as_raw() {
            return Err(ffi::ESTALE());
        }
        Ok(())
    }

    /// A call of the owner's begins. ESTALE if it is somebody else's, or the session is over.
    pub(crate) fn begin_call(&self) -> Result<CallUnderWay<'_>> {
        self.check_owner()?;
        // Full: pairs with `end_by_owner`, which sets the bit and then looks at the count. Either
        // the bit is seen here, or this call is seen there.
        let before = self.calls.fetch_add(1, Full);
        // INVARIANT: counted, until it is dropped.
        let call = CallUnderWay(self);
        if before & ENDING != 0 {
            return Err(ffi::ESTALE());
        }
        Ok(call)
    }

    /// `LIMIC_IOC_END`
    pub(crate) fn end_by_owner(&self) -> Result {
        self.check_owner()?;
        ffi::set_bits(&self.calls, ENDING);
        // Acquire: pairs with the end of each call, whose effects are undone next.
        if self.calls.load(Acquire) != ENDING {
            if let Ok(requests) = self.requests() {
                // Those who sleep leave; others of the process's own threads are not waited for.
                requests.events.end();
            }
            return Err(EBUSY);
        }
        // Another thread may say it too.
        let _turn = self.setup.lock();
        self.end(abi::MEMBER_CLOSED);
        self.stop_watch();
        Ok(())
    }

    /// Pins memory of the caller, for writing if `write`; with `keep`, the pins may stay for the
    /// next call that names this memory.
    pub(crate) fn hold(&self, pieces: &Pieces, write: bool, keep: bool) -> Result<Held> {
        self.kept.hold(&self.mm, pieces, write, keep)
    }

    /// A latch for a buffer of the caller.
    pub(crate) fn latch(&self, index: u32, pieces: &Pieces) -> Result<Latch> {
        self.kept.latch(index, pieces)
    }

    /// Maps the latches, which the first call makes.
    pub(crate) fn map_latches(&self, vma: &VmaNew) -> Result {
        self.id()?;
        self.kept.latches()?.map(vma)
    }

    /// Lets go what the memory behind was changed of. Run by the kernel's worker.
    fn sweep(&self) {
        self.kept.sweep();
        while let Some(handle) = self.kept.struck() {
            self.unexpose(handle);
            ffi::resched();
        }
    }

    pub(crate) fn realm(&self) -> &Realm {
        &self.realm
    }

    pub(crate) fn own(&self) -> &Arc<Own> {
        &self.own
    }

    pub(crate) fn exposures(&self) -> &Exposures {
        &self.shared.exposures
    }

    /// The session's random id. EPROTO before LIMIC_IOC_HELLO.
    pub(crate) fn id(&self) -> Result<u64> {
        Ok(self.greeted.as_ref().ok_or(ffi::EPROTO())?.id)
    }

    /// The slots. EPERM if the session has none.
    pub(crate) fn requests(&self) -> Result<&Arc<Requests>> {
        let greeted = self.greeted.as_ref().ok_or(ffi::EPROTO())?;
        greeted.requests.as_ref().ok_or(EPERM)
    }

    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// Slots and membership: what messages need.
    pub(crate) fn member(&self) -> Result<(&Arc<Requests>, &Membership)> {
        let requests = self.requests()?;
        Ok((requests, self.membership().ok_or(ffi::ENOTCONN())?))
    }

    /// `LIMIC_IOC_HELLO`; `arg` goes back to user space even if the version is refused.
    #[inline(never)]
    pub(crate) fn hello(&self, arg: &mut abi::Hello) -> Result {
        if arg.version != abi::VERSION {
            arg.version = abi::VERSION;
            return Err(ffi::EPROTONOSUPPORT());
        }
        abi::check(arg.flags, 0, &arg.reserved)?;
        if arg.slots > abi::MAX_SLOTS || arg.unexpected > abi::MAX_UNEXPECTED {
            return Err(EINVAL);
        }
        if arg.slots == 0 && arg.unexpected != 0 {
            return Err(EINVAL);
        }
        let _turn = self.setup.lock();
        if self.greeted.as_ref().is_some() {
            return Err(ffi::EALREADY());
        }
        let mut unexpected = 0;
        let mut requests = None;
        if arg.slots > 0 {
            unexpected = match arg.unexpected {
                0 => abi::DEFAULT_UNEXPECTED,
                wanted => wanted,
            };
            requests = Some(Requests::new(arg.slots)?);
        }
        // The last that can fail, so it is started once.
        self.start_watch()?;
        arg.features = abi::FEATURES;
        arg.unexpected = unexpected;
        arg.status_bytes = requests.as_ref().map_or(0, |it| it.events.bytes() as u64);
        arg.session = ffi::random_nonzero();
        self.greeted.populate(Greeted {
            id: arg.session,
            requests,
            unexpected,
        });
        Ok(())
    }

    /// `LIMIC_IOC_JOIN`
    #[inline(never)]
    pub(crate) fn join(&self, arg: &mut abi::Join) -> Result {
        abi::check(arg.flags, abi::JOIN_CREATE | abi::JOIN_FD, &arg.reserved)?;
        let by_fd = arg.flags & abi::JOIN_FD != 0;
        let named = arg.flags != abi::JOIN_FD || arg.token != [0, 0] || arg.size != 0;
        if arg.size > abi::MAX_RANKS || (by_fd && named) || (!by_fd && arg.fd != 0) {
            return Err(EINVAL);
        }
        let greeted = self.greeted.as_ref().ok_or(ffi::EPROTO())?;
        if by_fd {
            let token = device::with_session(arg.fd, |other| {
                let member = other.membership()?;
                member.token_for(&self.realm)
            })?;
            arg.token = token.ok_or(ENOENT)?;
        }
        let _turn = self.setup.lock();
        if self.membership.as_ref().is_some() {
            return Err(ffi::EALREADY());
        }
        let mailbox = match &greeted.requests {
            Some(requests) => Mailbox::new(requests.clone(), greeted.unexpected)?,
            None => Mailbox::without_messages()?,
        };
        let member = self.shared.groups.join(&self.realm, arg, mailbox)?;
        self.membership.populate(member);
        Ok(())
    }

    /// `LIMIC_IOC_MEMBER`
    pub(crate) fn member_state(&self, arg: &mut abi::Member) -> Result {
        abi::check(0, 0, &[arg.reserved])?;
        self.id()?;
        let membership = self.membership().ok_or(ffi::ENOTCONN())?;
        arg.state = match membership.group.mailbox(arg.rank)? {
            None => abi::MEMBER_ABSENT,
            Some(mailbox) => mailbox.state(),
        };
        Ok(())
    }
}

/// A call that is under way.
///
/// # Invariants
/// It is counted in the session's `calls`.
pub(crate) struct CallUnderWay<'a>(&'a Session);

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        // Release: pairs with `end_by_owner`.
        self.0.calls.fetch_sub(1, Release);
    }
}

#[pinned_drop]
impl PinnedDrop for Session {
    fn drop(self: Pin<&mut Self>) {
        // If the address space has not ended it: nobody has the file any more.
        self.end(abi::MEMBER_CLOSED);
        self.stop_watch();
        COUNTERS.sessions.add(-1, Relaxed);
    }
}
