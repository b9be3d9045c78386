//! Requests: test, wait for one, any and all; exchanges that would deadlock with blocking calls.

use limic::raw::{Posted, RawSliceMut};
use limic::{Endpoint, Error, Peer, Selector, wait_all, wait_any, wait_some};

use crate::party::TAG;
use crate::{Case, check, content};

/// `test` alone moves messages along, on both sides.
pub fn test_until_done<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in [0_usize, 40, 3000, 2 << 20].into_iter().enumerate() {
            let number = number as u64;
            if party.rank == 0 {
                let data = content(number, len);
                let mut send = party
                    .endpoint
                    .isend(party.other(), TAG, data)
                    .expect("isend");
                while !send.test() {
                    std::thread::yield_now();
                }
                assert!(send.test(), "it stays done");
                check(number, &send.wait().expect("send"));
            } else {
                let receive = party.endpoint.irecv((party.other(), TAG), vec![0; len]);
                let mut receive = receive.expect("irecv");
                while !receive.test() {
                    std::thread::yield_now();
                }
                check(number, &receive.wait().expect("receive").1);
            }
        }
    });
}

/// Every request comes out exactly once, with its own buffer.
pub fn wait_any_takes_each_once<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const REQUESTS: u64 = 40;
        let mut random = party.random(1);
        let lengths: Vec<usize> = (0..REQUESTS).map(|_| 8 + random.length(17)).collect();
        let mut tags: Vec<u64> = (0..REQUESTS).collect();
        random.shuffle(&mut tags);
        if party.rank == 0 {
            party.meet();
            let mut sends: Vec<_> = tags
                .iter()
                .map(|tag| {
                    let data = content(*tag, lengths[*tag as usize]);
                    party
                        .endpoint
                        .isend(party.other(), *tag, data)
                        .expect("isend")
                })
                .collect();
            while let Some((_, (outcome, _))) = wait_any(&party.endpoint, &mut sends) {
                outcome.expect("send");
            }
        } else {
            let mut receives: Vec<_> = (0..REQUESTS)
                .map(|tag| {
                    let buffer = vec![0; lengths[tag as usize]];
                    party
                        .endpoint
                        .irecv((party.other(), tag), buffer)
                        .expect("irecv")
                })
                .collect();
            party.meet();
            let mut seen = vec![false; REQUESTS as usize];
            while let Some((_, (outcome, buffer))) = wait_any(&party.endpoint, &mut receives) {
                let status = outcome.expect("receive");
                assert!(!core::mem::replace(&mut seen[status.tag.0 as usize], true));
                assert_eq!(status.len, buffer.len() as u64);
                check(status.tag.0, &buffer);
            }
            assert!(seen.iter().all(|seen| *seen));
        }
    });
}

/// What is done comes out with its place, and the rest keeps its order.
pub fn wait_some_takes_what_is_done<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const REQUESTS: u64 = 12;
        let len = |tag: u64| if tag.is_multiple_of(3) { 1 << 20 } else { 40 };
        let (endpoint, other) = (&party.endpoint, party.other());
        if party.rank == 0 {
            party.meet();
            let mut tags: Vec<u64> = (0..REQUESTS).collect();
            party.random(1).shuffle(&mut tags);
            for tag in tags {
                endpoint
                    .send(other, tag, &content(tag, len(tag)))
                    .expect("send");
            }
            return;
        }
        let receives = (0..REQUESTS).map(|tag| {
            let buffer = vec![0; len(tag)];
            endpoint.irecv((other, tag), buffer).expect("irecv")
        });
        let mut receives: Vec<_> = receives.collect();
        let mut left: Vec<u64> = (0..REQUESTS).collect();
        party.meet();
        while !receives.is_empty() {
            let some = wait_some(endpoint, &mut receives);
            assert!(!some.is_empty());
            let mut taken = Vec::new();
            for (at, (outcome, buffer)) in some {
                let tag = outcome.expect("receive").tag.0;
                assert_eq!(tag, left[at]);
                check(tag, &buffer);
                taken.push(tag);
            }
            left.retain(|tag| !taken.contains(tag));
            assert_eq!(receives.len(), left.len());
        }
        assert!(wait_some(endpoint, &mut receives).is_empty());
    });
}

/// Results come in the order of the requests.
pub fn wait_all_keeps_the_order<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let lengths = [100_000_usize, 3, 0, 5000, 300_000, 48];
        if party.rank == 0 {
            let sends = lengths.iter().enumerate().rev().map(|(tag, len)| {
                let data = content(tag as u64, *len);
                party
                    .endpoint
                    .isend(party.other(), tag as u64, data)
                    .expect("isend")
            });
            let sends: Vec<_> = sends.collect();
            for (outcome, _) in wait_all(sends) {
                outcome.expect("send");
            }
        } else {
            let receives = lengths.iter().enumerate().map(|(tag, len)| {
                let from = (party.other(), tag as u64);
                party.endpoint.irecv(from, vec![0; *len]).expect("irecv")
            });
            let receives: Vec<_> = receives.collect();
            for (tag, (outcome, buffer)) in wait_all(receives).into_iter().enumerate() {
                assert_eq!(outcome.expect("receive").tag.0, tag as u64);
                check(tag as u64, &buffer);
            }
        }
    });
}

