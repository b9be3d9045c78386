//! Sleeping endpoints are woken.

use std::time::Duration;

use limic::Endpoint;
use limic::counters::Event;
use rustix::event::{PollFd, PollFlags, poll};

use crate::party::{Party, TAG};
use crate::process::pass;
use crate::{Case, check, content};

/// Long enough for a receiver to run out of patience, on most machines.
const LEFT_ALONE: Duration = Duration::from_millis(60);

/// Sleeps of this rank that something has ended.
fn woken<E: Endpoint>(party: &Party<E>) -> u64 {
    party.endpoint.counters().event(Event::WakeUps)
}

/// It waits in `recv` while its peer does something else.
pub fn a_sleeping_receiver_is_woken<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        // The first contact wakes it in another way.
        party
            .endpoint
            .send_recv(party.other(), TAG, &[], (party.other(), TAG), &mut [])
            .expect("exchange");
        for (number, len) in (0..).zip([0_usize, 8, 5000, 500_000]) {
            let mut left_alone = LEFT_ALONE;
            loop {
                let before = woken(party);
                if party.rank == 0 {
                    pass(left_alone);
                    party
                        .endpoint
                        .send(party.other(), TAG, &content(number, len))
                        .expect("send");
                } else {
                    let mut buffer = vec![0; len];
                    party
                        .endpoint
                        .recv((party.other(), TAG), &mut buffer)
                        .expect("recv");
                    check(number, &buffer);
                }
                // On a machine that is busy enough, the message comes before it has run out of
                // patience. One that only looks around now and then is woken by nobody.
                if party.words(woken(party) - before)[1] > 0 {
                    break;
                }
                left_alone *= 2;
            }
        }
    });
}

/// It waits for the receiver of a long message, and for room in a full ring.
pub fn a_sleeping_sender_is_woken<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for number in 0..2_u64 {
            if party.rank == 0 {
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, 2 << 20))
                    .expect("send");
                let sends: Vec<_> = (0..300)
                    .map(|_| {
                        party
                            .endpoint
                            .isend(party.other(), 1, content(number, 4000))
                            .expect("isend")
                    })
                    .collect();
                for send in sends {
                    send.wait().expect("send");
                }
            } else {
                pass(LEFT_ALONE);
                let mut buffer = vec![0; 2 << 20];
                party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                check(number, &buffer);
                pass(LEFT_ALONE);
                for _ in 0..300 {
                    party
                        .endpoint
                        .recv((party.other(), 1), &mut buffer[..4000])
                        .expect("recv");
                    check(number, &buffer[..4000]);
                }
            }
        }
    });
}

/// What a runtime with a poll loop of its own does; it never calls a waiting function.
pub fn poll_on_the_descriptor<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0..).zip([0_usize, 8, 5000, 500_000, 8]) {
            if party.rank == 0 {
                pass(LEFT_ALONE);
                party
                    .endpoint
                    .send(party.other(), TAG, &content(number, len))
                    .expect("send");
                continue;
            }
            let receive = party.endpoint.irecv((party.other(), TAG), vec![0; len]);
            let mut receive = receive.expect("irecv");
            while !receive.test() {
                if party.endpoint.arm() {
                    let descriptor = party.endpoint.wake_fd();
                    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
                    // Without a limit: what nobody rings for makes it readable all the same.
                    poll(&mut fds, None).expect("poll");
                }
                party.endpoint.progress();
            }
            check(number, &receive.wait().expect("receive").1);
        }
    });
}

/// The same for a sender whose receiver's rings are full, and for the receiver, who waits in its
/// own way.
pub fn poll_while_rings_are_full<E: Endpoint>(case: &Case<E>) {
    const MESSAGES: u64 = 2000;
    case.run(3, |party| {
        if party.rank == 0 {
            pass(LEFT_ALONE);
            for sender in 1..3 {
                for number in 0..MESSAGES {
                    let mut word = [0; 8];
                    party
                        .endpoint
                        .recv((party.peers[sender], TAG), &mut word)
                        .expect("recv");
                    assert_eq!(u64::from_le_bytes(word), number);
                }
            }
            return;
        }
        let (endpoint, to) = (&party.endpoint, party.peers[0]);
        let sends = (0..MESSAGES).map(|number| {
            endpoint
                .isend(to, TAG, number.to_le_bytes().to_vec())
                .expect("isend")
        });
        for mut send in sends.collect::<Vec<_>>() {
            while !send.test() {
                if endpoint.arm() {
                    let mut fds = [PollFd::from_borrowed_fd(endpoint.wake_fd(), PollFlags::IN)];
                    poll(&mut fds, None).expect("poll");
                }
                endpoint.progress();
            }
            send.wait().expect("send");
        }
    });
}

/// Nobody sends anything, and it returns all the same.
pub fn a_timed_sleep_ends<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        for millis in [0, 1, 20] {
            party.endpoint.sleep(Some(Duration::from_millis(millis)));
        }
    });
}
