//! An endpoint that sends to itself.

use limic::{Endpoint, Error, Selector};

use super::sizes::lengths;
use crate::party::TAG;
use crate::{Case, check, content};

/// Every length, posted first.
pub fn short_and_long<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let me = party.endpoint.myself();
        for (number, len) in (0..).zip(lengths()) {
            let mut buffer = vec![0; len];
            let data = content(number, len);
            let status = party
                .endpoint
                .send_recv(me, TAG, &data, (me, TAG), &mut buffer);
            let status = status.expect("exchange");
            assert_eq!((status.peer, status.tag, status.len), (me, TAG, len as u64));
            check(number, &buffer);
        }
    });
}

/// Sent before it is asked for, seen by probes, in order.
pub fn unexpected_and_posted<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let (endpoint, me) = (&party.endpoint, party.endpoint.myself());
        let sends: Vec<_> = (0..)
            .zip([1_usize, 200_000, 0, 5000])
            .map(|(number, len)| {
                endpoint
                    .isend(me, TAG, content(number, len))
                    .expect("isend")
            })
            .collect();
        let status = endpoint.probe(Selector::any_source(TAG)).expect("probe");
        assert_eq!(status.map(|status| status.len), Some(1));
        let first = endpoint
            .matched_probe((me, TAG))
            .expect("claim")
            .expect("there");
        let mut buffer = vec![0; 200_000];
        endpoint.recv(Selector::any(), &mut buffer).expect("recv");
        check(1, &buffer);
        check(0, &first.recv_vec().expect("receive"));
        for (number, len) in [(2, 0), (3, 5000)] {
            let status = endpoint.recv((me, TAG), &mut buffer).expect("recv");
            assert_eq!(status.len, len as u64);
            check(number, &buffer[..len]);
        }
        for send in sends {
            send.wait().expect("send");
        }
    });
}

/// As from anybody else.
pub fn truncated<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let (endpoint, me) = (&party.endpoint, party.endpoint.myself());
        for len in [8_usize, 5000, 300_000] {
            for post_first in [true, false] {
                let (data, mut buffer) = (content(1, len), vec![0xa5; len]);
                let outcome = endpoint.scope(|scope| {
                    let room = &mut buffer[..len / 2];
                    if post_first {
                        let receive = scope.irecv((me, TAG), room)?;
                        scope.isend(me, TAG, &data)?.wait()?;
                        receive.wait().map(|_| ())
                    } else {
                        let send = scope.isend(me, TAG, &data)?;
                        let outcome = scope.irecv((me, TAG), room)?.wait().map(|_| ());
                        send.wait()?;
                        outcome
                    }
                });
                let (sent, room) = (len as u64, len as u64 / 2);
                let (peer, tag) = (me, TAG);
                assert_eq!(
                    outcome,
                    Err(Error::Truncated {
                        peer,
                        tag,
                        sent,
                        buffer: room,
                        immediate: None,
                    })
                );
                check(1, &buffer[..len / 2]);
                assert!(buffer[len / 2..].iter().all(|byte| *byte == 0xa5));
            }
        }
    });
}

/// Short and long messages keep their order, also after the endpoint has read and written a region
/// of its own.
pub fn in_order_after_access_to_itself<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let (endpoint, me) = (&party.endpoint, party.endpoint.myself());
        let region = endpoint.region(content(1, 100)).expect("a region");
        let mut found = [0; 100];
        endpoint
            .read(me, region.key(), 0, &mut found)
            .expect("read");
        check(1, &found);
        endpoint
            .write(me, region.key(), 0, &content(2, 100))
            .expect("write");
        check(2, &region.revoke().expect("revoke"));
        let lengths = [8, 10_000, 8, 200_000, 3000, 0, 100];
        for round in 0..20 {
            let sends: Vec<_> = (0..)
                .zip(lengths)
                .map(|(number, len)| {
                    endpoint
                        .isend(me, TAG, content(number, len))
                        .expect("isend")
                })
                .collect();
            for (number, len) in (0..).zip(lengths) {
                let mut buffer = vec![0; 200_000];
                let status = endpoint.recv((me, TAG), &mut buffer).expect("recv");
                assert_eq!(status.len, len as u64, "message {number} of round {round}");
                check(number, &buffer[..len]);
            }
            for send in sends {
                send.wait().expect("send");
            }
        }
    });
}

/// A long send to oneself that nobody receives, and a receive that nobody meets.
pub fn cancelled<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let (endpoint, me) = (&party.endpoint, party.endpoint.myself());
        let send = endpoint.isend(me, TAG, content(1, 1 << 20)).expect("isend");
        send.cancel().expect("cancel");
        match send.wait_buffer() {
            (Err(Error::Cancelled), buffer) => check(1, &buffer),
            // An endpoint may have copied it already; then it is there.
            (Ok(_), _) => {
                endpoint
                    .recv((me, TAG), &mut vec![0; 1 << 20])
                    .expect("recv");
            }
            (Err(error), _) => panic!("{error}"),
        }
        assert_eq!(endpoint.probe(Selector::any()), Ok(None));
        let receive = endpoint.irecv((me, TAG), vec![0; 8]).expect("irecv");
        receive.cancel().expect("cancel");
        assert_eq!(receive.wait_buffer().0, Err(Error::Cancelled));
        // Left behind: the endpoint is dropped with it.
        drop(endpoint.isend(me, TAG, content(1, 1 << 20)).expect("isend"));
    });
}
