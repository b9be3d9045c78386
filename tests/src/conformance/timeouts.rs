//! Waiting no longer than one wants to.

use core::time::Duration;

use limic::{Endpoint, wait_all, wait_all_timeout, wait_any_timeout, wait_some_timeout};

use crate::party::TAG;
use crate::{Case, check, content};

const SHORT: Duration = Duration::from_millis(5);
/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(3600);
const LENGTHS: [usize; 4] = [0, 40, 5000, 1 << 20];

/// A call whose message does not come gives up, and takes nothing from the calls after it.
pub fn calls_give_up<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, from) = (&party.endpoint, (party.other(), TAG));
        if party.rank == 0 {
            party.meet();
            for (number, len) in (0..).zip(LENGTHS) {
                for _ in 0..4 {
                    endpoint
                        .send(party.other(), TAG, &content(number, len))
                        .expect("send");
                }
            }
            return;
        }
        let mut room = vec![0; 1 << 20];
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(endpoint.recv_timeout(from, &mut room, timeout), Ok(None));
            assert_eq!(endpoint.wait_probe_timeout(from, timeout), Ok(None));
            let claimed = endpoint.wait_matched_probe_timeout(from, timeout);
            assert!(claimed.expect("none").is_none());
            let loaned = endpoint.recv_loaned_timeout(from, timeout).expect("none");
            assert!(loaned.is_none());
        }
        party.meet();
        for (number, len) in (0..).zip(LENGTHS) {
            let status = endpoint.wait_probe_timeout(from, LONG).expect("probe");
            assert_eq!(status.expect("in time").len, len as u64);
            let status = endpoint.recv_timeout(from, &mut room, LONG);
            assert_eq!(status.expect("receive").expect("in time").len, len as u64);
            check(number, &room[..len]);
            let loaned = endpoint.recv_loaned_timeout(from, LONG).expect("receive");
            check(number, &loaned.expect("in time").to_vec());
            let claimed = endpoint.wait_matched_probe_timeout(from, LONG);
            let claimed = claimed.expect("claim").expect("in time");
            check(number, &claimed.recv_vec().expect("receive"));
            // A duration that no clock can count is one without end.
            let status = endpoint.recv_timeout(from, &mut room, Duration::MAX);
            assert_eq!(status.expect("receive").expect("in time").len, len as u64);
        }
    });
}

/// Requests that are not done in time stay, and are done later.
pub fn requests_stay<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let endpoint = &party.endpoint;
        if party.rank == 0 {
            party.meet();
            for (number, len) in (0..).zip(LENGTHS) {
                let data = content(number, len);
                let mut send = endpoint.isend(party.other(), number, data).expect("isend");
                assert!(send.wait_timeout(LONG));
                check(number, &send.wait().expect("send"));
            }
            return;
        }
        let receives = (0..).zip(LENGTHS).map(|(number, len)| {
            let from = (party.other(), number);
            endpoint.irecv(from, vec![0; len]).expect("irecv")
        });
        let mut receives: Vec<_> = receives.collect();
        for timeout in [Duration::ZERO, SHORT] {
            assert!(!receives[0].wait_timeout(timeout));
            assert!(wait_any_timeout(endpoint, &mut receives, timeout).is_none());
            assert!(wait_some_timeout(endpoint, &mut receives, timeout).is_empty());
            assert!(!wait_all_timeout(&mut receives, timeout));
            assert_eq!(receives.len(), LENGTHS.len());
        }
        party.meet();
        assert!(wait_all_timeout(&mut receives, LONG));
        assert!(
            wait_all_timeout(&mut receives, Duration::ZERO),
            "they stay done"
        );
        for (number, (outcome, buffer)) in (0..).zip(wait_all(receives)) {
            outcome.expect("receive");
            check(number, &buffer);
        }
    });
}

/// A scope's requests, too.
pub fn in_a_scope<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        let number = u64::from(party.rank);
        let (data, mut room) = (content(number, 1 << 20), vec![0; 1 << 20]);
        let over = endpoint.scope(|scope| {
            let mut receive = scope.irecv((other, TAG), &mut room)?;
            assert!(!receive.wait_timeout(SHORT));
            party.meet();
            let mut send = scope.isend(other, TAG, &data)?;
            assert!(receive.wait_timeout(LONG) && send.wait_timeout(LONG));
            send.wait()?;
            receive.wait().map(drop)
        });
        over.expect("both");
        check(1 - number, &room);
    });
}
