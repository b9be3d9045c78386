//! A call's way into an endpoint and out of it: whose turn it is.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use crate::endpoint_state::EndpointState;
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_BUSY;
use crate::handles::limic_endpoint;
use crate::table::{ENDED, Place, Threads, find, mark_at_end, other_thread, this_thread, unknown};
use crate::turns::{Outside, Turns};

/// A call that is inside of an endpoint.
pub(crate) struct Inside {
    pub(crate) place: &'static Place,
    state: NonNull<EndpointState>,
}

/// Lets this thread into an endpoint, or says why not.
#[inline(always)]
pub(crate) fn enter(endpoint: limic_endpoint) -> Result<Inside, Failure> {
    let place = find(endpoint)?;
    let me = this_thread();
    // Relaxed: a thread that finds itself here has stored it itself.
    if place.owner.load(Ordering::Relaxed) != me {
        take_turn(place, endpoint, me)?;
    } else if place.busy.load(Ordering::Relaxed) || place.threads() != Threads::Owner {
        // In the modes in which nobody owns it, a call of this thread has the turn: it is inside,
        // or about to be, or about to be gone.
        return Err(busy());
    }
    begin(place);
    // SAFETY: this thread owns the place, and no other call of it is inside: a signal handler's has
    // come and gone before `begin`, or finds that this one is. By the header's word, handlers give
    // no endpoint up.
    let Some(state) = NonNull::new(unsafe { *place.held.get() }) else {
        leave(place);
        return Err(unknown(endpoint));
    };
    Ok(Inside { place, state })
}

/// Whether this thread may end the endpoint's job. Where any thread may call, it needs no turn for
/// that, but is not to be inside.
pub(crate) fn may_abort(endpoint: limic_endpoint) -> Result<(), Failure> {
    let place = find(endpoint)?;
    // Relaxed: as in `enter`.
    let is_inside = place.owner.load(Ordering::Relaxed) == this_thread();
    if place.threads() == Threads::Multiple && !is_inside {
        return Ok(());
    }
    enter(endpoint).map(drop)
}

