//! A sender of an eager message in fragments that changes its records behind the library's back, or
//! dies between two of them: a record says how long the message is, others where in the sender's
//! staging pool its bytes lie.

use limic::settings::{LineLatency, Settings, SettingsBuilder};
use limic::{Endpoint, Error, HybridEndpoint, Peer};
use limic_tests::forgery::kinds::{EAGER_FRAGMENTED, FRAGMENT_STAGED};
use limic_tests::forgery::{self, MARGIN, UNTOUCHED, Words, forge, kind, length};
use limic_tests::process::vanish;
use limic_tests::{Cast, Rank};

/// Bytes of the records of these kinds.
const BEGIN_BYTES: u64 = 8;
const FRAGMENT_BYTES: u64 = 16;
/// The low half of a word: the first page of a fragment, and, in the next word, its length.
const LOW: u64 = 0xFFFF_FFFF;
const BYTES: usize = 40 << 10;

/// What a sender does to each record of a kind, given how many it has seen before.
struct Forgery {
    name: &'static str,
    of: u64,
    change: fn(&mut Words<'_>, u64),
    /// The receiver finds it out, and blames the sender.
    found: bool,
}

const fn with_kind(header: u64, kind: u64) -> u64 {
    header & !(0xFF << 32) | kind << 32
}

const FORGERIES: [Forgery; 15] = [
    Forgery {
        name: "a message of no bytes",
        of: EAGER_FRAGMENTED,
        change: |words, _| *words[2] = 0,
        found: true,
    },
    Forgery {
        name: "a message of all bytes there are",
        of: EAGER_FRAGMENTED,
        change: |words, _| *words[2] = u64::MAX >> 8,
        found: true,
    },
    Forgery {
        name: "a message that is shorter than its fragments",
        of: EAGER_FRAGMENTED,
        change: |words, _| *words[2] = 100,
        found: true,
    },
    Forgery {
        name: "a message that never ends",
        of: EAGER_FRAGMENTED,
        change: |words, _| *words[2] = 64 << 10,
        found: false,
    },
    Forgery {
        name: "a fragment of no message",
        of: EAGER_FRAGMENTED,
        // Of the first page, and of no bytes: it is there, and there is nothing that it is a
        // fragment of.
        change: |words, _| (*words[0], *words[2]) = (with_kind(*words[0], FRAGMENT_STAGED), 0),
        found: true,
    },
    Forgery {
        name: "a message that begins within another",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[0] = with_kind(*words[0], EAGER_FRAGMENTED),
        found: true,
    },
    Forgery {
        name: "the last page that a number names",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[2] |= LOW,
        found: true,
    },
    Forgery {
        name: "a fragment that ends outside of the pool",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[2] = *words[2] & !LOW | (u64::from(PAGES) - 1),
        found: true,
    },
    Forgery {
        name: "a fragment as long as a number names",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[3] |= LOW,
        found: true,
    },
    Forgery {
        name: "a fragment of no bytes",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[3] &= !LOW,
        found: true,
    },
    Forgery {
        name: "a fragment handed over in no known way",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[3] |= 0x7F << 32,
        found: true,
    },
    Forgery {
        name: "a fragment to keep of more pages than the pool has",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[3] |= 0xFF_FFFF << 40 | 1 << 32,
        found: true,
    },
    Forgery {
        name: "a fragment with an unknown flag",
        of: FRAGMENT_STAGED,
        change: |words, _| *words[3] ^= 1 << 39,
        found: true,
    },
    Forgery {
        name: "a message with all flags, known and unknown",
        of: EAGER_FRAGMENTED,
        change: |words, _| *words[2] |= 0xFF << 56,
        found: false,
    },
    Forgery {
        name: "all fragments at one place, under any generation",
        of: FRAGMENT_STAGED,
        change: |words, seen| *words[2] = (seen << 8 | 7) << 32,
        found: false,
    },
];

fn open(rank: &Rank, settings: SettingsBuilder) -> (HybridEndpoint, Peer) {
    forgery::meet(rank, settings.build().expect("settings"))
}

/// Pages of the sender's pool.
const PAGES: u32 = 512;

fn settings() -> SettingsBuilder {
    Settings::builder()
        .without_environment()
        .staging_buffer_bytes(32 << 10)
        .staging_buffers(PAGES / 8)
        .eager_max(64 << 10)
        .line_latency(LineLatency::Topology)
}

/// The receiver's side. `posted`: the receive is there before the message.
fn receive(rank: &Rank, endpoint: &HybridEndpoint, from: Peer, forgery: &Forgery, posted: bool) {
    let mut room = vec![UNTOUCHED; BYTES + 2 * MARGIN];
    let mut other_room = vec![UNTOUCHED; BYTES];
    let received = endpoint.scope(|scope| {
        let bystander = scope.irecv((from, 9), &mut other_room)?;
        let into = &mut room[MARGIN..MARGIN + BYTES];
        let request = if posted {
            let request = scope.irecv((from, 2), into)?;
            let _ = rank.link.exchange(&[]);
            let _ = rank.link.exchange(&[]);
            request
        } else {
            let _ = rank.link.exchange(&[]);
            let _ = rank.link.exchange(&[]);
            // The first fragments at least are kept.
            while !endpoint.progress() {}
            match scope.irecv((from, 2), into) {
                Ok(request) => request,
                Err(error) => {
                    assert!(bystander.wait().is_err(), "nobody sent that");
                    return Err(error);
                }
            }
        };
        let received = request.wait().map(|(status, _)| status);
        assert!(bystander.wait().is_err(), "nobody sent that");
        received
    });
    let name = forgery.name;
    match &received {
        // The room is full before the message ends.
        Err(Error::Truncated { buffer, .. }) => {
            assert!(!forgery.found && *buffer == BYTES as u64, "{name}");
        }
        _ => forgery::check_received(name, forgery.found, from, BYTES, &received),
    }
    forgery::check_unharmed(name, endpoint, &room, &other_room);
}

fn send(rank: &Rank, endpoint: &HybridEndpoint, to: Peer, forgery: &Forgery) {
    let _ = rank.link.exchange(&[]);
    // Goes at once: the receiver waits, and its ring and the pool are empty.
    let request = endpoint.isend(to, 2_u64, vec![0xFF; BYTES]).expect("isend");
    let is_meant = |words: &Words<'_>| {
        let (bytes, len) = match forgery.of {
            EAGER_FRAGMENTED => (BEGIN_BYTES, *words[2]),
            _ => (FRAGMENT_BYTES, *words[3] & LOW),
        };
        kind(*words[0]) == forgery.of && length(*words[0]) == bytes && len <= BYTES as u64
    };
    // SAFETY: the receiver waits for this process.
    let forged = unsafe { forge(is_meant, forgery.change) };
    assert!(forged > 0, "{}: no such record in the ring", forgery.name);
    std::mem::forget(request);
    let _ = rank.link.exchange(&[]);
    vanish();
}

