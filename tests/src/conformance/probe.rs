//! Probe and matched probe.

use limic::{Endpoint, Error, Selector, Tag};

use crate::party::TAG;
use crate::{Case, check, content};

const SHORT_AND_LONG: [usize; 4] = [0, 30, 5000, 300_000];

/// The message is still there afterwards, as often as one looks.
pub fn a_probe_takes_nothing<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let selector = Selector::exact(party.other(), TAG);
        for (number, len) in SHORT_AND_LONG.into_iter().enumerate() {
            let data = content(number as u64, len);
            if party.rank == 0 {
                assert_eq!(party.endpoint.probe(Selector::any()), Ok(None));
                party.meet();
                party
                    .endpoint
                    .send(party.other(), TAG, &data)
                    .expect("send");
                party.meet();
                continue;
            }
            assert_eq!(party.endpoint.probe(Selector::any()), Ok(None));
            party.meet();
            let first = party.endpoint.wait_probe(selector).expect("probe");
            assert_eq!(
                (first.peer, first.tag, first.len),
                (party.other(), TAG, len as u64)
            );
            for _ in 0..3 {
                assert_eq!(party.endpoint.probe(Selector::any()), Ok(Some(first)));
            }
            let different = Selector::exact(party.other(), Tag(1));
            assert_eq!(party.endpoint.probe(different), Ok(None));
            let mut buffer = vec![0; len];
            assert_eq!(party.endpoint.recv(selector, &mut buffer), Ok(first));
            check(number as u64, &buffer);
            assert_eq!(party.endpoint.probe(Selector::any()), Ok(None));
            party.meet();
        }
    });
}

/// It returns for the message that fits, not for others.
pub fn wait_probe_waits<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for number in 0..50_u64 {
            if party.rank == 0 {
                party.endpoint.send(party.other(), 1, &[]).expect("send");
                party
                    .endpoint
                    .send(party.other(), 2, &number.to_le_bytes())
                    .expect("send");
                party
                    .endpoint
                    .recv((party.other(), 3), &mut [])
                    .expect("recv");
            } else {
                let status = party.endpoint.wait_probe(Selector::any_source(Tag(2)));
                assert_eq!(status.map(|status| status.len), Ok(8));
                let mut word = [0; 8];
                party
                    .endpoint
                    .recv((party.other(), 2), &mut word)
                    .expect("recv");
                assert_eq!(u64::from_le_bytes(word), number);
                party
                    .endpoint
                    .recv((party.other(), 1), &mut [])
                    .expect("recv");
                party.endpoint.send(party.other(), 3, &[]).expect("send");
            }
        }
    });
}

/// Neither probes nor receives see it any more.
pub fn a_claimed_message_is_nobody_elses<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in SHORT_AND_LONG.into_iter().enumerate() {
            let number = number as u64 * 2;
            if party.rank == 0 {
                let first = party
                    .endpoint
                    .isend(party.other(), TAG, content(number, len));
                let second = party
                    .endpoint
                    .isend(party.other(), TAG, content(number + 1, len));
                first.expect("isend").wait().expect("send");
                second.expect("isend").wait().expect("send");
                party.meet();
                continue;
            }
            let selector = Selector::exact(party.other(), TAG);
            let claim = party.endpoint.wait_matched_probe(selector);
            let claim = claim.expect("claim");
            assert_eq!(claim.status().len, len as u64);
            let mut buffer = vec![0; len];
            party.endpoint.recv(selector, &mut buffer).expect("recv");
            check(number + 1, &buffer);
            assert_eq!(party.endpoint.probe(selector), Ok(None));
            assert!(
                party
                    .endpoint
                    .matched_probe(selector)
                    .expect("claim")
                    .is_none()
            );
            if number.is_multiple_of(4) {
                check(number, &claim.recv_vec().expect("receive"));
            } else {
                let status = claim.recv(&mut buffer).expect("receive");
                assert_eq!((status.peer, status.len), (party.other(), len as u64));
                check(number, &buffer);
            }
            party.meet();
        }
    });
}

/// Thrown away, but its sender is not left waiting.
pub fn a_dropped_claim_completes_its_sender<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in SHORT_AND_LONG.into_iter().enumerate() {
            let number = number as u64;
            if party.rank == 0 {
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, len))
                    .expect("send");
                party.endpoint.send(party.other(), 9, &[]).expect("send");
                party.meet();
            } else {
                let selector = Selector::exact(party.other(), TAG);
                drop(party.endpoint.wait_matched_probe(selector).expect("claim"));
                party
                    .endpoint
                    .recv((party.other(), 9), &mut [])
                    .expect("recv");
                assert_eq!(party.endpoint.probe(Selector::any()), Ok(None));
                party.meet();
            }
        }
    });
}

/// As any other receive.
pub fn a_claim_into_a_short_buffer_is_truncated<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in [30_usize, 5000, 300_000].into_iter().enumerate() {
            let number = number as u64;
            if party.rank == 0 {
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, len))
                    .expect("send");
            } else {
                let selector = Selector::exact(party.other(), TAG);
                let claim = party.endpoint.wait_matched_probe(selector);
                let mut buffer = vec![0xa5; len];
                let outcome = claim.expect("claim").recv(&mut buffer[..len / 2]);
                let wanted = Error::Truncated {
                    peer: party.other(),
                    tag: TAG,
                    sent: len as u64,
                    buffer: len as u64 / 2,
                    immediate: None,
                };
                assert_eq!(outcome, Err(wanted));
                check(number, &buffer[..len / 2]);
                assert!(buffer[len / 2..].iter().all(|byte| *byte == 0xa5));
            }
        }
    });
}

/// Claimed out of the middle, received at the end.
pub fn claims_keep_the_order_of_the_rest<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const MESSAGES: u64 = 40;
        if party.rank == 0 {
            let mut random = party.random(1);
            let sends: Vec<_> = (0..MESSAGES)
                .map(|number| {
                    let data = content(number, random.length(16));
                    party
                        .endpoint
                        .isend(party.other(), TAG, data)
                        .expect("isend")
                })
                .collect();
            for send in sends {
                send.wait().expect("send");
            }
            return;
        }
        let selector = Selector::exact(party.other(), TAG);
        let mut claims = Vec::new();
        let mut buffer = vec![0; 1 << 17];
        for number in 0..MESSAGES {
            if number % 3 == 0 {
                let claim = party.endpoint.wait_matched_probe(selector);
                claims.push((number, claim.expect("claim")));
            } else {
                let status = party.endpoint.recv(selector, &mut buffer).expect("recv");
                check(number, &buffer[..status.len as usize]);
            }
        }
        for (number, claim) in claims.into_iter().rev() {
            check(number, &claim.recv_vec().expect("receive"));
        }
    });
}
