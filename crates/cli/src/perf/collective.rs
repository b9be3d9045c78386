//! All ranks at once, out of messages alone: a barrier, and an exchange of all with all.
//!
//! Both work with any number of ranks, also with more than there are CPUs.

use std::time::{Duration, Instant};

use limic::{Endpoint, ScopedRecv, ScopedSend};
use limic_measure::content::{fill, seed, verify, verify_length};

use super::args::Pattern;
use super::buffers::Buffers;
use super::lane::Team;
use super::pattern::{DATA, Start, Stopped, Work};

/// Messages in each direction that `alltoall` has under way at a time.
const AT_ONCE: usize = 32;

/// Messages of one exchange, of all `ranks` together.
pub(super) fn messages_of_all_to_all(ranks: u32) -> u64 {
    let ranks = u64::from(ranks);
    ranks * (ranks - 1)
}

/// Times operations, on the clock of every rank.
pub(super) fn run(
    work: &Work,
    team: &Team<impl Endpoint>,
    buffers: &mut Buffers,
    start: Start<'_>,
) -> Result<Duration, Stopped> {
    let ranks = team.peers.len();
    let out = buffers.send.take(work.bytes * ranks)?;
    let into = buffers.receive.take(work.bytes * ranks)?;
    let mut operations = |count| -> Result<(), Stopped> {
        for turn in 0..count {
            match work.pattern {
                Pattern::Barrier => team.barrier.wait(&team.endpoint, DATA)?,
                _ => all_to_all(work, team, out, into, turn)?,
            }
        }
        Ok(())
    };
    operations(work.warmup)?;
    start()?;
    let begin = Instant::now();
    operations(work.iterations)?;
    Ok(begin.elapsed())
}

/// Every rank gives every rank, itself too, a block of its own. In step k it sends to the rank k
/// further on and receives from the one k back, so that no rank is everybody's target at once; the
/// steps do not wait for each other, which saves switches between ranks that share a CPU.
fn all_to_all(
    work: &Work,
    team: &Team<impl Endpoint>,
    out: &mut [u8],
    into: &mut [u8],
    turn: u64,
) -> Result<(), Stopped> {
    let (bytes, rank, ranks) = (work.bytes, team.rank as usize, team.peers.len());
    if work.check {
        for to in 0..ranks {
            fill(&mut out[to * bytes..][..bytes], seed(team.rank, turn, to));
        }
    }
    let out = &*out;
    into[rank * bytes..][..bytes].copy_from_slice(&out[rank * bytes..][..bytes]);
    let mut first = 1;
    while first < ranks {
        let steps = AT_ONCE.min(ranks - first);
        let mut lengths = [bytes as u64; AT_ONCE];
        team.endpoint.scope(|scope| {
            let mut receives: [Option<ScopedRecv<'_, _>>; AT_ONCE] = [const { None }; AT_ONCE];
            let mut sends: [Option<ScopedSend<'_, _>>; AT_ONCE] = [const { None }; AT_ONCE];
            // The blocks come from the ranks below this one, downwards, and then from the last one
            // downwards: in this order they can be cut off, each from the end of one of two parts.
            let (mut below, above) = into.split_at_mut(rank * bytes);
            let mut above = &mut above[bytes..];
            for step in 1..first + steps {
                let source = (rank + ranks - step) % ranks;
                let part = if step <= rank { &mut below } else { &mut above };
                let end = part.len() - bytes;
                let (rest, block) = std::mem::take(part).split_at_mut(end);
                *part = rest;
                if step >= first {
                    let from = (team.peers[source], DATA);
                    receives[step - first] = Some(scope.irecv(from, block)?);
                }
            }
            for step in first..first + steps {
                let to = (rank + step) % ranks;
                let block = &out[to * bytes..][..bytes];
                sends[step - first] = Some(scope.isend(team.peers[to], DATA, block)?);
            }
            for (request, length) in receives.into_iter().flatten().zip(&mut lengths) {
                *length = request.wait()?.0.len;
            }
            for request in sends.into_iter().flatten() {
                request.wait()?;
            }
            Ok(())
        })?;
        if work.check {
            for (step, length) in (first..first + steps).zip(lengths) {
                let from = ((rank + ranks - step) % ranks) as u32;
                verify_length(length, from, bytes)?;
                let block = &into[from as usize * bytes..][..bytes];
                verify(block, from, seed(from, turn, rank))?;
            }
        }
        first += steps;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted() {
        assert_eq!(
            [2, 3, 4, 5, 8].map(messages_of_all_to_all),
            [2, 6, 12, 20, 56]
        );
    }
}
