//! The endpoints of this process by their numbers, and the checks before each use of one.
//!
//! Places are never freed, so a stale number finds memory that says that it is stale. What a place
//! holds is touched only by the thread that owns it:
//!
//! - in the owner mode, `owner` is the thread that opened the endpoint until that thread gives it
//!   up or ends, and another takes it (`limic_endpoint_release`, `limic_endpoint_adopt`);
//! - in the other modes each call takes it and gives it up. In the serialized one nobody waits for
//!   that; in the one in which any thread may call, [`Turns`] sees to it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use limic_shm::process::{LockHere, Process};

use crate::endpoint_state::EndpointState;
use crate::entry::{enter, give_up};
use crate::errors::Failure;
use crate::errors::limic_error::*;
use crate::handles::limic_endpoint;
use crate::launchers;
use crate::turns::Turns;

/// Endpoints that can be open at a time.
const PLACES: usize = 4096;

/// A place for an endpoint: one cache line, so that endpoints of different threads do not disturb
/// each other.
#[repr(align(64))]
pub(crate) struct Place {
    /// Of the handle that means it now; 0: nothing is open here.
    pub(crate) generation: AtomicU32,
    /// The mark of the process that opened it.
    process: AtomicU64,
    /// The thread that may use it; 0: none. With the bit [`ENDED`], it is about to end, and others
    /// may take it too.
    pub(crate) owner: AtomicUsize,
    /// One of [`Threads`].
    threads: AtomicU8,
    /// A call is inside. Written by the owner only.
    pub(crate) busy: AtomicBool,
    /// The call that is inside is one of an owner that is ending: with its end others may take the
    /// endpoint again. Written by the owner only, while it is inside.
    pub(crate) of_ending: AtomicBool,
    /// Belongs to the owner: of a box, or null. An address, since a box may not move while a call
    /// that lets others in keeps what it found here.
    pub(crate) held: UnsafeCell<*mut EndpointState>,
    pub(crate) turns: Turns,
}

// SAFETY: `held` is touched only by the thread that `owner` names (see `Inside`), and
// `EndpointState` is Send.
unsafe impl Sync for Place {}

impl Place {
    const fn empty() -> Self {
        Self {
            generation: AtomicU32::new(0),
            process: AtomicU64::new(0),
            owner: AtomicUsize::new(0),
            threads: AtomicU8::new(0),
            busy: AtomicBool::new(false),
            of_ending: AtomicBool::new(false),
            held: UnsafeCell::new(core::ptr::null_mut()),
            turns: Turns::new(),
        }
    }
}

static TABLE: [Place; PLACES] = [const { Place::empty() }; PLACES];

/// Places that can be used, with the generation that comes next.
struct Free {
    /// Places from here on were never used.
    fresh: usize,
    returned: Vec<(usize, u32)>,
}

static FREE: LockHere<Free> = LockHere::new(Free {
    fresh: 0,
    returned: Vec::new(),
});

/// Of a child whose parent had the lock in another thread: what was given back is not used again.
impl Default for Free {
    fn default() -> Self {
        Self {
            fresh: USED.load(Ordering::Relaxed),
            returned: Vec::new(),
        }
    }
}

/// Places that were ever used, from the first on.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Which threads may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    Owner,
    Serialized,
    Multiple,
}

const SERIALIZED: u8 = Threads::Serialized as u8;
const MULTIPLE: u8 = Threads::Multiple as u8;

impl Place {
    /// Whether the endpoint is open, and here.
    pub(crate) fn is(&self, endpoint: limic_endpoint) -> bool {
        // SeqCst: besides the acquire of what came with it, see `Turns::take`.
        u64::from(self.generation.load(Ordering::SeqCst)) == endpoint.id >> 32
    }

    #[inline(always)]
    pub(crate) fn threads(&self) -> Threads {
        match self.threads.load(Ordering::Relaxed) {
            SERIALIZED => Threads::Serialized,
            MULTIPLE => Threads::Multiple,
            _ => Threads::Owner,
        }
    }
}

/// A number of the calling thread: not 0, and no other living thread has it. A thread that is made
/// later may get the number of one that ended, with all that one owned; the two never run at once.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    // SAFETY: pthread_self has no preconditions.
    (unsafe { libc::pthread_self() }) as usize
}

/// Mark of an owner that ends. Numbers of threads are addresses of memory of theirs, so this bit is
/// free.
pub(crate) const ENDED: usize = 1;

/// Marks what a thread owns when that ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let me = this_thread();
        // No lock: this may be the child of a process in which another thread had it. Relaxed: what
        // this thread has was entered by itself.
        let used = USED.load(Ordering::Relaxed);
        for place in TABLE.iter().take(used) {
            // Relaxed to look: only this thread has stored its number. A call that is inside goes
            // on to the end of the process in a signal handler, and keeps the endpoint.
            if place.owner.load(Ordering::Relaxed) == me && !place.busy.load(Ordering::Relaxed) {
                // Pairs with the acquire in `adopt`.
                place.owner.store(me | ENDED, Ordering::Release);
            }
        }
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

/// Has what this thread owns marked when it ends. False: it is ending already, and nothing is
/// marked any more. That is not noticed of a thread that calls for the first time when it ends, in
/// the destructor of a `pthread_key`: what it leaves, nobody can take.
pub(crate) fn mark_at_end() -> bool {
    AT_END.try_with(|_| ()).is_ok()
}

/// The calling thread as a new owner.
fn new_owner() -> usize {
    let me = this_thread();
    if mark_at_end() { me } else { me | ENDED }
}

