//! Messages that are longer than their buffers.

use limic::{Endpoint, Error, Peer, Selector};

use crate::party::TAG;
use crate::{Case, check, content};

/// Lengths of message and buffer; all ways to move a message are among them.
const PAIRS: [(usize, usize); 12] = [
    (1, 0),
    (48, 8),
    (64, 63),
    (233, 48),
    (3000, 2999),
    (4097, 1),
    (10_000, 64),
    (65_537, 65_536),
    (100_000, 10),
    (1 << 20, 0),
    (1 << 20, (1 << 20) - 1),
    (3 << 20, 1 << 20),
];

fn truncated(peer: Peer, sent: usize, buffer: usize) -> Error {
    Error::Truncated {
        peer,
        tag: TAG,
        sent: sent as u64,
        buffer: buffer as u64,
        immediate: None,
    }
}

fn both_lengths_and_the_prefix<E: Endpoint>(case: &Case<E>, post_first: bool) {
    case.run(2, |party| {
        for (number, (sent, room)) in PAIRS.into_iter().enumerate() {
            let number = number as u64;
            if party.rank == 0 {
                party.meet();
                // The sender is not at fault, and not told.
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, sent))
                    .expect("send");
                continue;
            }
            let mut buffer = vec![0xa5; room + 64];
            let outcome = if post_first {
                party.endpoint.scope(|scope| {
                    let receive = scope.irecv((party.other(), TAG), &mut buffer[..room])?;
                    party.meet();
                    receive.wait().map(|_| ())
                })
            } else {
                party.meet();
                let status = party.endpoint.wait_probe(Selector::any()).expect("probe");
                assert_eq!(status.len, sent as u64);
                party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer[..room])
                    .map(|_| ())
            };
            assert_eq!(outcome, Err(truncated(party.other(), sent, room)));
            check(number, &buffer[..room]);
            assert!(
                buffer[room..].iter().all(|byte| *byte == 0xa5),
                "{sent} bytes into {room}"
            );
        }
    });
}

/// The receive waits for the message.
pub fn posted_first<E: Endpoint>(case: &Case<E>) {
    both_lengths_and_the_prefix(case, true);
}

/// The message waits for the receive.
pub fn unexpected<E: Endpoint>(case: &Case<E>) {
    both_lengths_and_the_prefix(case, false);
}

/// No slice, and a slice of no bytes.
pub fn into_no_buffer_at_all<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for len in [0_usize, 1, 5000, 500_000] {
            for vectored in [false, true] {
                if party.rank == 0 {
                    party
                        .endpoint
                        .send(party.other(), TAG, &content(1, len))
                        .expect("send");
                } else {
                    let outcome = if vectored {
                        party.endpoint.recv_vectored((party.other(), TAG), &mut [])
                    } else {
                        party.endpoint.recv((party.other(), TAG), &mut [])
                    };
                    if len == 0 {
                        assert_eq!(outcome.map(|status| status.len), Ok(0));
                    } else {
                        assert_eq!(outcome, Err(truncated(party.other(), len, 0)));
                    }
                }
            }
        }
    });
}

/// The rest of a truncated message does not leak into the next one; owned buffers come back.
pub fn the_next_message_is_whole<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, (sent, room)) in PAIRS.into_iter().enumerate() {
            let number = number as u64 * 2;
            if party.rank == 0 {
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, sent))
                    .expect("send");
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number + 1, sent))
                    .expect("send");
            } else {
                let receive = party.endpoint.irecv((party.other(), TAG), vec![0; room]);
                let (outcome, buffer) = receive.expect("irecv").wait_buffer();
                assert_eq!(outcome, Err(truncated(party.other(), sent, room)));
                assert_eq!(buffer.len(), room);
                check(number, &buffer);
                let mut buffer = vec![0; sent];
                let status = party.endpoint.recv((party.other(), TAG), &mut buffer);
                assert_eq!(status.expect("recv").len, sent as u64);
                check(number + 1, &buffer);
            }
        }
    });
}
