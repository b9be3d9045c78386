//! The mode in which any thread may call. A call waits until it has its turn, and one that waits
//! for a message lets others in between two looks.
//!
//! Of the calls that wait for long, one sleeps at the endpoint's descriptor, and the others until
//! that one has come back.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use core::time::Duration;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

use limic::raw::longest_sleep;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::futex;

use crate::endpoint_state::EndpointState;
use crate::entry::Inside;
use crate::errors::Failure;
use crate::ffi_guard::broken;

/// Attempts before a thread sleeps until it is called.
const ATTEMPTS: u32 = 100;
/// Looks before the first sleep.
pub(crate) const LOOKS: u32 = 1000;
/// Looks between two looks at the clock.
pub(crate) const CLOCK: u32 = 64;
/// More threads than there are.
const ALL: u32 = u32::MAX >> 1;

/// Who waits for what at one endpoint.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Threads that wait for their turn.
    queue: AtomicU32,
    /// Raised when one of them is to try again.
    calls: AtomicU32,
    /// Calls that wait for a message and let others in. Begins within a turn.
    outside: AtomicU32,
    /// One of these sleeps at the descriptor.
    polls: AtomicBool,
    /// Raised when that one has woken.
    news: AtomicU32,
}

impl Turns {
    pub(crate) const fn new() -> Self {
        Self {
            queue: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            outside: AtomicU32::new(0),
            polls: AtomicBool::new(false),
            news: AtomicU32::new(0),
        }
    }

    /// Whether calls are under way that will come back for another turn. Asked within a turn.
    pub(crate) fn are_awaited(&self) -> bool {
        self.outside.load(Relaxed) > 0
    }

    /// Waits until nobody has the turn, and takes it for the thread `me`. False: the endpoint was
    /// closed meanwhile, which `is_open` tells, and the turn may be another one's.
    pub(crate) fn take(&self, owner: &AtomicUsize, me: usize, is_open: impl Fn() -> bool) -> bool {
        // SeqCst: besides the acquire, see `give`.
        let taken =
            || owner.load(Relaxed) == 0 && owner.compare_exchange(0, me, SeqCst, SeqCst).is_ok();
        for _ in 0..ATTEMPTS {
            if taken() {
                return true;
            }
            core::hint::spin_loop();
        }
        self.queue.fetch_add(1, SeqCst);
        let taken = loop {
            let calls = self.calls.load(SeqCst);
            if owner.compare_exchange(0, me, SeqCst, SeqCst).is_ok() {
                break true;
            }
            // The next endpoint of this place may be one that calls nobody. As with the turn:
            // closing shows here, or it raises `calls` later.
            if !is_open() {
                break false;
            }
            sleep(&self.calls, calls, None);
        };
        self.queue.fetch_sub(1, Relaxed);
        taken
    }

    /// Gives the turn back.
    #[inline(never)]
    pub(crate) fn give(&self, owner: &AtomicUsize) {
        // SeqCst, and a thread in `take` joins the queue before its attempt: so that finds the turn
        // free, or it is found in the queue here. It has read `calls` before, so it does not sleep
        // once this has raised it, or is woken.
        owner.store(0, SeqCst);
        self.call_one();
    }

    /// The turn is free: has a thread of the queue try again.
    pub(crate) fn call_one(&self) {
        self.call(1);
    }

    /// The endpoint is closed: has all of the queue look.
    pub(crate) fn call_all(&self) {
        self.call(ALL);
    }

    fn call(&self, threads: u32) {
        if self.queue.load(SeqCst) > 0 {
            self.calls.fetch_add(1, SeqCst);
            wake(&self.calls, threads);
        }
    }
}

/// A thread that is about to sleep at an endpoint's descriptor, for all that wait there. They are
/// told when it is dropped, out of the turn or within.
pub(crate) struct Poller {
    turns: &'static Turns,
    descriptor: BorrowedFd<'static>,
}

/// What was found when an endpoint was armed.
pub(crate) enum Armed {
    /// Something moved: look again.
    No,
    /// Another thread sleeps at the descriptor.
    ByAnother,
    Here(Poller),
}

