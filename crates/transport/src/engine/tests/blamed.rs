//! A third has written garbage in the name of a sender that is in the middle of a block of a split
//! copy: the buffer is given back when the block is written, and not before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use limic_records::ControlRecord;

use super::third::{Forger, PATIENCE, Pair};
use super::{outcome, turn, without_pidfd};
use crate::Error;
use crate::child::holds_in_child;
use crate::engine::progress::work;
use crate::raw::{Posted, RequestId};

/// A pair whose sender is blamed in the middle of a block, and is stopped there.
struct Stopped {
    pair: Pair,
    receive: RequestId,
    /// Of the sender's copies.
    line: u32,
    claimed: u32,
}

impl Stopped {
    fn new(has_pidfd: bool) -> Self {
        let mut stopped = Self::unblamed(has_pidfd);
        let pair = &mut stopped.pair;
        let mut forger = Forger::new(&pair.receiver, pair.of_sender);
        forger.push(&ControlRecord::new(100, 0, [0; 4]));
        let since = Instant::now();
        while pair.receiver.cx.peers.is_alive(pair.of_sender) {
            assert!(since.elapsed() < PATIENCE, "garbage ends the connection");
            turn(&mut [&mut pair.receiver]);
        }
        stopped
    }

    /// One of which nobody has said anything.
    fn unblamed(has_pidfd: bool) -> Self {
        let mut pair = Pair::new();
        if !has_pidfd {
            without_pidfd(&mut pair.receiver, pair.of_sender);
        }
        let send = pair.offer();
        let receive = pair.accept();
        pair.take_part(send);
        let split = pair.stop_in_block(send);
        Self {
            pair,
            receive,
            line: split.line,
            claimed: split.own_blocks + 1,
        }
    }

    /// The receive goes on, and its endpoint does not sleep for long meanwhile.
    fn goes_on(&mut self) {
        let receiver = &mut self.pair.receiver;
        for _ in 0..100 {
            turn(&mut [receiver]);
            assert!(
                receiver.test(self.receive).is_none(),
                "given back too early"
            );
        }
        let longest = work::longest_sleep(&receiver.cx);
        assert!(
            longest.is_some_and(|longest| longest <= work::BLOCKED),
            "nobody rings when the block is written: {longest:?}"
        );
    }

    fn write_block(&mut self) {
        let splits = &self.pair.sender.cx.transfers.splits;
        splits.outgoing.done(self.line, self.claimed);
    }

    /// The receive ends, since its sender has failed.
    fn ends(receiver: &mut crate::engine::Engine, receive: RequestId) {
        let outcome = outcome(&mut [receiver], Posted::Pending(receive));
        assert!(
            matches!(outcome, Err(Error::PeerFailed { .. })),
            "{outcome:?}"
        );
    }
}

/// Says when it is dropped.
struct Buffer(Arc<AtomicBool>);

impl Drop for Buffer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_buffer_is_given_back_when_the_sender_that_a_third_has_blamed_has_written_its_block() {
    for has_pidfd in [true, false] {
        let mut stopped = Stopped::new(has_pidfd);
        stopped.goes_on();
        stopped.write_block();
        Stopped::ends(&mut stopped.pair.receiver, stopped.receive);
    }
}

/// Without a pidfd only the connection says that the sender is through with it.
#[test]
fn a_buffer_is_given_back_when_the_blamed_sender_is_gone() {
    let mut stopped = Stopped::new(false);
    stopped.goes_on();
    let Pair {
        mut receiver,
        sender,
        ..
    } = stopped.pair;
    drop(sender);
    Stopped::ends(&mut receiver, stopped.receive);
}

#[test]
fn an_endpoint_closes_while_a_sender_is_stopped_in_the_middle_of_a_block() {
    for has_pidfd in [true, false] {
        let mut stopped = Stopped::unblamed(has_pidfd);
        stopped.pair.receiver.close();
        stopped.goes_on();
        stopped.write_block();
        Stopped::ends(&mut stopped.pair.receiver, stopped.receive);
    }
}

#[test]
fn a_buffer_that_is_left_to_a_closed_endpoint_in_the_middle_of_a_block_is_not_freed() {
    for closes_first in [true, false] {
        let mut stopped = Stopped::new(true);
        let freed = Arc::new(AtomicBool::new(false));
        let buffer = Box::new(Buffer(Arc::clone(&freed)));
        let receiver = &mut stopped.pair.receiver;
        if closes_first {
            receiver.close();
        }
        receiver.abandon(stopped.receive, buffer);
        let Pair {
            receiver, sender, ..
        } = stopped.pair;
        drop(receiver);
        assert!(!freed.load(Ordering::Relaxed), "its sender may write there");
        drop(sender);
    }
}

/// The sender writes to the parent's buffer, and the child has a copy.
#[test]
fn a_forked_child_waits_for_no_block_that_its_parent_waits_for() {
    for closes in [false, true] {
        let mut stopped = Stopped::new(true);
        if closes {
            stopped.pair.receiver.close();
        }
        stopped.goes_on();
        assert!(holds_in_child(|| {
            Stopped::ends(&mut stopped.pair.receiver, stopped.receive);
            true
        }));
        stopped.goes_on();
        stopped.write_block();
        Stopped::ends(&mut stopped.pair.receiver, stopped.receive);
    }
}
