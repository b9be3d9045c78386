//! A sender of a long message that changes its records behind the library's back: fragments carry
//! an offset and name a receive, and a receiver trusts neither.

use limic::settings::{LineLatency, Path, Settings};
use limic::{Endpoint, Error, HybridEndpoint, Peer, Status};
use limic_tests::forgery::kinds::{EAGER, FRAGMENT_STAGED};
use limic_tests::forgery::{self, MARGIN, UNTOUCHED, Words, forge, kind, length};
use limic_tests::process::vanish;
use limic_tests::{Cast, Random, Rank};

/// Bytes of a record of a fragment: receive, offset, place, extent.
const FRAGMENT_BYTES: u64 = 32;
const BYTES: usize = 256 << 10;

/// What a sender does to each fragment, given how many it has seen before.
struct Forgery {
    name: &'static str,
    change: fn(&mut Words<'_>, u64),
    /// The receiver finds it out, and blames the sender.
    found: bool,
}

const FORGERIES: [Forgery; 8] = [
    Forgery {
        name: "an offset at the end of the address space",
        change: |words, _| *words[3] = u64::MAX - 100,
        found: true,
    },
    Forgery {
        name: "an offset just behind the message",
        change: |words, _| *words[3] = BYTES as u64,
        found: true,
    },
    Forgery {
        name: "a fragment that begins inside and ends outside",
        change: |words, _| *words[3] = BYTES as u64 - 8,
        found: true,
    },
    Forgery {
        name: "all fragments at one place",
        change: |words, _| *words[3] = 0,
        found: false,
    },
    Forgery {
        name: "a receive that does not exist",
        change: |words, seen| *words[2] = 0xDEAD_0000_0000 + seen,
        found: false,
    },
    Forgery {
        name: "any number for a receive",
        change: |words, seen| *words[2] = Random::new(seen).next_u64(),
        found: false,
    },
    Forgery {
        name: "a fragment of no bytes",
        change: |words, _| *words[5] &= !0xFFFF_FFFF,
        found: true,
    },
    Forgery {
        name: "a fragment in place of a message",
        change: |words, _| *words[0] = *words[0] & !(0xFF << 32) | EAGER << 32,
        found: false,
    },
];

/// Changes every fragment that lies in a ring, and counts them.
fn forge_fragments(change: fn(&mut Words<'_>, u64)) -> u64 {
    let is_fragment = |words: &Words<'_>| {
        kind(*words[0]) == FRAGMENT_STAGED
            && length(*words[0]) == FRAGMENT_BYTES
            && *words[3] < BYTES as u64
    };
    // SAFETY: the receiver waits for this process.
    unsafe { forge(is_fragment, change) }
}

fn open(rank: &Rank) -> (HybridEndpoint, Peer) {
    let settings = Settings::builder()
        .without_environment()
        .long_path(Path::Pipeline)
        .pipeline_fragment(2 << 10)
        .line_latency(LineLatency::Topology)
        // Records of the same kind, however many ranks there are.
        .spin(limic::settings::Spin::For(
            std::time::Duration::from_millis(100),
        ));
    forgery::meet(rank, settings.build().expect("settings"))
}

fn receive(rank: &Rank, endpoint: &HybridEndpoint, from: Peer, forgery: &Forgery) {
    let mut room = vec![UNTOUCHED; BYTES + 2 * MARGIN];
    let mut other_room = vec![UNTOUCHED; BYTES];
    let received: Result<Status, Error> = endpoint.scope(|scope| {
        let bystander = scope.irecv((from, 9), &mut other_room)?;
        let request = scope.irecv((from, 2), &mut room[MARGIN..MARGIN + BYTES])?;
        let _ = rank.link.exchange(&[]);
        // The offer is there, and is answered.
        while !endpoint.progress() {}
        let _ = rank.link.exchange(&[]);
        // The sender has filled the ring, and forged what lies there. It is gone by now.
        let _ = rank.link.exchange(&[]);
        let received = request.wait().map(|(status, _)| status);
        assert!(bystander.wait().is_err(), "nobody sent that");
        received
    });
    let name = forgery.name;
    forgery::check_received(name, forgery.found, from, BYTES, &received);
    forgery::check_unharmed(name, endpoint, &room, &other_room);
}

fn send(rank: &Rank, endpoint: &HybridEndpoint, to: Peer, forgery: &Forgery) {
    let request = endpoint.isend(to, 2_u64, vec![0xFF; BYTES]).expect("isend");
    let _ = rank.link.exchange(&[]);
    let _ = rank.link.exchange(&[]);
    // The answer is there: it fills the ring, as far as there is room.
    while !endpoint.progress() {}
    while endpoint.progress() {}
    let forged = forge_fragments(forgery.change);
    assert!(forged > 0, "{}: no fragments in the ring", forgery.name);
    std::mem::forget(request);
    let _ = rank.link.exchange(&[]);
    vanish();
}

macro_rules! forged {
    ($($name:ident $index:literal)+) => {
        $(
            #[test]
            fn $name() {
                Cast::new(stringify!($name)).run(|rank| {
                    let forgery = &FORGERIES[$index];
                    let (endpoint, other) = open(rank);
                    if rank.rank == 0 {
                        receive(rank, &endpoint, other, forgery);
                    } else {
                        send(rank, &endpoint, other, forgery);
                    }
                });
            }
        )+
    };
}

forged! {
    an_offset_at_the_end_of_the_address_space 0
    an_offset_behind_the_message 1
    a_fragment_that_ends_outside 2
    all_fragments_at_one_place 3
    a_receive_that_does_not_exist 4
    any_number_for_a_receive 5
    a_fragment_of_no_bytes 6
    a_fragment_as_a_message 7
}
