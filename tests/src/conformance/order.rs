//! Messages match in the order sent, whatever paths they take.

use limic::{Endpoint, Peer, Selector, Tag};

use crate::party::TAG;
use crate::{Case, Random, check, content};

/// Thousands of messages of mixed lengths with one tag.
pub fn random_lengths_with_one_tag_arrive_in_order<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(1);
        let mut buffer = vec![0; 1 << 17];
        for number in 0..2500 {
            let len = random.length(17);
            if party.rank == 0 {
                let data = content(number, len);
                party
                    .endpoint
                    .send(party.other(), TAG, &data)
                    .expect("send");
            } else {
                let status = party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                assert_eq!(status.len, len as u64, "message {number}");
                check(number, &buffer[..len]);
            }
        }
    });
}

/// Short ones may not overtake the long ones before them.
pub fn non_blocking_sends_match_in_the_order_of_their_posts<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(2);
        let mut buffer = vec![0; 1 << 18];
        for round in 0..20_u64 {
            let lengths: Vec<usize> = (0..48).map(|_| random.length(18)).collect();
            if party.rank == 0 {
                let sends: Vec<_> = (round * 48..)
                    .zip(&lengths)
                    .map(|(number, len)| {
                        let data = content(number, *len);
                        party
                            .endpoint
                            .isend(party.other(), TAG, data)
                            .expect("isend")
                    })
                    .collect();
                for send in sends {
                    send.wait().expect("send");
                }
            } else {
                for (number, len) in (round * 48..).zip(&lengths) {
                    let status = party
                        .endpoint
                        .recv(Selector::any(), &mut buffer)
                        .expect("recv");
                    assert_eq!(status.len, *len as u64, "message {number}");
                    check(number, &buffer[..*len]);
                }
            }
        }
    });
}

/// Messages and receives of one round; every message finds a receive and the other way round.
struct Round {
    /// Tag and length.
    messages: Vec<(u64, usize)>,
    /// Source given or not, tag, mask.
    selectors: Vec<(bool, u64, u64)>,
}

impl Round {
    fn new(random: &mut Random, count: usize) -> Self {
        let messages: Vec<_> = (0..count)
            .map(|_| (random.below(4), random.length(16)))
            .collect();
        let mut selectors: Vec<_> = messages
            .iter()
            .map(|(tag, _)| {
                let mask = [u64::MAX, u64::MAX, 1, 2, 0][random.below(5) as usize];
                (random.below(2) == 0, *tag, mask)
            })
            .collect();
        random.shuffle(&mut selectors);
        // A wildcard may take a message that only one exact receive could have had; a last
        // wildcard for each message catches what is left.
        selectors.extend((0..count).map(|_| (random.below(2) == 0, 0, 0)));
        Self {
            messages,
            selectors,
        }
    }

    fn selector(&self, number: usize, from: Peer) -> Selector {
        let (exact, tag, mask) = self.selectors[number];
        Selector {
            source: exact.then_some(from),
            tag: Tag(tag),
            mask,
        }
    }

    fn fits(&self, selector: usize, message: usize) -> bool {
        let (_, tag, mask) = self.selectors[selector];
        (self.messages[message].0 ^ tag) & mask == 0
    }
}

/// MPI's rule for messages that find posted receives: the first receive in the order of posting.
pub fn wildcard_and_exact_receives_posted_first_do_not_overtake<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(3);
        for _ in 0..25 {
            let round = Round::new(&mut random, 24);
            if party.rank == 0 {
                party.meet();
                for (number, (tag, len)) in round.messages.iter().enumerate() {
                    let data = content(number as u64, *len);
                    party
                        .endpoint
                        .send(party.other(), *tag, &data)
                        .expect("send");
                }
                party.meet();
                continue;
            }
            let receives: Vec<_> = (0..round.selectors.len())
                .map(|number| {
                    let selector = round.selector(number, party.other());
                    party
                        .endpoint
                        .irecv(selector, vec![0; 1 << 16])
                        .expect("irecv")
                })
                .collect();
            party.meet();
            let mut taken = vec![None; receives.len()];
            for message in 0..round.messages.len() {
                let mut open = 0..receives.len();
                let first = open.find(|r| taken[*r].is_none() && round.fits(*r, message));
                taken[first.expect("a wildcard is left")] = Some(message);
            }
            // Those that got nothing are cancelled only when all messages have come.
            let mut rest = Vec::new();
            for (receive, message) in receives.into_iter().zip(taken) {
                match message {
                    Some(message) => {
                        let (status, buffer) = receive.wait().expect("receive");
                        let (tag, len) = round.messages[message];
                        assert_eq!((status.tag, status.len), (Tag(tag), len as u64));
                        check(message as u64, &buffer[..len]);
                    }
                    None => rest.push(receive),
                }
            }
            for receive in rest {
                receive.cancel().expect("cancel");
                assert_eq!(receive.wait_buffer().0, Err(limic::Error::Cancelled));
            }
            party.meet();
        }
    });
}

