//! A sender of a loan that changes the record behind the library's back: it says in which arena the
//! bytes lie, by which flag they go back, at which offset, and how many there are, and a receiver
//! trusts none of it.

use limic::settings::Settings;
use limic::{Endpoint, Error, HybridEndpoint, Peer, Status};
use limic_tests::forgery::kinds::ARENA;
use limic_tests::forgery::{self, Words, forge, kind, length};
use limic_tests::process::vanish;
use limic_tests::{Cast, Rank};

/// Bytes of a record of this kind.
const LOAN_BYTES: u64 = 24;
/// No other message has this length.
const BYTES: usize = 54_321;
const FILLED: u8 = 0x5A;

/// What a sender does to the record: the word that names arena, flag and generation, the offset,
/// and the length.
struct Forgery {
    name: &'static str,
    change: fn(&mut Words<'_>),
    /// Bytes that come, if it is not found out.
    bytes: usize,
    /// The receiver finds it out, and blames the sender.
    found: bool,
}

const FORGERIES: [Forgery; 8] = [
    Forgery {
        name: "an offset at the end of the address space",
        change: |words| *words[3] = u64::MAX - 100,
        bytes: BYTES,
        found: true,
    },
    Forgery {
        name: "an offset behind the arena",
        change: |words| *words[3] = 1 << 40,
        bytes: BYTES,
        found: true,
    },
    Forgery {
        name: "all bytes that there are",
        change: |words| *words[4] = u64::MAX,
        bytes: BYTES,
        found: true,
    },
    Forgery {
        name: "more bytes than the arena has",
        change: |words| *words[4] = 1 << 40,
        bytes: BYTES,
        found: true,
    },
    Forgery {
        name: "an arena that does not exist",
        change: |words| *words[2] |= 0xFFFF_FFFF,
        bytes: BYTES,
        found: true,
    },
    Forgery {
        name: "another flag",
        change: |words| *words[2] ^= 1,
        bytes: BYTES,
        found: false,
    },
    Forgery {
        name: "another generation",
        change: |words| *words[2] ^= 0xABCD << 32,
        bytes: BYTES,
        found: false,
    },
    Forgery {
        name: "fewer bytes",
        change: |words| *words[4] = 100,
        bytes: 100,
        found: false,
    },
];

/// Takes the message where it lies, or copies it.
fn receive(endpoint: &HybridEndpoint, from: Peer, in_place: bool) -> Result<Status, Error> {
    if in_place {
        let loaned = endpoint.recv_loaned((from, 2))?;
        let bytes = loaned.to_vec();
        assert!(bytes.iter().all(|byte| *byte == FILLED), "other bytes");
        assert_eq!(bytes.len() as u64, loaned.status().len);
        return Ok(loaned.status());
    }
    let mut room = vec![0; BYTES];
    let status = endpoint.recv((from, 2), &mut room)?;
    let (came, rest) = room.split_at(status.len as usize);
    assert!(came.iter().all(|byte| *byte == FILLED), "other bytes");
    assert!(rest.iter().all(|byte| *byte == 0), "bytes behind them");
    Ok(status)
}

/// Sends a loan, and changes its record before anybody looks.
fn send(rank: &Rank, endpoint: &HybridEndpoint, to: Peer, forgery: &Forgery) {
    let first = endpoint.loan(64).expect("a loan");
    first.send(to, 1_u64).expect("send");
    // From then on the receiver does not look: else it might take the record before it is changed.
    let _ = rank.link.exchange(&[]);
    let mut loan = endpoint.loan(BYTES).expect("a loan");
    loan.fill(FILLED);
    loan.send(to, 2_u64).expect("send");
    let is_meant = |words: &Words<'_>| {
        kind(*words[0]) == ARENA && length(*words[0]) == LOAN_BYTES && *words[4] == BYTES as u64
    };
    // SAFETY: the receiver waits for this process.
    let forged = unsafe { forge(is_meant, |words, _| (forgery.change)(words)) };
    assert_eq!(forged, 1, "{}: records of loans in the ring", forgery.name);
    let _ = rank.link.exchange(&[]);
    let _ = rank.link.exchange(&[]);
    vanish();
}

/// One loan goes ahead unchanged, so that the receiver has the arena.
fn run(rank: &Rank, forgery: &Forgery, in_place: bool) {
    let settings = Settings::builder().without_environment().build();
    let (endpoint, other) = forgery::meet(rank, settings.expect("settings"));
    if rank.rank == 0 {
        drop(endpoint.recv_loaned((other, 1_u64)).expect("a loan"));
        let _ = rank.link.exchange(&[]);
        let _ = rank.link.exchange(&[]);
        let received = receive(&endpoint, other, in_place);
        // The sender lives on: only what is found out may fail.
        assert_eq!(received.is_err(), forgery.found, "{}", forgery.name);
        forgery::check_received(forgery.name, forgery.found, other, forgery.bytes, &received);
        forgery::check_works(&endpoint);
        let _ = rank.link.exchange(&[]);
    } else {
        send(rank, &endpoint, other, forgery);
    }
}

macro_rules! forged {
    ($($index:literal: $in_place:ident $copied:ident)+) => {
        $(
            #[test]
            fn $in_place() {
                Cast::new(stringify!($in_place)).run(|rank| run(rank, &FORGERIES[$index], true));
            }
            #[test]
            fn $copied() {
                Cast::new(stringify!($copied)).run(|rank| run(rank, &FORGERIES[$index], false));
            }
        )+
    };
}

forged! {
    0: an_offset_at_the_end_of_the_address_space a_copy_from_the_end_of_the_address_space
    1: an_offset_behind_the_arena a_copy_from_behind_the_arena
    2: all_bytes_that_there_are a_copy_of_all_bytes_that_there_are
    3: more_bytes_than_the_arena_has a_copy_of_more_bytes_than_the_arena_has
    4: an_arena_that_does_not_exist a_copy_from_an_arena_that_does_not_exist
    5: another_flag a_copy_with_another_flag
    6: another_generation a_copy_with_another_generation
    7: fewer_bytes a_copy_of_fewer_bytes
}
