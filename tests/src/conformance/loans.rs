//! Buffers in shared memory that are handed over.

use limic::{Endpoint, Error, Selector, wait_all};

use crate::party::TAG;
use crate::{Case, Party, check, content};

const LENGTHS: [usize; 6] = [1, 48, 4096, 100_000, 1 << 20, (2 << 20) + 3];
/// Loans are asked for up to so many, so that a case ends even where memory does not.
const MANY: usize = 600;

fn send_loan<E: Endpoint>(party: &Party<E>, number: u64, len: usize) {
    let mut loan = party.endpoint.loan(len).expect("a loan");
    assert_eq!(loan.len(), len);
    loan.copy_from_slice(&content(number, len));
    check(number, &loan);
    loan.send(party.other(), TAG).expect("send");
}

/// Built by the sender and read by the receiver where it lies.
pub fn received_in_place<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0..).zip(LENGTHS) {
            for again in 0..3 {
                if party.rank == 0 {
                    send_loan(party, number * 3 + again, len);
                    continue;
                }
                let loaned = party
                    .endpoint
                    .recv_loaned((party.other(), TAG))
                    .expect("a loan");
                let status = loaned.status();
                assert_eq!(
                    (status.peer, status.tag, status.len),
                    (party.other(), TAG, len as u64)
                );
                assert_eq!((loaned.len(), loaned.is_empty()), (len, false));
                check(number * 3 + again, &loaned.to_vec());
                let bytes = loaned.bytes().iter().map(limic::LoanedByte::load);
                check(number * 3 + again, &bytes.collect::<Vec<u8>>());
                let mut last = [0; 1];
                loaned.copy_to(len - 1, &mut last).expect("within");
                assert_eq!(last[0], loaned.to_vec()[len - 1]);
                let outside = loaned.copy_to(len, &mut last);
                assert!(
                    matches!(outside, Err(Error::OutOfRegion { .. })),
                    "{outside:?}"
                );
                assert!(loaned.copy_to(usize::MAX, &mut last).is_err());
            }
        }
    });
}

/// An ordinary receive takes a loan too, posted first or later.
pub fn received_into_a_buffer<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0..).zip(LENGTHS) {
            for post_first in [true, false] {
                if party.rank == 0 {
                    party.meet();
                    send_loan(party, number, len);
                    party.meet();
                    continue;
                }
                let buffer = if post_first {
                    let receive = party.endpoint.irecv((party.other(), TAG), vec![0; len]);
                    party.meet();
                    receive.expect("irecv").wait().expect("receive").1
                } else {
                    party.meet();
                    party.endpoint.wait_probe(Selector::any()).expect("probe");
                    let mut buffer = vec![0; len];
                    party
                        .endpoint
                        .recv((party.other(), TAG), &mut buffer)
                        .expect("recv");
                    buffer
                };
                check(number, &buffer);
                party.meet();
            }
        }
    });
}

/// A receiver in place need not know how the sender sent.
pub fn ordinary_messages_received_in_place<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0..).zip([0_usize, 1, 48, 4096, 100_000, 1 << 20]) {
            if party.rank == 0 {
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, len))
                    .expect("send");
            } else {
                let loaned = party
                    .endpoint
                    .recv_loaned(Selector::any())
                    .expect("a message");
                assert_eq!(loaned.len(), len);
                check(number, &loaned.to_vec());
            }
        }
    });
}

/// The limit is a clear error, and dropping a loan makes room again.
pub fn exhaustion_recovers<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let endpoint = &party.endpoint;
        let mut held = Vec::new();
        let error = loop {
            match endpoint.loan(4 << 20) {
                Ok(loan) => held.push(loan),
                Err(error) => break error,
            }
            assert!(held.len() < MANY, "the endpoint has a limit");
        };
        assert!(matches!(error, Error::NoMemory(_)), "{error:?}");
        assert!(
            error.to_string().chars().any(|c| c.is_ascii_digit()),
            "it names the limit: {error}"
        );
        assert!(!held.is_empty());
        held.pop();
        held.push(endpoint.loan(4 << 20).expect("there is room again"));
        held.clear();
        let absurd = endpoint
            .loan(usize::MAX)
            .expect_err("no machine has that much");
        assert!(matches!(absurd, Error::NoMemory(_)), "{absurd:?}");
        let absurd = endpoint
            .loan(usize::MAX / 2 + 1)
            .expect_err("no machine has that much");
        assert!(matches!(absurd, Error::NoMemory(_)), "{absurd:?}");
        endpoint.loan(1000).expect("and it goes on");
    });
}

