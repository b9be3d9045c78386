//! How long a cache line takes from one core to the other: two ends of a pair pass the line of a
//! word to and fro a few times, and both count.
//!
//! The end that asks waits for the other to come, for as long as it likes; from then on neither
//! waits for longer than [`ARRIVAL_NS`] for the other to do its part. Nothing hangs on the order of
//! anything else, so all accesses are relaxed.

use crate::sync::{AtomicU64, Ordering};
use crate::system::now_ns;

/// Round trips of one measurement: the better half of two batches counts.
const BATCH: u64 = 8;
const BATCHES: u64 = 2;
const ROUNDS: u64 = BATCH * BATCHES;
/// The end that asked has given up.
const OVER: u64 = u64::MAX;
/// How long each waits for the other's next step, once both are there.
pub const ARRIVAL_NS: u64 = 3_000;
/// Looks at the word between two looks at the clock.
const LOOKS: u32 = 64;

/// The word is for a new measurement: before the other end hears of it.
pub fn prepare(word: &AtomicU64) {
    word.store(0, Ordering::Relaxed);
}

/// Measures from the end that asks, and waits for so long for the other one to come. Gives the time
/// of one way in nanoseconds; `None` if the other end was not there all the time.
pub fn ask(word: &AtomicU64, wait_ns: u64) -> Option<u32> {
    // Odd numbers are the other end's, even ones this end's.
    let ns = wait_for(word, 1, wait_ns).and_then(|()| ping_pong(word, 1));
    if ns.is_none() {
        word.store(OVER, Ordering::Relaxed);
    }
    ns
}

/// Measures from the end that is asked; gives what [`ask`] does.
///
/// # Errors
/// The other end has given up already.
pub fn answer(word: &AtomicU64) -> Result<Option<u32>, GivenUp> {
    if word.load(Ordering::Relaxed) != 0 {
        return Err(GivenUp);
    }
    word.store(1, Ordering::Relaxed);
    Ok(ping_pong(word, 2))
}

/// The end that asked does not wait any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp;

/// Passes the line to and fro, where this end waits for `first` and every second number behind it,
/// and answers each by the next one. Moves the line twice a round.
fn ping_pong(word: &AtomicU64, first: u64) -> Option<u32> {
    let mut best = u64::MAX;
    let mut since = 0;
    for round in 0..=ROUNDS {
        let wanted = first + 2 * round;
        wait_for(word, wanted, ARRIVAL_NS)?;
        if round % BATCH == 0 {
            let now = now_ns();
            if round > 0 {
                best = best.min(now - since);
            }
            since = now;
        }
        // The last word is that of the end that asked.
        if round < ROUNDS || first == 1 {
            word.store(wanted + 1, Ordering::Relaxed);
        }
    }
    u32::try_from(best / (2 * BATCH)).ok()
}

/// Waits until the word has a value, for so many nanoseconds at most.
fn wait_for(word: &AtomicU64, wanted: u64, most_ns: u64) -> Option<()> {
    let mut until = 0;
    loop {
        for _ in 0..LOOKS {
            match word.load(Ordering::Relaxed) {
                OVER => return None,
                value if value == wanted => return Some(()),
                _ => {}
            }
        }
        let now = now_ns();
        if until == 0 {
            until = now + most_ns;
        } else if now > until {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_alone_gives_up_and_the_other_one_sees_that() {
        let word = AtomicU64::new(7);
        prepare(&word);
        assert_eq!(ask(&word, ARRIVAL_NS), None);
        assert_eq!(answer(&word), Err(GivenUp));
        prepare(&word);
        assert_eq!(answer(&word), Ok(None), "nobody asks any more");
    }

    #[test]
    fn two_ends_measure_together() {
        let word = AtomicU64::new(0);
        let (asked, answered) = std::thread::scope(|scope| {
            let other = scope.spawn(|| answer(&word));
            (ask(&word, u64::from(u32::MAX)), other.join())
        });
        let answered = answered.expect("no panic");
        if asked.is_some() {
            assert!(answered.is_ok());
            assert_eq!(word.load(Ordering::Relaxed), 2 * ROUNDS + 2);
        }
    }
}