/// The last one first.
pub fn waiting_out_of_order<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(2);
        let lengths: Vec<usize> = (0..30).map(|_| random.length(18)).collect();
        if party.rank == 0 {
            let sends = lengths.iter().enumerate().map(|(number, len)| {
                let data = content(number as u64, *len);
                party
                    .endpoint
                    .isend(party.other(), TAG, data)
                    .expect("isend")
            });
            let sends: Vec<_> = sends.collect();
            for send in sends.into_iter().rev() {
                send.wait().expect("send");
            }
        } else {
            let receives = lengths.iter().map(|len| {
                party
                    .endpoint
                    .irecv((party.other(), TAG), vec![0; *len])
                    .expect("irecv")
            });
            let receives: Vec<_> = receives.collect();
            for (number, receive) in receives.into_iter().enumerate().rev() {
                check(number as u64, &receive.wait().expect("receive").1);
            }
        }
    });
}

/// The raw interface frees a request with its result; a stale one is recognised.
pub fn a_finished_request_is_unknown<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let endpoint = &party.endpoint;
        let mut buffer = [0; 8];
        let room = [RawSliceMut::from(&mut buffer[..])];
        // SAFETY: the buffer lives, unused, until the request was cancelled and waited for.
        let posted = unsafe { endpoint.post_recv(&Selector::any(), &room) }.expect("post");
        let Posted::Pending(request) = posted else {
            panic!("nothing was sent")
        };
        assert_eq!(endpoint.test(request), None);
        assert!(!endpoint.is_done(request));
        endpoint.cancel(request).expect("cancel");
        assert_eq!(endpoint.wait(request), Err(Error::Cancelled));
        assert_eq!(endpoint.wait(request), Err(Error::UnknownRequest));
        assert_eq!(endpoint.test(request), Some(Err(Error::UnknownRequest)));
        assert_eq!(endpoint.cancel(request), Err(Error::UnknownRequest));
        assert_eq!(endpoint.wait_any(&[]), None);
        assert_eq!(
            endpoint.wait_any(&[request]),
            Some((0, Err(Error::UnknownRequest)))
        );
        let mut none: Vec<limic::OwnedSend<'_, E>> = Vec::new();
        assert!(wait_any(endpoint, &mut none).is_none());
    });
}

/// Numbers that the endpoint never handed out.
pub fn unknown_peers_are_refused<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let endpoint = &party.endpoint;
        for index in [2, 3, 1 << 20, u32::MAX] {
            let stranger = Peer::from_index(index);
            let refused = |error: Error| {
                assert_eq!(
                    error,
                    Error::UnknownPeer {
                        peer: stranger,
                        known: 2
                    }
                );
                assert!(error.to_string().contains("0 to 1"), "{error}");
            };
            refused(endpoint.send(stranger, TAG, b"x").expect_err("send"));
            refused(endpoint.recv((stranger, TAG), &mut []).expect_err("recv"));
            refused(
                endpoint
                    .probe(Selector::any_tag(stranger))
                    .expect_err("probe"),
            );
            refused(
                endpoint
                    .matched_probe(Selector::any_tag(stranger))
                    .expect_err("claim"),
            );
            refused(endpoint.peer_address(stranger).expect_err("address"));
            refused(endpoint.isend(stranger, TAG, vec![1]).expect_err("isend"));
            let key = limic::RegionKey(1);
            refused(endpoint.read(stranger, key, 0, &mut [0]).expect_err("read"));
            refused(endpoint.write(stranger, key, 0, &[0]).expect_err("write"));
        }
        for (rank, peer) in party.peers.iter().enumerate() {
            let address = endpoint.peer_address(*peer).expect("known");
            assert_eq!(address == endpoint.address(), rank == party.rank as usize);
            assert_eq!(
                endpoint.connect(&address.to_bytes()),
                Ok(*peer),
                "the same peer again"
            );
        }
    });
}

/// Both send at the same time, with one call each.
pub fn large_exchange_both_ways<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for len in [0_usize, 100, 10_000, 200_000, 9 << 20] {
            let data = content(party.rank.into(), len);
            let mut inbox = vec![0; len];
            let from = (party.other(), TAG);
            let status = party
                .endpoint
                .send_recv(party.other(), TAG, &data, from, &mut inbox);
            assert_eq!(status.expect("exchange").len, len as u64);
            check(u64::from(1 - party.rank), &inbox);
        }
    });
}

/// To the right and from the left.
pub fn large_exchange_in_a_ring<E: Endpoint>(case: &Case<E>) {
    case.run(3, |party| {
        let (right, left) = ((party.rank + 1) % 3, (party.rank + 2) % 3);
        for len in [8_usize, 6000, 1 << 20] {
            let data = content(party.rank.into(), len);
            let mut inbox = vec![0; len];
            let (to, from) = (party.peers[right as usize], party.peers[left as usize]);
            let status = party
                .endpoint
                .send_recv(to, TAG, &data, (from, TAG), &mut inbox);
            assert_eq!(status.map(|status| status.peer), Ok(from));
            check(left.into(), &inbox);
        }
    });
}