#[inline(always)]
fn begin(place: &Place) {
    place.busy.store(true, Ordering::Relaxed);
    // A signal handler of this thread must see the flag before this call touches anything.
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[inline(always)]
fn leave(place: &Place) {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    if place.of_ending.load(Ordering::Relaxed) {
        return end_again(place);
    }
    place.busy.store(false, Ordering::Relaxed);
    match place.threads() {
        Threads::Owner => {}
        // Pairs with the acquire in `take_turn` of the next call.
        Threads::Serialized => place.owner.store(0, Ordering::Release),
        Threads::Multiple => place.turns.give(&place.owner),
    }
}

/// Without a text: this is a signal handler, and to keep one takes memory.
#[cold]
fn busy() -> Failure {
    Failure::new(LIMIC_ERR_BUSY, "")
}

/// Leaves the endpoint of a thread that is ending, in the owner mode: others may take it again.
#[cold]
fn end_again(place: &Place) {
    // In this order: a call of a handler that gets in is not the one that gives the endpoint away.
    place.of_ending.store(false, Ordering::Relaxed);
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    place.busy.store(false, Ordering::Relaxed);
    let me = this_thread();
    // Pairs with the acquire in `adopt`. Fails where a handler has just given it up.
    let _owned =
        { &place.owner }.compare_exchange(me, me | ENDED, Ordering::Release, Ordering::Relaxed);
}

/// Takes the endpoint for one call: in the modes in which nobody owns it, and for an owner that is
/// ending. Apart, so that a call in
/// the owner mode has only its own registers to save.
#[inline(never)]
fn take_turn(place: &Place, endpoint: limic_endpoint, me: usize) -> Result<(), Failure> {
    let threads = place.threads();
    // Acquire: pairs with the release in `leave`, `end_again`, `release` and `remove`.
    let take = |free| {
        let taken =
            { &place.owner }.compare_exchange(free, me, Ordering::Acquire, Ordering::Relaxed);
        taken.map(drop).map_err(|_| other_thread(threads))
    };
    match threads {
        // An owner that ends, but is not gone: what runs last in a thread may close what the thread
        // has opened.
        Threads::Owner => take(me | ENDED)?,
        Threads::Serialized => take(0)?,
        Threads::Multiple => {
            if !place.turns.take(&place.owner, me, || place.is(endpoint)) {
                return Err(unknown(endpoint));
            }
        }
    };
    // It may have been closed, and even opened anew, since `find`.
    if !place.is(endpoint) {
        give_up(place, me);
        return Err(unknown(endpoint));
    }
    if threads == Threads::Owner {
        // Not before `begin`: the end of a handler's call would give the endpoint away.
        begin(place);
        place.of_ending.store(!mark_at_end(), Ordering::Relaxed);
    }
    Ok(())
}

/// Undoes the taking of a place that is another endpoint's by now, unless that has an owner of its
/// own already.
#[cold]
pub(crate) fn give_up(place: &Place, me: usize) {
    let _taken_by_another =
        place
            .owner
            .compare_exchange(me, 0, Ordering::SeqCst, Ordering::Relaxed);
    // It had kept them out.
    place.turns.call_one();
}

impl Deref for Inside {
    type Target = EndpointState;

    #[inline(always)]
    fn deref(&self) -> &EndpointState {
        // SAFETY: this thread owns the place, and `busy` keeps its other calls out, so what is
        // borrowed here is all that refers to the state. While `step_out` lets others in, it has
        // this borrowed mutably itself. `remove` leaves the state where it is as long as a call is
        // inside, or outside to come back.
        unsafe { self.state.as_ref() }
    }
}

impl DerefMut for Inside {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut EndpointState {
        // SAFETY: as in `deref`.
        unsafe { self.state.as_mut() }
    }
}

impl Inside {
    /// Whether other threads are to be let in while this one waits.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.place.threads() == Threads::Multiple
    }

    pub(crate) fn turns(&self) -> &'static Turns {
        &self.place.turns
    }

    /// Gives the turn of a [shared](Self::is_shared) endpoint up for the time of `meanwhile`, which
    /// must not panic.
    pub(crate) fn step_out(&mut self, meanwhile: impl FnOnce()) {
        debug_assert!(self.is_shared());
        let outside = Outside::new(&self.place.turns);
        leave(self.place);
        meanwhile();
        // Calls that are outside keep it open.
        { &self.place.turns }.take(&self.place.owner, this_thread(), || true);
        begin(self.place);
        drop(outside);
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        leave(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{limic_endpoint_close, limic_endpoint_open};
    use crate::options::*;

    /// It may come between any two steps of the call that it interrupts.
    #[test]
    fn a_handler_finds_out_that_its_thread_has_the_turn() {
        for threads in [LIMIC_THREADS_SERIALIZED, LIMIC_THREADS_MULTIPLE] {
            let options = limic_options {
                size: size_of::<limic_options>() as u32,
                kind: LIMIC_KIND_SHM,
                threads,
                reserved: 0,
                settings: core::ptr::null(),
            };
            let mut endpoint = limic_endpoint { id: 0 };
            // SAFETY: options with their size, and a place for the endpoint.
            let opened = unsafe { limic_endpoint_open(&raw const options, &raw mut endpoint) };
            assert_eq!(opened, 0);
            let place = find(endpoint).expect("it is open");
            let refused = || {
                let failure = enter(endpoint)
                    .err()
                    .expect("a call of this thread is under way");
                (failure.code, failure.detail.is_empty()) == (LIMIC_ERR_BUSY, true)
            };
            take_turn(place, endpoint, this_thread()).expect("nobody has it");
            assert!(refused());
            begin(place);
            assert!(refused());
            place.busy.store(false, Ordering::Relaxed);
            assert!(refused());
            leave(place);
            assert!(enter(endpoint).is_ok());
            assert_eq!(limic_endpoint_close(endpoint), 0);
        }
    }
}
