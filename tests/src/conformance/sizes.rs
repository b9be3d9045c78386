//! Lengths at which something changes: cache lines, slots, limits of paths.

use limic::{Endpoint, Selector};

use crate::party::TAG;
use crate::{Case, check, content};

/// Every length at which an implementation may change its ways, and one around it.
pub(crate) fn lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 7, 8];
    lengths.extend(47..=65);
    // Records of two to four lines, with and without an immediate word.
    for lines in 2..=4 {
        lengths.extend(lines * 64 - 25..=lines * 64 - 15);
    }
    for around in [
        128,
        1 << 10,
        2 << 10,
        4 << 10,
        8 << 10,
        16 << 10,
        32 << 10,
        64 << 10,
    ] {
        lengths.extend(around - 1..=around + 1);
    }
    lengths.extend([(1 << 20) - 1, 1 << 20, (1 << 20) + 1]);
    lengths
}

/// Each length there and back, with content.
pub fn every_length_both_ways<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        for (number, len) in lengths().into_iter().enumerate() {
            let number = number as u64;
            let mut buffer = vec![0; len];
            if party.rank == 0 {
                endpoint
                    .send(other, TAG, &content(number, len))
                    .expect("send");
                let status = endpoint.recv((other, TAG), &mut buffer).expect("recv");
                assert_eq!(
                    (status.peer, status.tag, status.len),
                    (other, TAG, len as u64)
                );
                check(number + 1000, &buffer);
            } else {
                let status = endpoint.recv((other, TAG), &mut buffer).expect("recv");
                assert_eq!(
                    (status.peer, status.tag, status.len),
                    (other, TAG, len as u64)
                );
                check(number, &buffer);
                endpoint
                    .send(other, TAG, &content(number + 1000, len))
                    .expect("send");
            }
        }
    });
}

/// Longer than every pool and cache.
pub fn thirty_three_mebibytes<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let len = (33 << 20) + 5;
        if party.rank == 0 {
            let data = content(1, len);
            party
                .endpoint
                .send(party.other(), TAG, &data)
                .expect("send");
        } else {
            let mut buffer = vec![0; len];
            party
                .endpoint
                .recv((party.other(), TAG), &mut buffer)
                .expect("recv");
            check(1, &buffer);
        }
    });
}

/// What the message does not fill stays as it was.
pub fn a_longer_buffer_keeps_its_rest<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in lengths().into_iter().enumerate() {
            if party.rank == 0 {
                let data = content(number as u64, len);
                party
                    .endpoint
                    .send(party.other(), TAG, &data)
                    .expect("send");
            } else {
                let mut buffer = vec![0xa5; len + 77];
                let status = party
                    .endpoint
                    .recv(Selector::any(), &mut buffer)
                    .expect("recv");
                assert_eq!(status.len, len as u64);
                check(number as u64, &buffer[..len]);
                assert!(
                    buffer[len..].iter().all(|byte| *byte == 0xa5),
                    "{len} bytes"
                );
            }
        }
    });
}

/// All receives are posted before the first message leaves.
pub fn posted_receives_of_every_length<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let lengths = lengths();
        if party.rank == 0 {
            party.meet();
            for (number, len) in lengths.iter().enumerate() {
                let data = content(number as u64, *len);
                party
                    .endpoint
                    .send(party.other(), number as u64, &data)
                    .expect("send");
            }
        } else {
            let requests: Vec<_> = lengths
                .iter()
                .enumerate()
                .map(|(number, len)| {
                    let from = (party.other(), number as u64);
                    party.endpoint.irecv(from, vec![0; *len]).expect("irecv")
                })
                .collect();
            party.meet();
            for (number, request) in requests.into_iter().enumerate() {
                let (status, buffer) = request.wait().expect("receive");
                assert_eq!(status.len, lengths[number] as u64);
                check(number as u64, &buffer);
            }
        }
    });
}
