//! Asking an endpoint again and again, with sleep between once that takes longer.

use core::convert::Infallible;
use core::time::Duration;

use limic_shm::idle::Patience;
use limic_shm::system::Instant;

use crate::{Endpoint, Selector};

/// About 50 us of asking before the first sleep.
const POLLS: u32 = 1000;
/// Questions between two looks at the clock.
const CLOCK: u32 = 64;

/// Asks until there is an answer. Each question makes progress. If the answer takes long, the
/// message that `call` waits for is said.
///
/// # Errors
/// The first one of a question.
pub fn poll_until<E: Endpoint + ?Sized, T, F>(
    endpoint: &E,
    call: &'static str,
    selector: &Selector,
    mut ask: impl FnMut() -> Result<Option<T>, F>,
) -> Result<T, F> {
    let mut patience = Patience::default();
    let mut polls = 0;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if polls < POLLS {
            polls += 1;
            continue;
        }
        if patience.is_over(endpoint.patience()) {
            endpoint.say_awaited(call, selector);
        }
        endpoint.sleep(None);
    }
}

/// Asks until there is an answer or the time is over. Each question makes progress. Without any
/// time, it asks once.
pub(crate) fn poll_within<E: Endpoint + ?Sized, T, F>(
    endpoint: &E,
    timeout: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, F>,
) -> Result<Option<T>, F> {
    if timeout.is_zero() {
        return ask();
    }
    // A time beyond what the clock can say never comes.
    poll_before(endpoint, Instant::now().checked_add(timeout), ask)
}

/// Asks until there is an answer or the deadline has passed: without one, until there is an answer.
/// Each question makes progress. The first ones come before any look at the clock.
///
/// # Errors
/// The first one of a question.
pub fn poll_before<E: Endpoint + ?Sized, T, F>(
    endpoint: &E,
    deadline: Option<Instant>,
    mut ask: impl FnMut() -> Result<Option<T>, F>,
) -> Result<Option<T>, F> {
    let mut polls = 0_u32;
    loop {
        let answer = ask()?;
        if answer.is_some() {
            return Ok(answer);
        }
        polls = polls.saturating_add(1);
        let sleepy = polls > POLLS;
        if !sleepy && polls % CLOCK != 0 {
            continue;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        if sleepy {
            endpoint.sleep(left);
        }
    }
}

/// Whether something is so, or becomes so within the time. Each question makes progress.
pub(crate) fn within<E: Endpoint + ?Sized>(
    endpoint: &E,
    timeout: Duration,
    mut ask: impl FnMut() -> bool,
) -> bool {
    let answer: Result<_, Infallible> = poll_within(endpoint, timeout, || Ok(ask().then_some(())));
    matches!(answer, Ok(Some(())))
}

/// The longest sleep without looking around: a guard against a peer that meddles with the wake-up
/// flag, not something that anybody waits for. In simulations, and in tests of the debug build that
/// ask for it, it is none: a wake-up that is lost has to show.
#[must_use]
pub fn longest_sleep() -> Duration {
    let is_test = || std::env::var_os("TEST_LIMIC_WAKE_UPS").is_some();
    if cfg!(limic_sim) || cfg!(debug_assertions) && is_test() {
        Duration::from_secs(86_400)
    } else {
        Duration::from_millis(250)
    }
}
