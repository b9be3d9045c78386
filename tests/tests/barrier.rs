//! A barrier of real processes: nobody leaves it before all have come, and if one is gone, all others learn which.

use limic::{Barrier, Endpoint, Error, HybridEndpoint, Peer, PeerFailure};
use limic_tests::process::{die, pass};
use limic_tests::{Cast, Random, Rank};
use std::time::Duration;

const RANKS: u32 = 5;
const TAG: u64 = 1;
/// The head of each rank: all for themselves, all by way of one, and two nodes that ranks take turns on.
const ALIKE: [u32; RANKS as usize] = [0, 1, 2, 3, 4];
const BY_ONE: [u32; RANKS as usize] = [0; RANKS as usize];
const NODES: [u32; RANKS as usize] = [0, 1, 0, 1, 0];

fn open(rank: &Rank) -> HybridEndpoint {
    let endpoint = HybridEndpoint::open().expect("open");
    rank.connect(&endpoint);
    endpoint
}

#[test]
fn nobody_leaves_before_all_have_come() {
    let cast = Cast::new("nobody_leaves_before_all_have_come").ranks(RANKS);
    cast.run(|rank| {
        let endpoint = open(rank);
        let mut random = Random::new(rank.seed ^ u64::from(rank.rank));
        for (shape, heads) in [ALIKE, BY_ONE, NODES].iter().enumerate() {
            let barrier = Barrier::new(rank.rank, heads);
            for turn in 0..40 {
                let came = |who: u32| rank.directory.join(format!("{shape}-{turn}-{who}"));
                // One is late, another one each time.
                if random.below(4) == 0 {
                    pass(Duration::from_micros(random.below(2000)));
                }
                std::fs::write(came(rank.rank), "").expect("the shared directory");
                barrier.wait(&endpoint, TAG).expect("all are alive");
                for other in 0..RANKS {
                    assert!(
                        came(other).exists(),
                        "rank {other} had not come, {heads:?}, turn {turn}"
                    );
                }
            }
        }
    });
}

/// After a few barriers `victim` dies; the next ones, of which it is missing, end for everybody with its name.
fn one_dies(name: &str, heads: &[u32], victim: u32) {
    Cast::new(name).ranks(RANKS).dies(victim).run(|rank| {
        let endpoint = open(rank);
        let barrier = Barrier::new(rank.rank, heads);
        for _ in 0..3 {
            barrier.wait(&endpoint, TAG).expect("all are alive");
        }
        if rank.rank == victim {
            die();
        }
        for _ in 0..2 {
            match barrier.wait(&endpoint, TAG) {
                Err(Error::PeerFailed { peer, why }) => {
                    assert_eq!(peer, Peer::from_index(victim), "{why}");
                    let known = matches!(why, PeerFailure::Died | PeerFailure::Reported { .. });
                    assert!(known, "{why}");
                }
                other => panic!("rank {victim} is dead, but: {other:?}"),
            }
        }
    });
}

#[test]
fn all_learn_who_died() {
    one_dies("all_learn_who_died", &ALIKE, 2);
}

#[test]
fn a_head_hears_of_its_followers_death() {
    one_dies("a_head_hears_of_its_followers_death", &BY_ONE, 3);
}

#[test]
fn followers_miss_their_head() {
    one_dies("followers_miss_their_head", &BY_ONE, 0);
}

#[test]
fn another_nodes_head_dies() {
    one_dies("another_nodes_head_dies", &NODES, 1);
}

#[test]
fn another_nodes_follower_dies() {
    one_dies("another_nodes_follower_dies", &NODES, 3);
}

#[test]
fn names_of_nobody_are_refused() {
    Cast::new("names_of_nobody_are_refused").run(|rank| {
        let endpoint = open(rank);
        let other = Peer::from_index(1 - rank.rank);
        if rank.rank == 1 {
            for name in [[2, 0, 0, 0].as_slice(), &[0, 0, 0], &[0xff; 4], &[0; 5]] {
                endpoint.send(other, TAG, name).expect("send");
                endpoint
                    .recv((other, TAG), &mut [])
                    .expect("its half of a barrier");
            }
            return;
        }
        let barrier = Barrier::new(0, &[0, 1]);
        for _ in 0..3 {
            match barrier.wait(&endpoint, TAG) {
                Err(Error::PeerFailed {
                    peer,
                    why: PeerFailure::Corrupt(_),
                }) => assert_eq!(peer, other),
                other => panic!("no rank has that name, but: {other:?}"),
            }
        }
        match barrier.wait(&endpoint, TAG) {
            Err(Error::Truncated { sent: 5, .. }) => {}
            other => panic!("too long for a name, but: {other:?}"),
        }
    });
}
