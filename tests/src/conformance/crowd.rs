//! Four ranks at a time.

use limic::{Endpoint, Selector, wait_all};

use crate::party::TAG;
use crate::{Case, check, content};

const RANKS: u32 = 4;

/// What one rank sends to another: told from all others by its content.
fn number(from: u32, to: u32, turn: u64) -> u64 {
    turn << 8 | u64::from(from) << 4 | u64::from(to)
}

/// All at once, short and long, received from whoever comes.
pub fn everybody_sends_to_everybody<E: Endpoint>(case: &Case<E>) {
    case.run(RANKS, |party| {
        let endpoint = &party.endpoint;
        for (turn, len) in (0..).zip([0_usize, 40, 5000, 150_000]) {
            let others = (0..RANKS).filter(|rank| *rank != party.rank);
            let sends: Vec<_> = others
                .map(|to| {
                    let data = content(number(party.rank, to, turn), len);
                    let peer = party.peers[to as usize];
                    endpoint.isend(peer, turn, data).expect("isend")
                })
                .collect();
            let receives = (1..RANKS).map(|_| {
                let selector = Selector::any_source(turn.into());
                endpoint.irecv(selector, vec![0; len]).expect("irecv")
            });
            let receives: Vec<_> = receives.collect();
            let mut seen = [false; RANKS as usize];
            for (outcome, buffer) in wait_all(receives) {
                let status = outcome.expect("receive");
                let from = party.peers.iter().position(|peer| *peer == status.peer);
                let from = from.expect("a rank");
                assert!(!core::mem::replace(&mut seen[from], true), "{from} twice");
                check(number(from as u32, party.rank, turn), &buffer);
            }
            for (outcome, _) in wait_all(sends) {
                outcome.expect("send");
            }
        }
    });
}

/// Receives from one rank and from any, posted in turn: each rank's messages come in their order.
pub fn wildcards_between_exact_receives_of_three_senders<E: Endpoint>(case: &Case<E>) {
    // Rank 1 is named by some receives: it sends so much that the others cannot take all of it.
    const SENT: [u64; RANKS as usize] = [0, 120, 40, 40];
    const NAMED: usize = 20;
    const ANY: usize = 100;
    case.run(RANKS, |party| {
        let endpoint = &party.endpoint;
        let mut random = party.random(1);
        // The same in all ranks: how long each message is.
        let lengths: Vec<usize> = (0..SENT[1]).map(|_| random.length(15)).collect();
        if party.rank > 0 {
            let sends: Vec<_> = (0..SENT[party.rank as usize])
                .zip(&lengths)
                .map(|(turn, len)| {
                    let data = content(number(party.rank, 0, turn), *len);
                    endpoint.isend(party.peers[0], TAG, data).expect("isend")
                })
                .collect();
            for (outcome, _) in wait_all(sends) {
                outcome.expect("send");
            }
            return;
        }
        let mut selectors = [Selector::exact(party.peers[1], TAG)].repeat(NAMED);
        selectors.resize(NAMED + ANY, Selector::any_source(TAG));
        random.shuffle(&mut selectors);
        let post = |selector| endpoint.irecv(selector, vec![0; 1 << 16]).expect("irecv");
        let posted: Vec<_> = selectors.into_iter().map(post).collect();
        let mut received = wait_all(posted);
        let rest = SENT.iter().sum::<u64>() as usize - received.len();
        let posted: Vec<_> = (0..rest).map(|_| post(Selector::any_source(TAG))).collect();
        received.extend(wait_all(posted));
        let mut next = [0_u64; RANKS as usize];
        for (outcome, buffer) in received {
            let status = outcome.expect("receive");
            let from = party.peers.iter().position(|peer| *peer == status.peer);
            let from = from.expect("a rank");
            let turn = next[from];
            next[from] += 1;
            assert_eq!(status.len, lengths[turn as usize] as u64);
            check(number(from as u32, 0, turn), &buffer[..status.len as usize]);
        }
        assert_eq!(next, SENT);
    });
}
