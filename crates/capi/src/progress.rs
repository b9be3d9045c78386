//! Moving messages along, and fitting into a program's own loop.

use core::cell::Cell;
use core::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::arguments::output;
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_INVALID;
use crate::ffi_guard::{guarded, inside, visit};
use crate::handles::limic_endpoint;
use crate::turns::{Armed, CLOCK, LOOKS, Outside, Poller, sleep_at, sleep_outside};
use crate::waiting::{Patience, late};

/// Moves messages along once, without waiting. No thread of the library moves messages: they move
/// only while some call of the endpoint runs.
///
/// - `moved`: set to 1 if anything moved, else 0; may be NULL.
///
/// # Safety
/// `moved` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_progress(endpoint: limic_endpoint, moved: *mut c_int) -> c_int {
    inside(endpoint, |held| {
        let any = held.raw().progress();
        // SAFETY: the caller's promise.
        if let Some(moved) = unsafe { moved.as_mut() } {
            *moved = c_int::from(any);
        }
        Ok(())
    })
}

/// Sleeps until something may have happened, at most `timeout_ns` nanoseconds, and at most a
/// quarter of a second: call it in a loop. Returns at once if there is work already.
#[unsafe(no_mangle)]
pub extern "C" fn limic_sleep(endpoint: limic_endpoint, timeout_ns: i64) -> c_int {
    inside(endpoint, |held| {
        let timeout = Duration::from_nanos(timeout_ns.unsigned_abs());
        match Patience::of(timeout_ns) {
            Patience::Look => {}
            Patience::Forever if held.is_shared() => sleep_outside(held, Duration::MAX),
            Patience::Until(_) if held.is_shared() => sleep_outside(held, timeout),
            Patience::Forever => held.raw().sleep(None),
            Patience::Until(_) => held.raw().sleep(Some(timeout)),
        }
        Ok(())
    })
}

/// A file descriptor that becomes readable when the endpoint is wanted, for `poll`, `select` or
/// `epoll`.
///
/// - `fd`: set to the descriptor. It is the library's, the same for the life of the endpoint: do
///   not read from it or close it.
///
/// The loop: `limic_arm`; if that says that there is work, `limic_progress` and tests until nothing
/// moves, and again; else poll, then `limic_progress`.
///
/// # Safety
/// `fd` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wake_fd(endpoint: limic_endpoint, fd: *mut c_int) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let fd = unsafe { output(fd, "fd") }?;
        fd.write(held.raw().wake_fd().as_raw_fd());
        Ok(())
    })
}

/// Asks senders to ring from now on, before the descriptor of `limic_wake_fd` is polled.
///
/// - `armed`: set to 1: poll now. Set to 0: there is work already, do not poll.
///
/// With `LIMIC_THREADS_SERIALIZED` and `LIMIC_THREADS_MULTIPLE` one thread at a time polls, and a
/// call that waits with `LIMIC_THREADS_MULTIPLE` is one too: it may take the news. Calls
/// of other threads make the descriptor readable if they see to what senders rang for, or end the
/// ringing; arm and look again then.
///
/// # Safety
/// `armed` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_arm(endpoint: limic_endpoint, armed: *mut c_int) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let armed = unsafe { output(armed, "armed") }?;
        armed.write(c_int::from(held.raw().arm()));
        Ok(())
    })
}

/// Moves messages along at `count` endpoints until something moves at one of them, at most for
/// `timeout_ns` nanoseconds. Waiting polls, then yields, then sleeps.
///
/// Returns at once if an operation has ended there, or a message has come before its receive, since
/// this thread called it last with that endpoint in its list: in any call of any thread. It may
/// return for what the caller knows already: look, and call it again.
///
/// - `endpoints`: endpoints that this thread may use.
/// - `index`: set to the position of that one; to -1 without one.
///
/// ```c
/// for (;;) {
///     int at, done = 0;
///     for (at = 0; at < 2 && !done; at++)
///         limic_test(&requests[at], &done, &status);
///     if (done)
///         break;
///     limic_wait_endpoints(2, endpoints, LIMIC_FOREVER, &at);
/// }
/// ```
///
/// Errors: `LIMIC_ERR_TIMEOUT`; `LIMIC_ERR_INVALID` for no endpoints; misuse.
///
/// # Safety
/// `endpoints` is readable for `count` entries, `index` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wait_endpoints(
    count: c_int,
    endpoints: *const limic_endpoint,
    timeout_ns: i64,
    index: *mut c_int,
) -> c_int {
    let mut refused = 0;
    let checked = guarded(|| {
        // SAFETY: the caller's promise.
        let index = unsafe { output(index, "index") }?.write(-1);
        let length = usize::try_from(count).ok().filter(|count| *count > 0);
        let length = length.ok_or_else(|| {
            Failure::new(LIMIC_ERR_INVALID, format!("a list of {count} endpoints"))
        })?;
        if endpoints.is_null() {
            return Err(Failure::null("the list of endpoints"));
        }
        // SAFETY: the caller's promise.
        let endpoints = unsafe { core::slice::from_raw_parts(endpoints, length) };
        match first_to_move(endpoints, Patience::of(timeout_ns)) {
            Ok(at) => *index = at as c_int,
            Err(code) => refused = code,
        }
        Ok(())
    });
    if checked == 0 { refused } else { checked }
}