impl Poller {
    /// Has the endpoint's senders ring. The poller is not used longer than a call is [`Outside`].
    pub(crate) fn arm(held: &Inside) -> Armed {
        let turns = held.turns();
        if turns.polls.load(SeqCst) {
            return Armed::ByAnother;
        }
        if !held.raw().arm() {
            return Armed::No;
        }
        turns.polls.store(true, SeqCst);
        let descriptor = held.raw().wake_fd().as_raw_fd();
        // SAFETY: the endpoint stays open as long as a call is outside of its turn
        // (`Turns::are_awaited`), and keeps the descriptor open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        Armed::Here(Self { turns, descriptor })
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // In this order: who sees that nobody polls any more does it itself, and who does not has
        // read the number before.
        self.turns.polls.store(false, SeqCst);
        self.turns.news.fetch_add(1, SeqCst);
        wake(&self.turns.news, ALL);
    }
}

/// Sleeps until one of the descriptors is readable. An early end is one more look.
pub(crate) fn sleep_at(pollers: &[Poller], longest: Duration) {
    let watch = |poller: &Poller| PollFd::from_borrowed_fd(poller.descriptor, PollFlags::IN);
    let mut watched: Vec<_> = pollers.iter().map(watch).collect();
    // A duration of such a length is one of the system's.
    if let Ok(longest) = Timespec::try_from(longest.min(longest_sleep())) {
        let _ = poll(&mut watched, Some(&longest));
    }
}

/// Sleeps while the word has this value.
fn sleep(word: &AtomicU32, value: u32, longest: Option<Duration>) {
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    // An error is that it has another value, a signal, or the end of the time: all to be looked at.
    let _ = futex::wait(word, futex::Flags::PRIVATE, value, longest.as_ref());
}

fn wake(word: &AtomicU32, threads: u32) {
    // The arguments are right, so there is no error.
    let _ = futex::wake(word, futex::Flags::PRIVATE, threads);
}

/// Asks until there is an answer or the deadline has passed, and lets other threads in between.
/// Each question makes progress.
pub(crate) fn until<T>(
    held: &mut Inside,
    deadline: Option<Instant>,
    mut ask: impl FnMut(&EndpointState) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let mut looks = 0_u32;
    loop {
        if held.broken {
            // By a call that was let in.
            return Err(broken());
        }
        let answer = ask(held)?;
        if answer.is_some() {
            return Ok(answer);
        }
        looks = looks.saturating_add(1);
        let is_sleepy = looks > LOOKS;
        if !is_sleepy && !looks.is_multiple_of(CLOCK) {
            held.step_out(core::hint::spin_loop);
            continue;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => return Ok(None),
            left if is_sleepy => sleep_outside(held, left.unwrap_or(Duration::MAX)),
            _ => held.step_out(std::thread::yield_now),
        }
    }
}

/// Sleeps until something may have happened, without the turn.
pub(crate) fn sleep_outside(held: &mut Inside, longest: Duration) {
    let turns = held.turns();
    // Before the look whether somebody polls: see the end of a poller.
    let news = turns.news.load(SeqCst);
    match Poller::arm(held) {
        // Also in an endpoint in which something moves all the time: what ends the wait may be a
        // call that is to be let in.
        Armed::No => held.step_out(std::thread::yield_now),
        Armed::ByAnother => {
            let longest = longest.min(longest_sleep());
            held.step_out(|| sleep(&turns.news, news, Some(longest)));
        }
        Armed::Here(poller) => held.step_out(|| sleep_at(&[poller], longest)),
    }
}

/// Counts a call that is outside, until it is dropped; begun within a turn.
pub(crate) struct Outside<'a>(&'a Turns);

impl<'a> Outside<'a> {
    pub(crate) fn new(turns: &'a Turns) -> Self {
        turns.outside.fetch_add(1, Relaxed);
        Self(turns)
    }
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.0.outside.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Who gets the place next may be in a mode in which nobody is called.
    #[test]
    fn a_thread_of_the_queue_learns_that_the_endpoint_was_closed() {
        let turns = Turns::new();
        let owner = AtomicUsize::new(1);
        let open = AtomicBool::new(true);
        thread::scope(|scope| {
            let queued = scope.spawn(|| turns.take(&owner, 2, || open.load(SeqCst)));
            while turns.queue.load(SeqCst) == 0 {
                thread::yield_now();
            }
            open.store(false, SeqCst);
            turns.call_all();
            assert!(!queued.join().expect("it does not panic"));
        });
        assert_eq!(owner.load(SeqCst), 1);
    }
}
