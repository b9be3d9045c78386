//! What MPI says about which receive gets which message, as a naive model.

use limic::Status;

use crate::script::{Receive, Script, content};
use crate::sim::{Match, Sim};

/// A message came: finds out which, and notes which receive took it.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn arrived(
    sim: &mut Sim,
    script: &Script,
    (to, posted, receive): (usize, u64, Receive),
    from: usize,
    status: &Status,
    bytes: &[u8],
) -> Result<(), String> {
    let taken = |sim: &Sim, message| sim.board.matches.iter().any(|one| one.message == message);
    let found = (0..script.messages.len()).find(|index| {
        let message = &script.messages[*index];
        message.from == from
            && message.to == to
            && message.tag == status.tag.0
            && message.len == bytes.len()
            && status.immediate == sim.board.words[*index]
            && bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == content(*index, at))
            && !taken(sim, *index)
    });
    let Some(message) = found else {
        return Err(format!(
            "{} bytes with tag {:#x} from {from} are no message that is still to come (receive \
             {posted}: {receive:?})",
            bytes.len(),
            status.tag.0
        ));
    };
    if !receive.accepts(&script.messages[message]) {
        return Err(format!(
            "receive {posted} ({receive:?}) got message {message}"
        ));
    }
    sim.counts.received += 1;
    sim.board.matches.push(Match {
        to,
        posted,
        receive,
        message,
        sure: bytes.len() >= 8,
    });
    Ok(())
}

/// Looks for messages of one sender that overtook each other.
///
/// # Errors
/// Two of them.
pub(crate) fn order(sim: &Sim, script: &Script) -> Result<(), String> {
    for first in &sim.board.matches {
        for second in &sim.board.matches {
            let (earlier, later) = (
                &script.messages[first.message],
                &script.messages[second.message],
            );
            let apart = first.to != second.to || earlier.from != later.from;
            if apart || !first.sure || !second.sure {
                continue;
            }
            // `second` was sent later and taken by a receive that was posted earlier, which could
            // have had `first`.
            let sent_as = |one: &Match| sim.board.sent_as[one.message];
            if sent_as(first) < sent_as(second)
                && second.posted < first.posted
                && second.receive.accepts(earlier)
            {
                return Err(format!(
                    "message {} overtook message {}: receive {} got the one, {} the other",
                    second.message, first.message, second.posted, first.posted
                ));
            }
        }
    }
    Ok(())
}
