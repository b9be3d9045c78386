//! A message in an arena that its receiver cannot map arrives all the same.

use limic_policy::{Path, PathSet};
use limic_pools::arena::ArenaMessage;
use limic_records::{self as frame, ControlRecord};

use super::third::Forger;
use super::{failed, meet, open_with, outcome, post_receive, until};
use crate::counters::Event;
use crate::engine::Engine;
use crate::engine::contact::failure;
use crate::engine::protocol::message::Message;
use crate::engine::protocol::{arena_message, loans, receive, send_ahead};
use crate::error::PeerFailure;
use crate::raw::{Owner, Posted, RawSlice, RawSliceMut};
use crate::{Peer, Result, Selector, Tag};

/// More than one step of a copy, and no multiple of it.
const LEN: usize = 200_001;

/// A receiver that can map no arena of its sender, and their numbers at each other.
fn pair() -> (Engine, Engine, (u32, u32)) {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    let paths = paths.with(Path::Loan).with(Path::SendAhead);
    let open = || open_with(|with| with.allowed(paths));
    let (mut receiver, sender, of_sender, of_receiver) = meet(open(), open());
    let pair = receiver.cx.peers.pair(of_sender).expect("shared memory");
    pair.arenas.map_none();
    (receiver, sender, (of_sender, of_receiver))
}

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at % 251) as u8).collect()
}

fn lend(sender: &mut Engine, of_receiver: u32) {
    let loan = sender.borrow_loan(LEN).expect("a loan");
    let content = content();
    // SAFETY: the loan has as many bytes.
    unsafe { core::ptr::copy_nonoverlapping(content.as_ptr(), loan.start, LEN) };
    let sent = sender.post_loan(of_receiver, 3, loan, LEN);
    assert!(matches!(sent, Ok(Posted::Done(Ok(_)))), "{sent:?}");
}

fn send_ahead(sender: &mut Engine, of_receiver: u32) {
    let content = content();
    let data = [RawSlice::from(&content[..])];
    let message = Message::new(of_receiver, 3, None, &data);
    // SAFETY: the content is readable during the call.
    let ahead = unsafe { send_ahead::push_send_ahead(&mut sender.cx, &message) };
    assert!(ahead, "there is room");
}

#[test]
fn a_message_in_an_arena_that_cannot_be_mapped_is_received() {
    for begin in [lend, send_ahead] {
        for posted_first in [true, false] {
            let (mut receiver, mut sender, (of_sender, of_receiver)) = pair();
            let selector = Selector::from((Peer(of_sender), Tag(3)));
            let mut room = vec![0; LEN];
            if !posted_first {
                begin(&mut sender, of_receiver);
                receiver.progress();
            }
            // SAFETY: the room stays until the receive is over.
            let posted = unsafe { post_receive(&mut receiver, selector, &mut room) };
            if posted_first {
                begin(&mut sender, of_receiver);
            }
            let outcome = outcome(&mut [&mut receiver, &mut sender], posted);
            assert_eq!(outcome.map(|status| status.len), Ok(LEN as u64));
            assert_eq!(room, content());
        }
    }
}

#[test]
fn a_loan_in_an_arena_that_cannot_be_mapped_is_taken_as_a_copy() {
    let (mut receiver, mut sender, (of_sender, of_receiver)) = pair();
    lend(&mut sender, of_receiver);
    let selector = Selector::from((Peer(of_sender), Tag(3)));
    let mut taken = None;
    until(&mut [&mut receiver], |engines| {
        taken = engines[0].take_loan(&selector).expect("alive");
        taken.is_some()
    });
    let taken = taken.expect("a loan");
    // SAFETY: the bytes stay as long as what was taken.
    let bytes = unsafe { core::slice::from_raw_parts(taken.start, LEN) };
    assert_eq!(bytes, content());
}

/// The receiver has as many arenas that it cannot map as it keeps when the message comes. Gives the
/// place of that, and the bytes of its arena.
fn lend_one_too_many(
    receiver: &mut Engine,
    sender: &mut Engine,
    (of_sender, of_receiver): (u32, u32),
) -> (*mut u8, usize) {
    let loan = sender.borrow_loan(LEN).expect("a loan");
    let (fd, bytes) = sender.cx.arenas.descriptor(0).expect("an arena");
    let pair = receiver.cx.peers.pair(of_sender).expect("shared memory");
    for number in 1000..1016 {
        let fd = fd.try_clone().expect("a descriptor");
        pair.arenas.map(number, bytes as u64, fd);
    }
    let room = loan.start;
    sender.return_loan(loan);
    lend(sender, of_receiver);
    (room, bytes)
}

