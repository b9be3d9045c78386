//! Each rank sends to each other one.

use limic::{Endpoint, Peer};

use crate::{Rank, check, content};

/// A message of `len` bytes from each rank to each other one, all of them under way at once; their
/// tag is the round. Checks what comes.
///
/// # Panics
/// A message fails, or has not the bytes that were sent.
pub fn all_to_all(rank: &Rank, endpoint: &impl Endpoint, peers: &[Peer], round: u64, len: usize) {
    let number = |from: u32, to: u32| (round << 32) | u64::from(from) << 16 | u64::from(to);
    let others = || (1..rank.ranks).map(|step| (rank.rank + step) % rank.ranks);
    let receives: Vec<_> = others()
        .map(|other| {
            let from = (peers[other as usize], round);
            (other, endpoint.irecv(from, vec![0; len]).expect("irecv"))
        })
        .collect();
    let sends: Vec<_> = others()
        .map(|other| {
            let data = content(number(rank.rank, other), len);
            let to = peers[other as usize];
            endpoint.isend(to, round, data).expect("isend")
        })
        .collect();
    for (other, receive) in receives {
        let (status, buffer) = receive.wait().expect("receive");
        assert_eq!(status.len, len as u64);
        check(number(other, rank.rank), &buffer);
    }
    for send in sends {
        send.wait().expect("send");
    }
}