/// Many more loans than there is room for at once: what the receiver drops comes back.
pub fn room_comes_back<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const LEN: usize = 1 << 20;
        for number in 0..64_u64 {
            if party.rank == 0 {
                let mut loan = loop {
                    match party.endpoint.loan(LEN) {
                        Ok(loan) => break loan,
                        // The receiver has not dropped the earlier ones yet.
                        Err(Error::NoMemory(_)) => party.endpoint.progress(),
                        Err(error) => panic!("{error}"),
                    };
                };
                loan[..8].copy_from_slice(&number.to_le_bytes());
                loan[LEN - 8..].copy_from_slice(&number.to_le_bytes());
                loan.send(party.other(), TAG).expect("send");
            } else {
                let loaned = party
                    .endpoint
                    .recv_loaned((party.other(), TAG))
                    .expect("a loan");
                for at in [0, LEN - 8] {
                    let mut word = [0; 8];
                    loaned.copy_to(at, &mut word).expect("within");
                    assert_eq!(u64::from_le_bytes(word), number);
                }
            }
        }
    });
}

/// Only the first bytes, or none of it.
pub fn part_of_a_loan<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            for part in [0, 1, 5000] {
                let mut loan = party.endpoint.loan(5000).expect("a loan");
                loan.copy_from_slice(&content(1, 5000));
                let status = loan.send_first(part, party.other(), TAG).expect("send");
                assert_eq!(status.len, part as u64);
            }
            let loan = party.endpoint.loan(50).expect("a loan");
            let outcome = loan.send_first(51, party.other(), TAG);
            assert!(
                matches!(outcome, Err(Error::OutOfRegion { .. })),
                "{outcome:?}"
            );
        } else {
            for part in [0, 1, 5000] {
                let loaned = party
                    .endpoint
                    .recv_loaned((party.other(), TAG))
                    .expect("a loan");
                assert_eq!(loaned.len(), part);
                check(1, &loaned.to_vec());
            }
        }
    });
}

/// A loan without bytes is a message without bytes.
pub fn of_no_bytes<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            for _ in 0..2 {
                let loan = party.endpoint.loan(0).expect("a loan");
                assert!(loan.is_empty());
                loan.send(party.other(), TAG).expect("send");
            }
        } else {
            assert!(
                party
                    .endpoint
                    .recv_loaned((party.other(), TAG))
                    .expect("a loan")
                    .is_empty()
            );
            let status = party.endpoint.recv((party.other(), TAG), &mut []);
            assert_eq!(status.map(|status| status.len), Ok(0));
        }
    });
}

/// To oneself, received both ways.
pub fn to_self_in_place<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let (endpoint, me) = (&party.endpoint, party.endpoint.myself());
        for (number, len) in (0..).zip([100_usize, 5000, 1 << 20]) {
            let mut loan = endpoint.loan(len).expect("a loan");
            loan.copy_from_slice(&content(number, len));
            let receive = endpoint.irecv((me, TAG), vec![0; len]).expect("irecv");
            loan.send(me, TAG).expect("send");
            check(number, &receive.wait().expect("receive").1);
        }
    });
}

/// A received loan can be read after everything else is gone.
pub fn outlive_their_endpoint<E: Endpoint>(case: &Case<E>) {
    let open = case.opener();
    case.run(2, move |party| {
        const LEN: usize = 300_000;
        let endpoint = open().expect("another endpoint");
        let blobs = party.link.exchange(&endpoint.address().to_bytes());
        let blob = blobs[1 - party.rank as usize]
            .as_ref()
            .expect("the other rank");
        let other = endpoint.connect(blob).expect("an address");
        // The two meet first, so that the loan goes as one.
        endpoint.send(other, 1, &[]).expect("send");
        endpoint.recv((other, 1), &mut []).expect("recv");
        if party.rank == 0 {
            let mut loan = endpoint.loan(LEN).expect("a loan");
            loan.copy_from_slice(&content(1, LEN));
            loan.send(other, TAG).expect("send");
            endpoint.recv((other, 2), &mut []).expect("recv");
            drop(endpoint);
            party.meet();
        } else {
            let loaned = endpoint.recv_loaned((other, TAG)).expect("a loan");
            endpoint.send(other, 2, &[]).expect("send");
            party.meet();
            drop(endpoint);
            let bytes = std::thread::spawn(move || loaned.to_vec())
                .join()
                .expect("a thread");
            check(1, &bytes);
        }
    });
}

