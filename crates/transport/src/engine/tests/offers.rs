//! Offers that name a place where there is nothing. One of memory that the receiver may read ends
//! its sender, and the others go on. One that the kernel refuses costs the pair the path, and no
//! message that was to be read by the same call.

use limic_policy::{Path, PathSet};
use limic_records::{self as frame, ControlRecord, Offer};

use super::third::Forger;
use super::{attach_both, failed, meet, open_with, outcome, pending, post, post_receive, until};
use crate::Peer;
use crate::counters::Event;
use crate::engine::Engine;
use crate::engine::protocol::arena_message;
use crate::error::{Outcome, PeerFailure};

const LEN: usize = 100_000;
const FILLED: u8 = 0x5A;

fn open() -> Engine {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    open_with(|with| with.allowed(paths.with(Path::PeerReadable)))
}

/// The receiver gets the descriptor of the sender's first arena, which begins with the bytes of a
/// message. Gives the bytes of the arena.
fn show_arena(sender: &mut Engine, at_sender: u32) -> u64 {
    let loan = sender.borrow_loan(LEN).expect("a loan");
    // SAFETY: the loan has as many bytes.
    unsafe { loan.start.write_bytes(FILLED, LEN) };
    let sent = arena_message::send_arena(&mut sender.cx, at_sender, 0);
    assert!(sent, "there is room in the socket");
    let (_, bytes) = sender.cx.arenas.descriptor(0).expect("an arena");
    bytes as u64
}

/// What becomes of a receive whose sender says that the bytes lie there.
fn offered(receiver: &mut Engine, of_sender: u32, (arena, offset): (u32, u64)) -> Outcome {
    let offer = Offer {
        len: LEN as u64,
        send: 1,
        address: offset,
        key: arena.into(),
        peer_readable: true,
        ..Offer::default()
    };
    let record = ControlRecord::message(frame::READY_TO_SEND, 3, None, offer.encode());
    let mut room = vec![0; LEN];
    // SAFETY: the room stays until the receive is over, or the test fails.
    let posted = unsafe { post_receive(receiver, (Peer(of_sender), 3), &mut room) };
    Forger::new(receiver, of_sender).push(&record);
    let outcome = outcome(&mut [receiver], posted);
    let came = outcome.is_ok();
    assert!(
        room.iter()
            .all(|byte| *byte == if came { FILLED } else { 0 }),
        "other bytes have come"
    );
    outcome
}

#[test]
fn an_offer_of_bytes_outside_of_an_arena_ends_its_sender_and_no_other() {
    type Place = fn(u64) -> (u32, u64);
    let lies: [(&str, Place); 3] = [
        ("an arena that does not exist", |_| (5, 0)),
        (
            "a range that begins in an arena and ends behind it",
            |arena| (0, arena - 1),
        ),
        ("an offset from which the end overflows", |_| {
            (0, u64::MAX - 1)
        }),
    ];
    for (name, place) in lies {
        let (mut receiver, mut liar, mut honest) = (open(), open(), open());
        let (of_liar, at_liar) = attach_both(&mut receiver, &mut liar);
        let (of_honest, at_honest) = attach_both(&mut receiver, &mut honest);
        let arena = show_arena(&mut liar, at_liar);
        let corrupt = PeerFailure::Corrupt(arena_message::OUTSIDE.into());
        let received = offered(&mut receiver, of_liar, place(arena));
        assert_eq!(received, Err(failed(of_liar, corrupt)), "{name}");
        until(&mut [&mut receiver], |engines| {
            !engines[0].cx.peers.is_alive(of_liar)
        });
        assert_eq!(receiver.counters().event(Event::Violations), 1, "{name}");
        show_arena(&mut honest, at_honest);
        let received = offered(&mut receiver, of_honest, (0, 0));
        assert_eq!(received.map(|status| status.len), Ok(LEN as u64), "{name}");
        let mut by = receiver.counters().received_paths;
        by.retain(|(_, traffic)| traffic.messages > 0);
        let by: Vec<Path> = by.into_iter().map(|(path, _)| path).collect();
        assert_eq!(by, [Path::PeerReadable], "{name}");
    }
}

#[test]
fn messages_beside_one_that_cannot_be_read_arrive() {
    let mut rooms = vec![vec![0; LEN]; 4];
    let data: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    let open = || open_with(|with| with.allowed(paths.with(Path::Cma)));
    let (mut receiver, mut sender, of_sender, of_receiver) = meet(open(), open());
    let receives: Vec<_> = rooms
        .iter_mut()
        // SAFETY: the rooms stay as long as the endpoints.
        .map(|room| unsafe { post_receive(&mut receiver, (Peer(of_sender), 3), room) })
        .map(pending)
        .collect();
    let mut forger = Forger::new(&receiver, of_sender);
    for message in 0..4 {
        if message == 1 {
            let offer = Offer {
                len: LEN as u64,
                send: u64::MAX,
                address: 8,
                ..Offer::default()
            };
            forger.push(&ControlRecord::message(
                frame::READY_TO_SEND,
                3,
                None,
                offer.encode(),
            ));
        } else {
            // SAFETY: the data stays as long as the endpoints.
            pending(unsafe { post(&mut sender, of_receiver, 3, &data) });
        }
    }
    for (at, receive) in receives.into_iter().enumerate() {
        if at == 1 {
            assert!(receiver.test(receive).is_none(), "there are no such bytes");
            continue;
        }
        let mut outcome = None;
        until(&mut [&mut receiver, &mut sender], |engines| {
            outcome = outcome.take().or_else(|| engines[0].test(receive));
            outcome.is_some()
        });
        assert_eq!(outcome.map(|outcome| outcome.is_ok()), Some(true), "{at}");
    }
    for (at, room) in rooms.iter().enumerate().filter(|(at, _)| *at != 1) {
        assert!(*room == data, "{at}: other bytes have come");
    }
    assert_eq!(receiver.counters().event(Event::Demotions), 1);
}
