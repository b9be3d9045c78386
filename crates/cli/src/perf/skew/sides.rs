//! The two sides of a window with computing.

use std::time::{Duration, Instant};

use limic::{Endpoint, ScopedSend};
use limic_measure::content::{seed, verify, verify_length};

use super::super::lane::Team;
use super::super::pattern::{DATA, Stopped};

/// A time of the command line.
pub(super) fn micros(us: f64) -> Duration {
    Duration::from_nanos((us * 1000.0) as u64)
}

/// Keeps the core busy, as an application does.
fn compute(time: Duration) {
    if time.is_zero() {
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Sends a window, and waits until all of it is sent; the time for that.
pub(super) fn produce(
    team: &Team,
    messages: &[u8],
    bytes: usize,
    computes: Duration,
) -> Result<Duration, Stopped> {
    let begin = Instant::now();
    team.endpoint.scope(|scope| {
        let mut requests: Vec<ScopedSend<'_, _>> = Vec::with_capacity(messages.len() / bytes);
        for message in messages.chunks_exact(bytes) {
            compute(computes);
            requests.push(scope.isend(team.partner, DATA, message)?);
        }
        requests
            .into_iter()
            .try_for_each(|request| request.wait().map(drop))
    })?;
    Ok(begin.elapsed())
}

/// Receives a window, one message after the other.
pub(super) fn consume(
    team: &Team,
    into: &mut [u8],
    window: usize,
    computes: Duration,
    check: bool,
) -> Result<Duration, Stopped> {
    for index in 0..window {
        let status = team.endpoint.recv((team.partner, DATA), into)?;
        if check {
            verify_length(status.len, team.partner_rank, into.len())?;
            verify(into, team.partner_rank, seed(team.partner_rank, 0, index))?;
        }
        compute(computes);
    }
    Ok(Duration::ZERO)
}
