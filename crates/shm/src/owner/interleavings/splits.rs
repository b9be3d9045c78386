//! Split copies: terms that are read while a line is opened anew, and a receiver that finishes or
//! gives up while the sender writes.

use loom::thread;

use super::{read, write};
use crate::owner::split::{PeerSplits, SplitIn, SplitOut, SplitTerms};
use crate::ring::LINE;
use crate::ring::memory::modelled::Modelled;

/// What each end is called at the other one.
const SENDER: u32 = 5;
const RECEIVER: u32 = 6;

/// The two ends, each with one line.
struct Ends {
    incoming: SplitIn<Modelled>,
    outgoing: SplitOut<Modelled>,
    /// As the sender sees the receiver.
    receiver: PeerSplits<Modelled>,
    /// As the receiver sees the sender.
    sender: PeerSplits<Modelled>,
}

impl Ends {
    fn new() -> Self {
        let [incoming, outgoing, unused] = [(); 3].map(|()| Modelled::new(LINE));
        Self {
            incoming: SplitIn::new(incoming.clone()),
            outgoing: SplitOut::new(outgoing.clone()),
            receiver: PeerSplits::new(incoming, unused.clone(), 1, SENDER),
            sender: PeerSplits::new(unused, outgoing, 1, RECEIVER),
        }
    }
}

/// Terms of the copy with this serial number, which they tell.
fn terms(serial: u64) -> SplitTerms {
    SplitTerms {
        sender: SENDER,
        send: serial + 10,
        receive: serial + 20,
        bytes: serial + 30,
        address: serial + 40,
        block: serial + 50,
    }
}

#[test]
fn terms_are_those_of_one_copy() {
    loom::model(|| {
        let ends = Ends::new();
        ends.incoming.open(0, 1, &terms(1));
        let receiver = ends.receiver;
        let reading = thread::spawn(move || {
            if let Some((serial, found)) = receiver.terms(0) {
                assert_eq!(found, terms(serial));
            }
        });
        ends.incoming.end(0);
        ends.incoming.open(0, 2, &terms(2));
        reading.join().expect("the sender");
    });
}

#[test]
fn progress_is_that_of_one_copy() {
    loom::model(|| {
        let ends = Ends::new();
        ends.outgoing.take(0, RECEIVER, 1);
        ends.outgoing.claim(0, 1);
        let outgoing = ends.outgoing;
        let sending = thread::spawn(move || {
            outgoing.done(0, 1);
            outgoing.finish(0, 1);
            // To another one, of which it copies more.
            outgoing.take(0, RECEIVER + 1, 2);
            outgoing.claim(0, 8);
            outgoing.finish(0, 8);
        });
        if let Some(progress) = ends.sender.progress(1) {
            assert_eq!(progress.claimed, 1);
            assert!(progress.finished.is_none_or(|blocks| blocks == 1));
        }
        sending.join().expect("the sender");
    });
}

/// What an end does wrong, to show that loom finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The sender does not look whether the copy goes on once it has claimed a block.
    Unasked,
    /// The receiver does not wait for the block under way.
    Unawaited,
}

/// The sender writes a block, while the receiver gives up and uses its buffer again.
fn give_up(fault: Fault) {
    loom::model(move || {
        let ends = Ends::new();
        let buffer = Modelled::new(LINE);
        let written = buffer.clone();
        ends.incoming.open(0, 1, &terms(1));
        let (receiver, outgoing) = (ends.receiver, ends.outgoing);
        let sending = thread::spawn(move || {
            let Some((serial, _)) = receiver.terms(0) else {
                return;
            };
            outgoing.take(0, RECEIVER, serial);
            outgoing.claim(0, 1);
            let lets_write = receiver.lets_write(0, serial) || fault == Fault::Unasked;
            if lets_write {
                write(&written, 7);
                outgoing.done(0, 1);
            }
            outgoing.finish(0, lets_write.into());
            // The send is over, and another one gets the line.
            outgoing.take(0, RECEIVER + 1, 2);
        });
        ends.incoming.end(0);
        while fault != Fault::Unawaited
            && ends
                .sender
                .progress(1)
                .is_some_and(|progress| !progress.is_idle())
        {
            thread::yield_now();
        }
        write(&buffer, 9);
        sending.join().expect("the sender");
        assert_eq!(read(&buffer), [9; 8]);
    });
}

#[test]
fn a_buffer_that_was_given_up_is_not_written() {
    give_up(Fault::None);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_sender_that_does_not_look_again_is_found() {
    give_up(Fault::Unasked);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_receiver_that_does_not_wait_is_found() {
    give_up(Fault::Unawaited);
}

/// The sender takes part in a copy of one block, and writes that if it may. True if it did.
fn write_block(
    receiver: &PeerSplits<Modelled>,
    outgoing: &SplitOut<Modelled>,
    buffer: &Modelled,
) -> bool {
    let (serial, _) = receiver.terms(0).expect("the copy goes on");
    outgoing.take(0, RECEIVER, serial);
    outgoing.claim(0, 1);
    let lets_write = receiver.lets_write(0, serial);
    if lets_write {
        write(buffer, 7);
        outgoing.done(0, 1);
    }
    lets_write
}

/// The receiver has nothing left to read, and takes what its sender has copied so far, which does
/// something else then.
#[test]
fn a_sender_that_pauses_has_copied_what_it_says_and_copies_no_more() {
    loom::model(|| {
        let ends = Ends::new();
        let buffer = Modelled::new(LINE);
        let written = buffer.clone();
        ends.incoming.open(0, 1, &terms(1));
        let (receiver, outgoing) = (ends.receiver, ends.outgoing);
        let sending = thread::spawn(move || {
            if !write_block(&receiver, &outgoing, &written) {
                outgoing.finish(0, 0);
            }
        });
        ends.incoming.claim_rest(0);
        let copied = loop {
            match ends.sender.progress(1) {
                None => break 0,
                Some(progress) if progress.is_idle() => break progress.copied,
                Some(_) => thread::yield_now(),
            }
        };
        if copied == 0 {
            write(&buffer, 9);
        }
        assert_eq!(read(&buffer), [if copied == 0 { 9 } else { 7 }; 8]);
        sending.join().expect("the sender");
    });
}

/// The receiver waits for what the sender says that it has copied.
#[test]
fn the_blocks_of_a_sender_that_has_finished_are_there() {
    loom::model(|| {
        let ends = Ends::new();
        let buffer = Modelled::new(LINE);
        let written = buffer.clone();
        ends.incoming.open(0, 1, &terms(1));
        let (receiver, outgoing) = (ends.receiver, ends.outgoing);
        let sending = thread::spawn(move || {
            assert!(write_block(&receiver, &outgoing, &written));
            outgoing.finish(0, 1);
        });
        ends.incoming.claim(0, 1);
        let blocks = loop {
            let progress = ends.sender.progress(1);
            if let Some(blocks) = progress.and_then(|progress| progress.finished) {
                break blocks;
            }
            thread::yield_now();
        };
        assert_eq!((blocks, read(&buffer)), (1, [7; 8]));
        ends.incoming.end(0);
        sending.join().expect("the sender");
    });
}