/// Enters an endpoint and gives its handle. The calling thread owns it.
pub(crate) fn insert(held: EndpointState, threads: Threads) -> Result<limic_endpoint, Failure> {
    let process = Process::current().to_bits();
    let mut free = FREE.lock();
    let (at, generation) = match free.returned.pop() {
        Some(place) => place,
        None if free.fresh < PLACES => {
            free.fresh += 1;
            USED.store(free.fresh, Ordering::Relaxed);
            (free.fresh - 1, 1)
        }
        None => {
            return Err(Failure::new(
                LIMIC_ERR_NO_MEMORY,
                format!("{PLACES} endpoints are open in this process: close one"),
            ));
        }
    };
    let place = &TABLE[at];
    // SAFETY: the place is free: its generation is 0, so no call enters it, and `free` gave it to
    // this call alone.
    unsafe { *place.held.get() = Box::into_raw(Box::new(held)) };
    place.process.store(process, Ordering::Relaxed);
    place.threads.store(threads as u8, Ordering::Relaxed);
    let owner = if threads == Threads::Owner {
        new_owner()
    } else {
        0
    };
    place.owner.store(owner, Ordering::Relaxed);
    // Pairs with the acquire in `find`: who sees the generation sees the rest.
    place.generation.store(generation, Ordering::Release);
    Ok(limic_endpoint {
        id: u64::from(generation) << 32 | (at as u64 + 1),
    })
}

#[inline(always)]
pub(crate) fn find(endpoint: limic_endpoint) -> Result<&'static Place, Failure> {
    let at = (endpoint.id as u32 as usize).wrapping_sub(1);
    let Some(place) = TABLE.get(at) else {
        return Err(unknown(endpoint));
    };
    // Pairs with the release in `insert`.
    let generation = place.generation.load(Ordering::Acquire);
    if u64::from(generation) != endpoint.id >> 32 || generation == 0 {
        return Err(unknown(endpoint));
    }
    let process = Process::from_bits(place.process.load(Ordering::Relaxed));
    if !process.is_current() {
        return Err(forked());
    }
    Ok(place)
}

#[cold]
pub(crate) fn unknown(endpoint: limic_endpoint) -> Failure {
    let text = if endpoint.id == 0 {
        "the endpoint's handle is 0: it was never opened, or the request is LIMIC_REQUEST_NULL"
    } else {
        "the endpoint is not open: it was closed, or this is no handle of an endpoint"
    };
    Failure::new(LIMIC_ERR_ENDPOINT, text)
}

#[cold]
fn forked() -> Failure {
    Failure::new(
        LIMIC_ERR_FORKED,
        "the endpoint belongs to the process that this one was forked from; open another one here",
    )
}

#[cold]
pub(crate) fn other_thread(threads: Threads) -> Failure {
    let text = match threads {
        Threads::Owner => {
            "another thread owns the endpoint; that one calls limic_endpoint_release or ends, this one limic_endpoint_adopt \
             (or open it with LIMIC_THREADS_SERIALIZED or LIMIC_THREADS_MULTIPLE)"
        }
        Threads::Serialized => "another thread is inside of a call of this endpoint: one at a time",
        Threads::Multiple => {
            "another thread waits in a call of this endpoint, which cannot end yet"
        }
    };
    Failure::new(LIMIC_ERR_THREAD, text)
}

/// Takes an endpoint out; its handle is void from then on. The thread owns it.
pub(crate) fn remove(endpoint: limic_endpoint) -> Result<Box<EndpointState>, Failure> {
    let inside = enter(endpoint)?;
    let place = inside.place;
    if place.turns.are_awaited() {
        return Err(other_thread(place.threads()));
    }
    // SAFETY: this thread owns the place, and does not use what `inside` gives any more; `insert`
    // has made it of a box, which nobody has taken since: `enter` has found it.
    let held = unsafe { Box::from_raw(place.held.get().replace(core::ptr::null_mut())) };
    launchers::remove(endpoint);
    // In this order: see `Turns::take`.
    place.generation.store(0, Ordering::SeqCst);
    place.turns.call_all();
    place.of_ending.store(false, Ordering::Relaxed);
    drop(inside);
    place.owner.store(0, Ordering::Release);
    let mut free = FREE.lock();
    let at = (endpoint.id as u32 as usize).wrapping_sub(1);
    let next = ((endpoint.id >> 32) as u32).wrapping_add(1).max(1);
    free.returned.push((at, next));
    drop(free);
    Ok(held)
}

/// Gives the endpoint up, so that another thread can take it.
pub(crate) fn release(endpoint: limic_endpoint) -> Result<(), Failure> {
    let inside = enter(endpoint)?;
    let place = inside.place;
    // Nobody is to take it before this gives it up.
    place.of_ending.store(false, Ordering::Relaxed);
    drop(inside);
    if place.threads() == Threads::Owner {
        let me = this_thread();
        // Pairs with the acquire in `adopt`. Fails where a handler has given it up before.
        let _owned = { &place.owner }.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
    }
    Ok(())
}

/// Takes an endpoint that nobody owns, or whose owner has ended.
pub(crate) fn adopt(endpoint: limic_endpoint) -> Result<(), Failure> {
    let place = find(endpoint)?;
    let me = this_thread();
    if place.threads() != Threads::Owner || place.owner.load(Ordering::Relaxed) == me {
        return Ok(());
    }
    let me = new_owner();
    // Acquire: pairs with the release in `release`, `end_again`, and at the end of a thread.
    place
        .owner
        .fetch_update(Ordering::Acquire, Ordering::Relaxed, |owner| {
            (owner == 0 || owner & ENDED != 0).then_some(me)
        })
        .map_err(|_| other_thread(Threads::Owner))?;
    if !place.is(endpoint) {
        give_up(place, me);
        return Err(unknown(endpoint));
    }
    Ok(())
}
