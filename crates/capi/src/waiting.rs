//! Waiting with a time limit.

use std::time::{Duration, Instant};

use limic::Endpoint;

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

/// About 50 us of asking before the first sleep.
const POLLS: u32 = 1000;
/// Questions between two looks at the clock.
const CLOCK: u32 = 64;

/// Asks until there is an answer or the time is over. Each question makes progress.
pub(crate) fn until<T>(
    raw: &dyn Endpoint,
    patience: Patience,
    mut ask: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let mut polls = 0_u32;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        polls = polls.saturating_add(1);
        let sleepy = polls > POLLS;
        let left = match patience {
            Patience::Look => return Err(late()),
            Patience::Forever => None,
            Patience::Until(_) if !sleepy && !polls.is_multiple_of(CLOCK) => None,
            Patience::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(late());
                }
                Some(left)
            }
        };
        if sleepy {
            raw.sleep(left);
        }
    }
}

#[cold]
pub(crate) fn late() -> Failure {
    Failure::new(LIMIC_ERR_TIMEOUT, "not within the time given")
}
