//! A sender of a long message that changes its records behind the library's back: the pieces that travel in the ring
//! (kind 21) carry an offset and name a receive, and a receiver trusts neither.

use limic::policy::{HandOver, Path};
use limic::settings::Settings;
use limic::{Endpoint, Error, HybridEndpoint, Peer, RawEndpoint, Status};
use limic_tests::forgery::{self, MARGIN, UNTOUCHED, Words, forge, kind, length};
use limic_tests::process::vanish;
use limic_tests::{Cast, Random, Rank};

const PIECE: u64 = 21;
const BYTES: usize = 256 << 10;

/// What a sender does to each piece, given how many it has seen before.
struct Forgery {
    name: &'static str,
    change: fn(&mut Words<'_>, u64),
    /// The receiver finds it out, and blames the sender.
    found: bool,
}

const FORGERIES: [Forgery; 8] = [
    Forgery {
        name: "an offset at the end of the address space",
        change: |words, _| *words[2] = u64::MAX - 100,
        found: true,
    },
    Forgery {
        name: "an offset just behind the message",
        change: |words, _| *words[2] = BYTES as u64,
        found: true,
    },
    Forgery {
        name: "a piece that begins inside and ends outside",
        change: |words, _| *words[2] = BYTES as u64 - 8,
        found: true,
    },
    Forgery {
        name: "all pieces at one place",
        change: |words, _| *words[2] = 0,
        found: false,
    },
    Forgery {
        name: "a receive that does not exist",
        change: |words, seen| *words[1] = 0xDEAD_0000_0000 + seen,
        found: false,
    },
    Forgery {
        name: "any number for a receive",
        change: |words, seen| *words[1] = Random::new(seen).next_u64(),
        found: false,
    },
    Forgery {
        name: "a length that ends before the offset does",
        change: |words, _| *words[0] = *words[0] & !0xFFFF_FFF8 & !0x7 | 4,
        found: true,
    },
    Forgery {
        name: "a piece in place of a message",
        change: |words, _| *words[0] = *words[0] & !(0xFF << 32) | 1 << 32,
        found: false,
    },
];

/// Changes every piece that lies in a ring, and counts them.
fn forge_pieces(change: fn(&mut Words<'_>, u64)) -> u64 {
    // Bytes of the message are all ones: no header among them.
    let is_piece = |words: &Words<'_>| {
        let long = (64..4096).contains(&(length(*words[0]) & !7));
        kind(*words[0]) == PIECE && long && *words[2] < BYTES as u64
    };
    // SAFETY: the receiver waits for this process.
    unsafe { forge(is_piece, change) }
}

fn open(rank: &Rank) -> (HybridEndpoint, Peer) {
    let settings = Settings::builder()
        .without_environment()
        .long_path(Path::Pipeline)
        .pipeline_chunk(2 << 10)
        .hand_over(HandOver::Topology)
        // More ranks than CPUs would let pieces go through chunks.
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
    let forged = forge_pieces(forgery.change);
    assert!(forged > 0, "{}: no pieces in the ring", forgery.name);
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
    a_piece_that_ends_outside 2
    all_pieces_at_one_place 3
    a_receive_that_does_not_exist 4
    any_number_for_a_receive 5
    a_piece_shorter_than_its_offset 6
    a_piece_as_a_message 7
}
