//! Unexpected messages take no more memory than they may.

use core::time::Duration;
use std::time::Instant;

use limic_pools::arena::ArenaMessage;
use limic_records::{self as frame, ControlRecord, Offer};

use super::{
    attach_both, give_up, meet, open_with, outcome, pending, post, post_receive, send, thread_time,
    turn, until,
};
use crate::engine::Engine;
use crate::engine::envelope::Envelope;
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::engine::outbox;
use crate::engine::protocol::{receive, rendezvous, unexpected};
use crate::raw::{Inbox, Posted, Reserved};
use crate::{Error, Peer, Selector, Tag};

/// The least that can be set, and 16 times as much: the cap.
const BUDGET: u64 = 64 << 10;
const CAP: u64 = 16 * BUDGET;
/// What a message takes at least.
const ENTRY: u64 = 256;
/// More than the cap has room for.
const MESSAGES: u64 = 4 * CAP / ENTRY;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

static DATA: [u8; 8] = [7; 8];

fn open(private_rings: u32) -> Engine {
    open_with(|settings| {
        settings
            .private_rings(private_rings)
            .unexpected_budget_bytes(BUDGET)
            .linger(Duration::ZERO)
    })
}

/// Sends messages of eight bytes with the tags from 0 on, more than are received.
fn flood(sender: &mut Engine, to: u32, receiver: &mut Engine) {
    for tag in 0..MESSAGES {
        // SAFETY: the data stays for ever.
        let _ = unsafe { post(sender, to, tag, &DATA) };
        if tag % 16 == 0 {
            turn(&mut [&mut *receiver, &mut *sender]);
        }
    }
    for _ in 0..MESSAGES {
        turn(&mut [&mut *receiver, &mut *sender]);
    }
}

/// Whether a message has come, is kept, and is received now.
fn take(engine: &mut Engine, from: (Peer, u64)) -> bool {
    let (selector, mut room) = (Selector::from(from), [0_u8; 8]);
    if !matches!(receive::probe(&mut engine.cx, &selector), Ok(Some(_))) {
        return false;
    }
    // SAFETY: the message is there, so the receive is over when the call returns.
    let posted = unsafe { post_receive(engine, selector, &mut room) };
    assert!(matches!(posted, Posted::Done(Ok(_))), "{posted:?}");
    assert_eq!(room, DATA);
    true
}

/// Messages that are kept.
fn kept(engine: &Engine) -> u64 {
    engine.cx.counters.unexpected_bytes() / DATA.len() as u64
}

#[test]
fn a_peer_that_sends_more_than_is_received_waits_and_loses_nothing() {
    let (mut receiver, mut flooding, of_flooding, at_flooding) = meet(open(2), open(2));
    flood(&mut flooding, at_flooding, &mut receiver);
    let (most, all) = (kept(&receiver) * ENTRY, MESSAGES * ENTRY);
    assert!((CAP / 2..CAP * 3 / 2).contains(&most), "{most} of {all}");
    for tag in 0..MESSAGES {
        until(&mut [&mut receiver, &mut flooding], |engines| {
            take(engines[0], (Peer(of_flooding), tag))
        });
    }
    assert_eq!(kept(&receiver), 0);
}

#[test]
fn messages_of_a_runtime_to_itself_wait_as_all_others_do() {
    let (mut receiver, mut flooding, of_flooding, at_flooding) = meet(open(2), open(2));
    receiver.reserve_tags(0, 0);
    receiver.use_inbox(true);
    flood(&mut flooding, at_flooding, &mut receiver);
    let (most, all) = (kept(&receiver) * ENTRY, MESSAGES * ENTRY);
    assert!((CAP / 2..CAP * 3 / 2).contains(&most), "{most} of {all}");
    let (mut inbox, mut tags) = (Inbox::default(), Vec::new());
    until(&mut [&mut receiver, &mut flooding], |engines| {
        engines[0].take_inbox(&mut inbox);
        for (status, bytes) in inbox.iter() {
            assert!(status.peer == Peer(of_flooding) && bytes == DATA);
            tags.push(status.tag.0);
        }
        while let Some(Reserved::Claimed(status, claim)) = engines[0].take_reserved() {
            // SAFETY: the message is there, so the receive is over when the call returns.
            let posted = unsafe { receive::post_claimed(&mut engines[0].cx, claim, &[]) };
            assert!(matches!(posted, Ok(Posted::Done(_))), "{posted:?}");
            tags.push(status.tag.0);
        }
        tags.len() as u64 == MESSAGES
    });
    assert!(tags.into_iter().eq(0..MESSAGES));
    assert_eq!(kept(&receiver), 0);
}

#[test]
fn who_sends_too_much_that_nobody_receives_has_short_turns() {
    let (mut receiver, mut flooding, _, at_flooding) = meet(open(2), open(2));
    let mut taken = Vec::new();
    for tag in 0..2 * BUDGET / ENTRY {
        // SAFETY: the data stays for ever.
        let _ = unsafe { post(&mut flooding, at_flooding, tag, &DATA) };
        if tag % 16 == 0 {
            let before = kept(&receiver);
            receiver.progress();
            taken.push(kept(&receiver) - before);
            flooding.progress();
        }
    }
    let (first, last) = (taken[taken.len() / 4], taken[taken.len() - 1]);
    assert!(first >= 16, "{taken:?}");
    assert!((1..=2).contains(&last), "{taken:?}");
}

