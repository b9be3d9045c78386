//! Endpoints that go away in good order.

use limic::{Endpoint, Error, PeerFailure, Selector};

use crate::party::TAG;
use crate::{Case, check, content};

/// Nobody will ever send to them.
pub fn with_pending_receives<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let endpoint = &party.endpoint;
        let exact = endpoint
            .irecv((party.other(), TAG), vec![0; 100])
            .expect("irecv");
        let any = endpoint
            .irecv(Selector::any(), vec![0; 100])
            .expect("irecv");
        drop(
            endpoint
                .irecv((party.other(), 5), vec![0; 1 << 20])
                .expect("irecv"),
        );
        party.meet();
        endpoint.close();
        assert!(exact.wait_buffer().0.is_err());
        assert!(any.wait_buffer().0.is_err());
        endpoint.close();
    });
}

/// Their receiver never asks for them: closing waits for the linger time at most.
pub fn with_unmatched_sends<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            let send = party
                .endpoint
                .isend(party.other(), TAG, content(1, 3 << 20));
            let send = send.expect("isend");
            drop(
                party
                    .endpoint
                    .isend(party.other(), TAG, content(1, 3 << 20))
                    .expect("isend"),
            );
            drop(
                party
                    .endpoint
                    .isend(party.other(), TAG, content(1, 100))
                    .expect("isend"),
            );
            party.endpoint.close();
            let (outcome, buffer) = send.wait_buffer();
            assert!(outcome.is_err(), "{outcome:?}");
            check(1, &buffer);
        }
        party.meet();
    });
}

/// An error each time, and never a crash.
pub fn calls_after_close_are_refused<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        endpoint.send(other, TAG, b"before").expect("send");
        endpoint.recv((other, TAG), &mut [0; 6]).expect("recv");
        let region = endpoint.region(vec![0; 100]).expect("a region");
        let loan = endpoint.loan(100).expect("a loan");
        party.meet();
        endpoint.close();
        for to in [other, party.peers[party.rank as usize]] {
            assert!(endpoint.send(to, TAG, b"after").is_err());
            assert!(endpoint.send(to, TAG, &vec![0; 1 << 20]).is_err());
            assert!(endpoint.recv((to, TAG), &mut [0; 6]).is_err());
        }
        assert!(endpoint.recv(Selector::any(), &mut [0; 6]).is_err());
        assert!(loan.send(other, TAG).is_err());
        assert!(endpoint.read(other, region.key(), 0, &mut [0; 8]).is_err());
        assert!(endpoint.wait_probe((other, TAG)).is_err());
        // Only that they come back.
        let _ = endpoint.probe(Selector::any());
        let _ = endpoint.loan(100);
        drop(region);
        endpoint.progress();
    });
}

/// The other side learns that it was closed, and by whom.
pub fn a_closed_peer_is_told<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        endpoint.send(other, TAG, b"hello").expect("send");
        endpoint.recv((other, TAG), &mut [0; 5]).expect("recv");
        if party.rank == 0 {
            party.meet();
            endpoint.close();
            return;
        }
        let wanted = Error::PeerFailed {
            peer: other,
            why: PeerFailure::Closed,
        };
        let posted = endpoint.irecv((other, TAG), vec![0; 8]).expect("irecv");
        party.meet();
        assert_eq!(posted.wait_buffer().0, Err(wanted.clone()));
        assert_eq!(endpoint.send(other, TAG, b"too late"), Err(wanted.clone()));
        assert_eq!(
            endpoint.send(other, TAG, &vec![0; 1 << 20]),
            Err(wanted.clone())
        );
        assert_eq!(endpoint.recv((other, TAG), &mut [0; 8]), Err(wanted));
    });
}

/// Short messages that were sent before the sender closed can be received after it.
pub fn what_was_sent_before_is_delivered<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        endpoint.send(other, TAG, b"hello").expect("send");
        endpoint.recv((other, TAG), &mut [0; 5]).expect("recv");
        if party.rank == 0 {
            for number in 0..50_u64 {
                endpoint
                    .send(other, number, &content(number, 40))
                    .expect("send");
            }
            endpoint.close();
            party.meet();
        } else {
            party.meet();
            for number in 0..50_u64 {
                let mut buffer = [0; 40];
                endpoint
                    .recv((other, number), &mut buffer)
                    .expect("sent before");
                check(number, &buffer);
            }
            let after = endpoint.recv((other, TAG), &mut [0; 8]);
            assert!(matches!(after, Err(Error::PeerFailed { .. })), "{after:?}");
        }
    });
}
