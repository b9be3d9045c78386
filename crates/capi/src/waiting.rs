//! Waiting with a time limit.

use std::time::{Duration, Instant};

use limic::raw::{poll_before, poll_until};
use limic::{Peer, Selector};

use crate::endpoint_state::EndpointState;
use crate::entry::Inside;
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_TIMEOUT;
use crate::turns;

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
    held: &mut Inside,
    patience: Patience,
    mut ask: impl FnMut(&EndpointState) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let deadline = match patience {
        Patience::Look => return ask(held)?.ok_or_else(late),
        Patience::Until(deadline) => Some(deadline),
        Patience::Forever => None,
    };
    let answer = if held.is_shared() {
        turns::until(held, deadline, ask)
    } else {
        let held: &EndpointState = held;
        poll_before(held.raw(), deadline, || ask(held))
    };
    answer?.ok_or_else(late)
}

/// As [`until`], for a message that `call` looks for: without a time limit, it is said if it takes
/// long.
pub(crate) fn until_message<T>(
    held: &mut Inside,
    patience: Patience,
    (call, selector): (&'static str, &Selector),
    mut ask: impl FnMut(&EndpointState) -> limic::Result<Option<T>>,
) -> Result<T, Failure> {
    if patience == Patience::Forever && !held.is_shared() {
        let held: &EndpointState = held;
        return Ok(poll_until(held.raw(), call, selector, || ask(held))?);
    }
    until(held, patience, |held| Ok(ask(held)?))
}

/// Before an operation that waits for the first contact with its peer: waits for that here, where
/// other threads are to be let in. What stands against it the operation itself says.
pub(crate) fn meet(held: &mut Inside, peer: Peer) -> Result<(), Failure> {
    if !held.is_shared() {
        return Ok(());
    }
    until(held, Patience::Forever, |held| {
        let is_met = held.raw().attach(peer).unwrap_or(true);
        if !is_met {
            held.raw().progress();
        }
        Ok(is_met.then_some(()))
    })
}

#[cold]
pub(crate) fn late() -> Failure {
    Failure::new(LIMIC_ERR_TIMEOUT, "not within the time given")
}