/// A received loan keeps its bytes when its receiver's endpoint is gone, whatever the sender lends
/// next; and its room comes back.
pub fn outlive_their_receiver<E: Endpoint>(case: &Case<E>) {
    let open = case.opener();
    case.run(2, move |party| {
        const LEN: usize = 300_000;
        if party.rank == 0 {
            let mut loan = party.endpoint.loan(LEN).expect("a loan");
            loan.copy_from_slice(&content(1, LEN));
            let blobs = party.link.exchange(&[]);
            let blob = blobs[1].as_ref().expect("the other rank");
            let other = party.endpoint.connect(blob).expect("an address");
            loan.send(other, TAG).expect("send");
            // Its endpoint is closed then.
            let gone = loop {
                if let Err(gone) = party.endpoint.send(other, TAG, &[]) {
                    break gone;
                }
                party.endpoint.progress();
            };
            assert!(matches!(gone, Error::PeerFailed { .. }), "{gone:?}");
            let next: Vec<_> = (0..20)
                .map(|_| {
                    let mut next = party.endpoint.loan(LEN).expect("a loan");
                    next.fill(0);
                    next
                })
                .collect();
            party.meet();
            party.meet();
            drop(next);
        } else {
            let endpoint = open().expect("another endpoint");
            let blobs = party.link.exchange(&endpoint.address().to_bytes());
            assert!(blobs[0].is_some());
            let loaned = endpoint.recv_loaned(Selector::any()).expect("a loan");
            drop(endpoint);
            party.meet();
            check(1, &loaned.to_vec());
            party.meet();
        }
    });
}

/// A loan does not overtake a message, nor the other way round.
pub fn in_order_with_messages<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(1);
        let mut buffer = vec![0; 1 << 17];
        for number in 0..200_u64 {
            let (len, lent, in_place) = (
                1 + random.length(16),
                random.below(2) == 0,
                random.below(2) == 0,
            );
            if party.rank == 0 {
                if lent {
                    let mut loan = loop {
                        match party.endpoint.loan(len) {
                            Ok(loan) => break loan,
                            Err(_) => party.endpoint.progress(),
                        };
                    };
                    loan.copy_from_slice(&content(number, len));
                    loan.send(party.other(), TAG).expect("send");
                } else {
                    drop(
                        party
                            .endpoint
                            .isend(party.other(), TAG, content(number, len))
                            .expect("isend"),
                    );
                }
            } else if in_place {
                let loaned = party
                    .endpoint
                    .recv_loaned(Selector::any())
                    .expect("a message");
                assert_eq!(loaned.len(), len);
                check(number, &loaned.to_vec());
            } else {
                let status = party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                assert_eq!(status.len, len as u64);
                check(number, &buffer[..len]);
            }
        }
    });
}

/// An ordinary receive that is too short for a loan, posted first and later; the room comes back.
pub fn truncated_loans<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for number in 0..40_u64 {
            let len = 600_000;
            if party.rank == 0 {
                send_loan(party, number, len);
                party
                    .endpoint
                    .recv((party.other(), 9), &mut [])
                    .expect("recv");
                continue;
            }
            let mut buffer = vec![0xa5; 2000];
            if number % 2 == 0 {
                party.endpoint.wait_probe(Selector::any()).expect("probe");
            }
            let outcome = party
                .endpoint
                .recv((party.other(), TAG), &mut buffer[..1000]);
            let wanted = Error::Truncated {
                peer: party.other(),
                tag: TAG,
                sent: len as u64,
                buffer: 1000,
                immediate: None,
            };
            assert_eq!(outcome, Err(wanted));
            check(number, &buffer[..1000]);
            assert!(buffer[1000..].iter().all(|byte| *byte == 0xa5));
            party.endpoint.send(party.other(), 9, &[]).expect("send");
        }
    });
}

/// Sends of loans under way together: waited for, asked, or left alone.
pub fn sends_that_go_on<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        if party.rank == 1 {
            for number in 0..LENGTHS.len() as u64 {
                for _ in 0..3 {
                    let loaned = endpoint.recv_loaned((other, TAG)).expect("a loan");
                    check(number, &loaned.to_vec());
                }
            }
            return;
        }
        for (number, len) in (0..).zip(LENGTHS) {
            let start = || {
                let mut loan = endpoint.loan(len).expect("a loan");
                loan.copy_from_slice(&content(number, len));
                loan.isend(other, TAG).expect("isend")
            };
            let (waited, mut asked) = (start(), start());
            drop(start());
            while !asked.test() {
                std::thread::yield_now();
            }
            for outcome in wait_all([waited, asked]) {
                assert_eq!(outcome.expect("send").len, len as u64);
            }
        }
    });
}
