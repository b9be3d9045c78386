//! Ping-pong.

use std::time::{Duration, Instant};

use limic::Endpoint;
use limic_measure::content::{fill, seed, verify, verify_length};

use super::buffers::Buffers;
use super::lane::Team;
use super::pattern::{DATA, Start, Stopped, Work};

/// Times round trips: the rank of the first half sends, its partner answers.
pub(super) fn run(
    work: &Work,
    team: &Team<impl Endpoint>,
    buffers: &mut Buffers,
    start: Start<'_>,
) -> Result<Duration, Stopped> {
    let ping = buffers.send.take(work.bytes)?;
    let pong = buffers.receive.take(work.bytes)?;
    round_trips(work, team, ping, pong, work.warmup)?;
    start()?;
    let begin = Instant::now();
    round_trips(work, team, ping, pong, work.iterations)?;
    let time = begin.elapsed();
    Ok(if team.first { time } else { Duration::ZERO })
}

fn round_trips(
    work: &Work,
    team: &Team<impl Endpoint>,
    ping: &mut [u8],
    pong: &mut [u8],
    count: u64,
) -> Result<(), Stopped> {
    for turn in 0..count {
        if team.first {
            give(work, team, ping, turn)?;
            take(work, team, pong, turn)?;
        } else {
            take(work, team, pong, turn)?;
            give(work, team, ping, turn)?;
        }
    }
    Ok(())
}

/// Sends one message.
#[inline(always)]
fn give(
    work: &Work,
    team: &Team<impl Endpoint>,
    ping: &mut [u8],
    turn: u64,
) -> Result<(), Stopped> {
    let seed = seed(team.rank, turn, 0);
    if let Some(region) = &team.region {
        if work.check {
            fill(ping, seed);
            region.put(ping)?;
        }
        team.endpoint.send(team.partner, DATA, &[])?;
    } else if team.loans {
        let mut loan = team.endpoint.loan(work.bytes)?;
        work.write(&mut loan, seed);
        loan.send(team.partner, DATA)?;
    } else {
        work.write(ping, seed);
        team.endpoint.send(team.partner, DATA, ping)?;
    }
    Ok(())
}

/// Receives one message.
#[inline(always)]
fn take(
    work: &Work,
    team: &Team<impl Endpoint>,
    pong: &mut [u8],
    turn: u64,
) -> Result<(), Stopped> {
    let (partner, from) = (team.partner, team.partner_rank);
    if let Some(region) = &team.region {
        team.endpoint.recv((partner, DATA), &mut [])?;
        region.fetch(pong)?;
        if work.check {
            verify(pong, from, seed(from, turn, 0))?;
        }
    } else if team.loans {
        let loan = team.endpoint.recv_loaned((partner, DATA))?;
        if work.check {
            verify_length(loan.status().len, from, work.bytes)?;
            verify(&loan.to_vec(), from, seed(from, turn, 0))?;
        }
    } else {
        let status = team.endpoint.recv((partner, DATA), pong)?;
        if work.check {
            verify_length(status.len, from, work.bytes)?;
            verify(pong, from, seed(from, turn, 0))?;
        }
    }
    Ok(())
}