#[test]
fn a_receive_gets_its_message_out_of_a_ring_that_is_held_back() {
    let (mut receiver, mut flooding, of_flooding, at_flooding) = meet(open(2), open(2));
    flood(&mut flooding, at_flooding, &mut receiver);
    let next = kept(&receiver);
    let mut room = [0_u8; 8];
    // SAFETY: the room stays until the receive is over.
    let posted = unsafe { post_receive(&mut receiver, (Peer(of_flooding), next), &mut room) };
    let id = Posted::Pending(pending(posted));
    let outcome = outcome(&mut [&mut receiver, &mut flooding], id);
    assert_eq!(outcome.map(|status| status.tag), Ok(Tag(next)));
    assert_eq!(room, DATA);
}

#[test]
fn one_that_floods_holds_back_nobody_else() {
    let (mut receiver, mut flooding, mut other) = (open(2), open(2), open(2));
    let (_, at_flooding) = attach_both(&mut receiver, &mut flooding);
    let (of_other, at_other) = attach_both(&mut receiver, &mut other);
    flood(&mut flooding, at_flooding, &mut receiver);
    // Through the shared ring, and then through its own.
    for tag in 0..100 {
        send(&mut other, at_other, tag);
        until(&mut [&mut receiver, &mut other, &mut flooding], |engines| {
            take(engines[0], (Peer(of_other), tag))
        });
    }
}

#[test]
fn a_peer_that_floods_the_ring_of_all_is_given_up() {
    let (mut receiver, mut flooding, mut other) = (open(0), open(0), open(0));
    let (of_flooding, at_flooding) = attach_both(&mut receiver, &mut flooding);
    let (of_other, at_other) = attach_both(&mut receiver, &mut other);
    let since = Instant::now();
    let mut tag = 0;
    while receiver.cx.peers.is_alive(of_flooding) {
        // SAFETY: the data stays for ever.
        let _ = unsafe { post(&mut flooding, at_flooding, tag, &DATA) };
        tag += 1;
        if tag % 16 == 0 {
            turn(&mut [&mut receiver, &mut flooding]);
        }
        assert!(since.elapsed() < PATIENCE, "{} are kept", kept(&receiver));
    }
    let most = kept(&receiver) * ENTRY;
    assert!(most < 3 * CAP, "{most}");
    let failed = receiver.attach(of_flooding);
    let Err(Error::PeerFailed { why, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(why.to_string().contains("LIMIC_UNEXPECTED_BYTES"), "{why}");
    send(&mut other, at_other, 5);
    until(&mut [&mut receiver, &mut other], |engines| {
        take(engines[0], (Peer(of_other), 5))
    });
    turn(&mut [&mut receiver, &mut other]);
    assert!(receiver.cx.peers.is_alive(of_other), "it has sent little");
}

/// It has sent the same bytes many times, which an honest one does not.
#[test]
fn what_a_peer_left_in_its_arena_takes_no_more_than_messages_may() {
    const LEN: usize = CAP as usize;
    const TIMES: usize = 50;
    let (mut receiver, mut sender, of_sender, at_sender) = meet(open(2), open(2));
    let loan = sender.borrow_loan(LEN).expect("a loan");
    let sent = sender.post_loan(at_sender, 3, loan, LEN);
    assert!(matches!(sent, Ok(Posted::Done(Ok(_)))), "{sent:?}");
    let message = ArenaMessage {
        arena: 0,
        offset: 0,
        len: LEN as u64,
        flag: 0,
        generation: 0,
        send_ahead: None,
    };
    for _ in 1..TIMES {
        let record = ControlRecord::message(frame::ARENA, 3, None, message.encode());
        outbox::control(&mut sender.cx, at_sender, record);
    }
    until(&mut [&mut receiver, &mut sender], |engines| {
        engines[0].cx.matching.kept() == TIMES as u32
    });
    give_up(&mut receiver, of_sender);
    assert!(receiver.cx.counters.unexpected_bytes() <= 2 * CAP);
    let outcomes = [(); TIMES].map(|()| {
        // SAFETY: no room.
        let posted = unsafe { post_receive(&mut receiver, (Peer(of_sender), 3), &mut []) };
        let Posted::Done(outcome) = posted else {
            panic!("it has come");
        };
        outcome.expect_err("too long, or lost").to_string()
    });
    let lost = outcomes.iter();
    let lost = lost.filter(|why| why.contains("LIMIC_UNEXPECTED_BYTES"));
    assert_eq!(lost.count(), TIMES - 1, "{outcomes:?}");
}

#[test]
fn an_offer_is_looked_for_no_longer_the_more_messages_wait() {
    const FEW: u32 = 4000;
    const MANY: u32 = 160_000;
    let (mut receiver, _sender, of_sender, _) = meet(open(2), open(2));
    let mut kept = 0;
    let [few, many] = [FEW, MANY].map(|count| {
        while kept < count {
            let offer = Offer {
                len: 0,
                send: 1000 + u64::from(kept),
                address: 0,
                key: 0,
                vectored: false,
                peer_readable: false,
                confirm: false,
            };
            let message = UnexpectedMessage {
                envelope: Envelope::new(of_sender, 3),
                len: 0,
                body: UnexpectedBody::Offered(offer),
            };
            let token = unexpected::keep(&mut receiver.cx, message).expect("memory");
            assert!(receiver.cx.matching.store().note_offer(token));
            kept += 1;
        }
        let looks = (0..100).map(|_| {
            let since = thread_time();
            // None of these is offered.
            (0..100).for_each(|send| rendezvous::on_retract(&mut receiver.cx, of_sender, send));
            thread_time() - since
        });
        looks.min().expect("a look")
    });
    // A look at each would take longer in proportion.
    assert!(
        many <= few * 20,
        "{many:?} among {MANY}, {few:?} among {FEW}"
    );
}
