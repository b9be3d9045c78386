//! A barrier of real processes: nobody leaves it before all have come, and if one is gone, all
//! others learn which.

use limic::settings::{Settings, SettingsBuilder};
use limic::{Barrier, Endpoint, Error, HybridEndpoint, Peer, PeerFailure, Selector, Tag};
use limic_tests::process::{die, pass};
use limic_tests::{Cast, Random, Rank};
use std::time::Duration;

const RANKS: u32 = 5;
const TAG: u64 = 1;
/// The head of each rank: all for themselves, all by way of one, and two nodes that ranks take
/// turns on.
const ALIKE: [u32; RANKS as usize] = [0, 1, 2, 3, 4];
const BY_ONE: [u32; RANKS as usize] = [0; RANKS as usize];
const NODES: [u32; RANKS as usize] = [0, 1, 0, 1, 0];

fn open(rank: &Rank, settings: SettingsBuilder) -> HybridEndpoint {
    let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
    rank.connect(&endpoint);
    endpoint
}

fn usual() -> SettingsBuilder {
    Settings::builder().without_environment()
}

#[test]
fn nobody_leaves_before_all_have_come() {
    let cast = Cast::new("nobody_leaves_before_all_have_come").ranks(RANKS);
    cast.run(|rank| {
        let endpoint = open(rank, usual());
        let mut random = Random::new(rank.seed ^ u64::from(rank.rank));
        for (shape, heads) in [ALIKE, BY_ONE, NODES].iter().enumerate() {
            let barrier = Barrier::new(rank.rank, heads).expect("heads");
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

/// As `World` says: its barrier has such a tag.
#[test]
fn a_mask_without_the_bit_of_libraries_takes_a_barriers_message() {
    let cast = Cast::new("a_mask_without_the_bit_of_libraries_takes_a_barriers_message").ranks(2);
    cast.run(|rank| {
        let endpoint = open(rank, usual());
        let barrier = Barrier::new(rank.rank, &[0, 1]).expect("heads");
        let (other, tag) = (Peer::from_index(1 - rank.rank), Tag(Tag::LIBRARY.0 | 1));
        let repeated = rank.directory.join("repeated");
        if rank.rank == 0 {
            barrier.wait(&endpoint, tag).expect("the other one comes");
            std::fs::write(repeated, "").expect("the shared directory");
            endpoint.send(other, tag, &[]).expect("the other one lives");
            return;
        }
        let all = Selector::any().with_mask(0);
        let taken = endpoint.recv(all, &mut []).expect("the other one lives");
        assert_eq!((taken.peer, taken.tag, taken.len), (other, tag, 0));
        barrier.wait(&endpoint, tag).expect("the other one lives");
        assert!(repeated.exists(), "it waits until the message comes again");
    });
}

/// After a few barriers `victim` goes; the next ones, of which it is missing, end for everybody
/// with its name.
fn one_goes(name: &str, heads: &[u32], victim: u32, settings: SettingsBuilder, dies: bool) {
    let cast = Cast::new(name).ranks(heads.len() as u32);
    let cast = if dies { cast.dies(victim) } else { cast };
    cast.run(|rank| {
        let endpoint = open(rank, settings);
        let barrier = Barrier::new(rank.rank, heads).expect("heads");
        for _ in 0..3 {
            barrier.wait(&endpoint, TAG).expect("all are there");
        }
        if rank.rank == victim {
            if dies {
                die();
            }
            endpoint.close();
            return;
        }
        for _ in 0..3 {
            match barrier.wait(&endpoint, TAG) {
                Err(Error::PeerFailed { peer, why }) => {
                    assert_eq!(peer, Peer::from_index(victim), "{why}");
                    let known = match why {
                        PeerFailure::Reported { by } => by != peer,
                        PeerFailure::Died => dies,
                        PeerFailure::Closed => !dies,
                        _ => false,
                    };
                    assert!(known, "{why}");
                }
                other => panic!("rank {victim} is gone, but: {other:?}"),
            }
        }
    });
}

#[test]
fn all_learn_who_died() {
    one_goes("all_learn_who_died", &ALIKE, 2, usual(), true);
}

#[test]
fn all_learn_who_left() {
    one_goes("all_learn_who_left", &ALIKE, 4, usual(), false);
}

/// Four and six ranks tell each other in pairs; with these settings each waits until the other has
/// asked for what it says.
#[test]
fn names_that_have_to_be_asked_for_hold_up_nobody() {
    let asked_for = usual().inline_max(0).eager_max(0);
    let name = "names_that_have_to_be_asked_for_hold_up_nobody";
    one_goes(name, &[0, 1, 2, 3], 1, asked_for, true);
}

#[test]
fn six_ranks_learn_who_left() {
    let asked_for = usual().inline_max(0).eager_max(0);
    one_goes(
        "six_ranks_learn_who_left",
        &[0, 1, 2, 3, 4, 5],
        5,
        asked_for,
        false,
    );
}

#[test]
fn a_head_hears_of_its_followers_death() {
    one_goes(
        "a_head_hears_of_its_followers_death",
        &BY_ONE,
        3,
        usual(),
        true,
    );
}

#[test]
fn followers_miss_their_head() {
    one_goes("followers_miss_their_head", &BY_ONE, 0, usual(), true);
}

#[test]
fn another_nodes_head_dies() {
    one_goes("another_nodes_head_dies", &NODES, 1, usual(), true);
}

#[test]
fn another_nodes_follower_leaves() {
    one_goes("another_nodes_follower_leaves", &NODES, 3, usual(), false);
}

#[test]
fn names_of_nobody_are_refused() {
    Cast::new("names_of_nobody_are_refused").run(|rank| {
        let endpoint = open(rank, usual());
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
        let barrier = Barrier::new(0, &[0, 1]).expect("heads");
        for _ in 0..4 {
            match barrier.wait(&endpoint, TAG) {
                Err(Error::PeerFailed {
                    peer,
                    why: PeerFailure::Corrupt(_),
                }) => assert_eq!(peer, other),
                other => panic!("no rank has that name, but: {other:?}"),
            }
        }
    });
}