macro_rules! forged {
    ($($name:ident $index:literal)+) => {
        mod posted {
            $(
                #[test]
                fn $name() {
                    super::run(concat!("posted::", stringify!($name)), $index, true);
                }
            )+
        }
        mod unexpected {
            $(
                #[test]
                fn $name() {
                    super::run(concat!("unexpected::", stringify!($name)), $index, false);
                }
            )+
        }
    };
}

fn run(name: &str, index: usize, posted: bool) {
    Cast::new(name).run(|rank| {
        let forgery = &FORGERIES[index];
        let (endpoint, other) = open(rank, settings());
        if rank.rank == 0 {
            receive(rank, &endpoint, other, forgery, posted);
        } else {
            send(rank, &endpoint, other, forgery);
        }
    });
}

forged! {
    a_message_of_no_bytes 0
    a_message_of_all_bytes 1
    a_message_shorter_than_its_fragments 2
    a_message_that_never_ends 3
    a_fragment_of_no_message 4
    a_message_within_another 5
    a_page_that_does_not_exist 6
    a_fragment_that_ends_outside 7
    a_fragment_without_end 8
    a_fragment_of_no_bytes 9
    a_fragment_in_no_known_way 10
    a_fragment_to_keep_beyond_the_pool 11
    a_fragment_with_an_unknown_flag 12
    a_message_with_all_flags 13
    all_fragments_at_one_place 14
}

/// The sender dies when a part of its message is out: nobody receives that part.
#[test]
fn a_sender_that_dies_between_two_fragments() {
    Cast::new("a_sender_that_dies_between_two_fragments").run(|rank| {
        // Two pages: the message is ten of them.
        let few = settings().staging_buffers(2).staging_buffer_bytes(4 << 10);
        let (endpoint, other) = open(rank, few);
        if rank.rank == 1 {
            let request = endpoint
                .isend(other, 2_u64, vec![0xFF; BYTES])
                .expect("isend");
            std::mem::forget(request);
            let _ = rank.link.exchange(&[]);
            vanish();
        }
        let _ = rank.link.exchange(&[]);
        while !endpoint.progress() {}
        let mut room = vec![UNTOUCHED; BYTES];
        match endpoint.recv((other, 2), &mut room) {
            Err(Error::PeerFailed { peer, .. }) => assert_eq!(peer, other),
            received => panic!("{received:?}"),
        }
        forgery::check_works(&endpoint);
    });
}