/// Endpoints, with what [`news`](limic::raw::Requests::news) said when the caller was told of them.
#[derive(Default)]
struct Told(Vec<(limic_endpoint, u64)>);

impl Told {
    /// Whether there is something that the caller was not told; it is from now on.
    fn is_new(&mut self, endpoint: limic_endpoint, news: u64) -> bool {
        match self.0.iter_mut().find(|(other, _)| *other == endpoint) {
            Some((_, before)) => core::mem::replace(before, news) != news,
            None => {
                self.0.push((endpoint, news));
                news != 0
            }
        }
    }
}

thread_local! {
    /// The endpoints of this thread's last list.
    static TOLD: Cell<Told> = const { Cell::new(Told(Vec::new())) };
}

/// The position of the first endpoint at which something moves.
fn first_to_move(endpoints: &[limic_endpoint], patience: Patience) -> Result<usize, c_int> {
    // A thread that ends is told again.
    let mut told = TOLD.try_with(Cell::take).unwrap_or_default();
    told.0.retain(|(endpoint, _)| endpoints.contains(endpoint));
    let found = wait_for_news(endpoints, &mut told, patience);
    let _ = TOLD.try_with(|last| last.set(told));
    found
}

fn wait_for_news(
    endpoints: &[limic_endpoint],
    told: &mut Told,
    patience: Patience,
) -> Result<usize, c_int> {
    let mut looks = 0_u32;
    loop {
        for (at, endpoint) in endpoints.iter().enumerate() {
            let (moved, news) =
                visit(*endpoint, |held| (held.raw().progress(), held.raw().news()))?;
            if told.is_new(*endpoint, news) || moved {
                return Ok(at);
            }
        }
        looks = looks.saturating_add(1);
        let is_sleepy = looks > LOOKS;
        if patience != Patience::Look && !is_sleepy && !looks.is_multiple_of(CLOCK) {
            continue;
        }
        let left = match patience {
            Patience::Look => return Err(late().report()),
            Patience::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
            Patience::Forever => Duration::MAX,
        };
        if left.is_zero() {
            return Err(late().report());
        }
        if !is_sleepy {
            std::thread::yield_now();
        } else if let Some(at) = sleep_at_all(endpoints, told, left)? {
            return Ok(at);
        }
    }
}

/// Sleeps until one of the endpoints is wanted. The position of one at which something moved
/// already, if there is one.
fn sleep_at_all(
    endpoints: &[limic_endpoint],
    told: &mut Told,
    mut longest: Duration,
) -> Result<Option<usize>, c_int> {
    let mut outside = Vec::with_capacity(endpoints.len());
    let mut pollers = Vec::with_capacity(endpoints.len());
    for (at, endpoint) in endpoints.iter().enumerate() {
        let (armed, news) = visit(*endpoint, |held| {
            outside.push(Outside::new(held.turns()));
            (Poller::arm(held), held.raw().news())
        })?;
        if told.is_new(*endpoint, news) {
            // By a call since the look, which may have rung nobody.
            return Ok(Some(at));
        }
        match armed {
            Armed::No => return Ok(Some(at)),
            // What that thread takes is not seen here.
            Armed::ByAnother => longest = longest.min(Duration::from_millis(1)),
            Armed::Here(poller) => pollers.push(poller),
        }
    }
    sleep_at(&pollers, longest);
    Ok(None)
}
