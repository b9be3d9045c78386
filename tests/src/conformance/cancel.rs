//! Cancellation: either it did not happen at all, or it happened as usual.

use limic::{Endpoint, Error, Selector, Tag};

use crate::party::TAG;
use crate::{Case, check, content};

/// It ends with `Cancelled`, and the message goes to the next receive.
pub fn a_posted_receive<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in [0_usize, 48, 4000, 400_000].into_iter().enumerate() {
            let number = number as u64;
            if party.rank == 0 {
                party.meet();
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, len))
                    .expect("send");
                continue;
            }
            for selector in [Selector::exact(party.other(), TAG), Selector::any()] {
                let receive = party.endpoint.irecv(selector, vec![7; len]).expect("irecv");
                receive.cancel().expect("cancel");
                let (outcome, buffer) = receive.wait_buffer();
                assert_eq!(outcome, Err(Error::Cancelled));
                assert!(buffer.iter().all(|byte| *byte == 7));
            }
            party.meet();
            let mut buffer = vec![0; len];
            party
                .endpoint
                .recv((party.other(), TAG), &mut buffer)
                .expect("recv");
            check(number, &buffer);
        }
    });
}

/// The receiver never sees it.
pub fn an_unmatched_long_send<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for len in [400_000_usize, 3 << 20] {
            if party.rank == 0 {
                let data = content(1, len);
                let send = party
                    .endpoint
                    .isend(party.other(), TAG, data)
                    .expect("isend");
                // It has arrived when this one is answered.
                party.endpoint.send(party.other(), 8, &[]).expect("send");
                party
                    .endpoint
                    .recv((party.other(), 8), &mut [])
                    .expect("recv");
                send.cancel().expect("cancel");
                let (outcome, buffer) = send.wait_buffer();
                assert_eq!(outcome.map(|_| ()), Err(Error::Cancelled));
                check(1, &buffer);
                party.endpoint.send(party.other(), 9, &[]).expect("send");
            } else {
                party
                    .endpoint
                    .recv((party.other(), 8), &mut [])
                    .expect("recv");
                assert!(
                    party
                        .endpoint
                        .probe(Selector::any())
                        .expect("probe")
                        .is_some()
                );
                party.endpoint.send(party.other(), 8, &[]).expect("send");
                party
                    .endpoint
                    .recv((party.other(), 9), &mut [])
                    .expect("recv");
                assert_eq!(party.endpoint.probe(Selector::any()), Ok(None));
            }
            party.meet();
        }
    });
}

/// A send whose message was claimed goes on.
pub fn too_late_for_a_matched_send<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let len = 400_000;
        if party.rank == 0 {
            let send = party
                .endpoint
                .isend(party.other(), TAG, content(1, len))
                .expect("isend");
            party
                .endpoint
                .recv((party.other(), 8), &mut [])
                .expect("recv");
            send.cancel().expect("cancel");
            party.endpoint.send(party.other(), 9, &[]).expect("send");
            send.wait().expect("it was too late to cancel");
        } else {
            let selector = Selector::exact(party.other(), TAG);
            let claim = party.endpoint.wait_matched_probe(selector);
            let claim = claim.expect("claim");
            party.endpoint.send(party.other(), 8, &[]).expect("send");
            party
                .endpoint
                .recv((party.other(), 9), &mut [])
                .expect("recv");
            check(1, &claim.recv_vec().expect("receive"));
        }
    });
}

/// A short send is done at once; cancelling it afterwards changes nothing.
pub fn too_late_for_a_finished_request<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            let mut send = party
                .endpoint
                .isend(party.other(), TAG, content(1, 20))
                .expect("isend");
            while !send.test() {}
            send.cancel().expect("nothing to cancel");
            send.wait().expect("send");
        } else {
            let mut receive = party
                .endpoint
                .irecv((party.other(), TAG), vec![0; 20])
                .expect("irecv");
            while !receive.test() {}
            receive.cancel().expect("nothing to cancel");
            check(1, &receive.wait().expect("receive").1);
        }
    });
}

/// Sends are cancelled while the receiver takes them: each is seen by both sides or by none.
pub fn races_end_one_way_or_the_other<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const ROUNDS: u64 = 120;
        const END: Tag = Tag(ROUNDS);
        let mut random = party.random(party.rank.into());
        if party.rank == 0 {
            let mut delivered = Vec::new();
            for number in 0..ROUNDS {
                let data = content(number, 20_000 + random.length(16));
                let send = party
                    .endpoint
                    .isend(party.other(), number, data)
                    .expect("isend");
                for _ in 0..random.below(200) {
                    party.endpoint.progress();
                }
                send.cancel().expect("cancel");
                match send.wait_buffer() {
                    (Ok(_), _) => delivered.push(number),
                    (Err(Error::Cancelled), buffer) => check(number, &buffer),
                    (Err(error), _) => panic!("{error}"),
                }
            }
            let list: Vec<u8> = delivered.iter().flat_map(|n| n.to_le_bytes()).collect();
            party
                .endpoint
                .send(party.other(), END, &list)
                .expect("send");
            println!("{} of {ROUNDS} were delivered", delivered.len());
            return;
        }
        let mut seen = Vec::new();
        loop {
            let claim = party.endpoint.wait_matched_probe(Selector::any());
            let claim = claim.expect("claim");
            let status = claim.status();
            let tag = status.tag;
            let data = match claim.recv_vec() {
                Ok(data) => data,
                Err(error) => panic!("{status:?}: {error}"),
            };
            if tag == END {
                let delivered: Vec<u64> = data
                    .chunks_exact(8)
                    .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
                    .collect();
                assert_eq!(seen, delivered);
                return;
            }
            check(tag.0, &data);
            seen.push(tag.0);
        }
    });
}