/// MPI's rule for receives that find unexpected messages: the first message in the order of
/// arrival.
pub fn wildcard_and_exact_receives_posted_late_do_not_overtake<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const END: u64 = 1 << 40;
        let mut random = party.random(4);
        for _ in 0..25 {
            let round = Round::new(&mut random, 24);
            if party.rank == 0 {
                let sends: Vec<_> = round
                    .messages
                    .iter()
                    .enumerate()
                    .map(|(number, (tag, len))| {
                        let data = content(number as u64, *len);
                        party
                            .endpoint
                            .isend(party.other(), *tag, data)
                            .expect("isend")
                    })
                    .collect();
                party.endpoint.send(party.other(), END, &[]).expect("send");
                for send in sends {
                    send.wait().expect("send");
                }
                party.meet();
                continue;
            }
            // It was sent last, so everything else has arrived before it.
            party
                .endpoint
                .recv((party.other(), END), &mut [])
                .expect("recv");
            let mut left: Vec<usize> = (0..round.messages.len()).collect();
            for number in 0..round.selectors.len() {
                let Some(at) = left.iter().position(|m| round.fits(number, *m)) else {
                    continue;
                };
                let message = left.remove(at);
                let mut buffer = vec![0; 1 << 16];
                let selector = round.selector(number, party.other());
                let status = party.endpoint.recv(selector, &mut buffer).expect("recv");
                let (tag, len) = round.messages[message];
                assert_eq!((status.tag, status.len), (Tag(tag), len as u64));
                check(message as u64, &buffer[..len]);
            }
            assert!(left.is_empty());
            party.meet();
        }
    });
}

/// A receiver of anything sees each sender's messages in order.
pub fn two_senders_each_keep_their_order<E: Endpoint>(case: &Case<E>) {
    case.run(3, |party| {
        const MESSAGES: u64 = 400;
        if party.rank > 0 {
            let mut random = party.random(u64::from(party.rank));
            for number in 0..MESSAGES {
                let data = content(number, 8 + random.length(15));
                party
                    .endpoint
                    .send(party.peers[0], TAG, &data)
                    .expect("send");
            }
            return;
        }
        let mut next = [0, 0];
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..2 * MESSAGES {
            let selector = Selector::any_source(TAG);
            let status = party.endpoint.recv(selector, &mut buffer).expect("recv");
            let sender = usize::from(status.peer == party.peers[2]);
            check(next[sender], &buffer[..status.len as usize]);
            next[sender] += 1;
        }
        assert_eq!(next, [MESSAGES, MESSAGES]);
    });
}

/// Both ranks send and receive, with many operations under way.
pub fn traffic_both_ways_at_once<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(5);
        for round in 0..30_u64 {
            let lengths: Vec<usize> = (0..16).map(|_| random.length(17)).collect();
            let mine = round * 100 + u64::from(party.rank) * 50;
            let theirs = round * 100 + u64::from(1 - party.rank) * 50;
            let receives: Vec<_> = lengths
                .iter()
                .map(|len| {
                    let from = (party.other(), TAG);
                    party.endpoint.irecv(from, vec![0; *len]).expect("irecv")
                })
                .collect();
            let sends: Vec<_> = (mine..)
                .zip(&lengths)
                .map(|(number, len)| {
                    let data = content(number, *len);
                    party
                        .endpoint
                        .isend(party.other(), TAG, data)
                        .expect("isend")
                })
                .collect();
            for (number, receive) in (theirs..).zip(receives) {
                let (status, buffer) = receive.wait().expect("receive");
                assert_eq!(status.len, buffer.len() as u64);
                check(number, &buffer);
            }
            for send in sends {
                send.wait().expect("send");
            }
        }
    });
}
