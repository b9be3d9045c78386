//! Waiting with a time limit.

use std::time::{Duration, Instant};

use limic::raw::{poll_before, poll_until};
use limic::{Endpoint, Selector};

use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_TIMEOUT;

/// As a time-out: wait without end. Any negative number means the same.
pub const LIMIC_FOREVER: i64 = -1;

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Look once.
    Look,
    Until(Instant),
    Forever,
}

impl Patience {
    /// From nanoseconds, as C gives them.
    pub(crate) fn of(timeout_ns: i64) -> Self {
        match u64::try_from(timeout_ns) {
            Ok(0) => Self::Look,
            Err(_) => Self::Forever,
            // A time beyond what the clock can say never comes.
            Ok(ns) => Instant::now()
                .checked_add(Duration::from_nanos(ns))
                .map_or(Self::Forever, Self::Until),
        }
    }
}

/// Asks until there is an answer or the time is over. Each question makes progress.
pub(crate) fn until<T>(
    raw: &dyn Endpoint,
    patience: Patience,
    mut ask: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let answer = match patience {
        Patience::Look => ask(),
        Patience::Until(deadline) => poll_before(raw, Some(deadline), ask),
        Patience::Forever => poll_before(raw, None, ask),
    };
    answer?.ok_or_else(late)
}

/// As [`until`], for a message that `call` looks for: without a time limit, it is said if it takes
/// long.
pub(crate) fn until_message<T>(
    raw: &dyn Endpoint,
    patience: Patience,
    (call, selector): (&'static str, &Selector),
    mut ask: impl FnMut() -> limic::Result<Option<T>>,
) -> Result<T, Failure> {
    match patience {
        Patience::Forever => Ok(poll_until(raw, call, selector, ask)?),
        _ => until(raw, patience, || Ok(ask()?)),
    }
}

#[cold]
pub(crate) fn late() -> Failure {
    Failure::new(LIMIC_ERR_TIMEOUT, "not within the time given")
}