#[test]
fn a_loan_that_cannot_be_had_says_why_though_its_sender_has_gone() {
    type Get = fn(&mut Engine, &Selector) -> Result<()>;
    let takes: [Get; 2] = [receive_one, |receiver, selector| {
        loans::take_or_fetch(&mut receiver.cx, selector).map(|_| ())
    }];
    for get in takes {
        let (mut receiver, mut sender, numbers) = pair();
        lend_one_too_many(&mut receiver, &mut sender, numbers);
        receiver.progress();
        failure::fail_peer(&mut receiver.cx, numbers.0, PeerFailure::Closed);
        let selector = Selector::from((Peer(numbers.0), Tag(3)));
        let error = get(&mut receiver, &selector).expect_err("its bytes are gone");
        assert!(
            error.to_string().contains("raise ulimit -v here"),
            "{error}"
        );
        let again = get(&mut receiver, &selector).expect_err("it is told once");
        assert_eq!(again, failed(numbers.0, PeerFailure::Closed));
    }
}

/// The peer may have what it likes of its memory: this process keeps a descriptor for few arenas
/// that it cannot map.
#[test]
fn a_loan_in_one_arena_too_many_ends_its_receive_and_says_why() {
    let (mut receiver, mut sender, (of_sender, of_receiver)) = pair();
    let (room, bytes) = lend_one_too_many(&mut receiver, &mut sender, (of_sender, of_receiver));
    let selector = Selector::from((Peer(of_sender), Tag(3)));
    let mut outcome = None;
    until(&mut [&mut receiver], |engines| {
        outcome = engines[0].take_loan(&selector).transpose();
        outcome.is_some()
    });
    let why = outcome.and_then(Result::err).map(|error| error.to_string());
    let wanted = format!(
        "out of memory: a message of {LEN} bytes from {} is lost: 16 other arenas of that peer \
         cannot be mapped already; raise ulimit -v here, or have it use fewer arenas",
        Peer(of_sender)
    );
    assert_eq!(why, Some(wanted));
    let again = sender.borrow_loan(bytes).expect("a loan");
    assert_eq!(again.start, room, "the sender has its room back");
    assert!(receiver.cx.peers.is_alive(of_sender));
}

/// Receives one byte of a message that has come.
fn receive_one(receiver: &mut Engine, selector: &Selector) -> Result<()> {
    let mut room = [0];
    let into = [RawSliceMut::from(&mut room[..])];
    // SAFETY: the room stays until the receive is over, or the test fails.
    match unsafe { receive::post_recv(&mut receiver.cx, selector, &into, Owner::Caller) }? {
        Posted::Done(outcome) => outcome.map(|_| ()),
        Posted::Pending(_) => panic!("it has come"),
    }
}

/// Takes a loan that has come.
fn take(receiver: &mut Engine, selector: &Selector) -> Result<()> {
    let taken = receiver.take_loan(selector)?;
    taken.map(|_| ()).expect("it has come");
    Ok(())
}

/// No want of memory here explains the sender's numbers.
#[test]
fn a_message_outside_of_an_arena_that_cannot_be_mapped_ends_its_sender() {
    for get in [receive_one, take] {
        for (before_end, len) in [(1, 2), (1, 1 << 55)] {
            let (mut receiver, mut sender, (of_sender, of_receiver)) = pair();
            lend(&mut sender, of_receiver);
            let (_, bytes) = sender.cx.arenas.descriptor(0).expect("an arena");
            let message = ArenaMessage {
                arena: 0,
                offset: bytes as u64 - before_end,
                len,
                flag: 0,
                generation: 0,
                send_ahead: None,
            };
            let record = ControlRecord::message(frame::ARENA, 4, None, message.encode());
            Forger::new(&receiver, of_sender).push(&record);
            let forged = Selector::from((Peer(of_sender), Tag(4)));
            until(&mut [&mut receiver], |engines| {
                let found = receive::probe(&mut engines[0].cx, &forged);
                found.expect("alive").is_some()
            });
            let failed = failed(
                of_sender,
                PeerFailure::Corrupt(arena_message::OUTSIDE.into()),
            );
            assert_eq!(get(&mut receiver, &forged), Err(failed));
            until(&mut [&mut receiver], |engines| {
                !engines[0].cx.peers.is_alive(of_sender)
            });
            assert_eq!(receiver.counters().event(Event::Violations), 1);
        }
    }
}
