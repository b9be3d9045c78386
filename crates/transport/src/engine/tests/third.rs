//! A third endpoint forges what one of two honest ones says to the other, between endpoints of one
//! thread: nobody writes where it was not asked to, and no buffer is given back too early.

use core::time::Duration;
use std::time::Instant;

use limic_policy::{Path, PathSet};
use limic_records::{ClearToSend, ControlRecord, Done, Next, SPLIT_COPY};
use limic_shm::owner::split::SplitTerms;
use limic_shm::ring::Mapped;
use limic_shm::ring::shared::SharedProducer;

use super::{attach_both, claimer, meet, open_with, pending, post, post_receive, turn};
use crate::Peer;
use crate::engine::Engine;
use crate::engine::request::operation::SplitWrite;
use crate::engine::request::{Operation, ReceiveStage, SendStage};
use crate::error::Outcome;
use crate::raw::RequestId;

const LEN: usize = 4 << 20;
/// Longer than anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// An endpoint whose long messages are copied by both sides at once.
fn open() -> Engine {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    open_with(|with| with.allowed(paths.with(Path::SplitCopy)).private_rings(1))
}

/// Writes into the shared ring of an endpoint, in the name of one of its peers, as any other one
/// can that has mapped it.
pub(super) struct Forger(SharedProducer<Mapped>);

impl Forger {
    pub(super) fn new(reader: &Engine, in_the_name_of: u32) -> Self {
        Self(claimer(reader, in_the_name_of))
    }

    pub(super) fn push(&mut self, record: &ControlRecord) {
        let words = record.words();
        let mut room = self.0.reserve(8 * words.len() as u32).expect("room");
        for (at, word) in words.iter().enumerate() {
            room.write_bytes(8 * at as u32, &word.to_ne_bytes());
        }
        room.publish(record.kind, record.tag);
    }
}

/// A sender and a receiver that have met, and a long message between them.
pub(super) struct Pair {
    pub(super) receiver: Engine,
    pub(super) sender: Engine,
    pub(super) of_sender: u32,
    of_receiver: u32,
    data: Vec<u8>,
    room: Vec<u8>,
}

impl Pair {
    pub(super) fn new() -> Self {
        let (receiver, sender, of_sender, of_receiver) = meet(open(), open());
        Self {
            receiver,
            sender,
            of_sender,
            of_receiver,
            data: (0..LEN).map(|at| (at % 251) as u8).collect(),
            room: vec![0; LEN],
        }
    }

    /// The sender offers the message.
    pub(super) fn offer(&mut self) -> RequestId {
        // SAFETY: the data stays as long as the endpoint.
        let send = pending(unsafe { post(&mut self.sender, self.of_receiver, 3, &self.data) });
        self.sender.progress();
        send
    }

    /// The receiver takes the offer, and begins.
    pub(super) fn accept(&mut self) -> RequestId {
        let from = (Peer(self.of_sender), 3);
        // SAFETY: the room stays as long as the endpoint.
        let id = pending(unsafe { post_receive(&mut self.receiver, from, &mut self.room) });
        let since = Instant::now();
        while self.split_read(id).is_none() {
            assert!(since.elapsed() < PATIENCE, "the offer is not taken");
            self.receiver.progress();
        }
        id
    }

    /// The sender begins to write.
    pub(super) fn take_part(&mut self, send: RequestId) {
        let since = Instant::now();
        while self.send_stage(send) == OFFERED {
            assert!(since.elapsed() < PATIENCE, "the sender takes no part");
            self.sender.progress();
        }
    }

    /// A pair of which both ends take part: with the send and the receive.
    fn under_way() -> (Self, RequestId, RequestId) {
        let mut pair = Self::new();
        let send = pair.offer();
        let receive = pair.accept();
        pair.take_part(send);
        (pair, send, receive)
    }

    /// The receiver's line of its copy, once it has one.
    fn split_read(&mut self, id: RequestId) -> Option<u32> {
        let requests = &mut self.receiver.cx.requests;
        let slot = requests.find(id)?;
        match requests.receiving(slot)?.stage {
            ReceiveStage::SplitRead(_, split) => Some(split.line),
            _ => None,
        }
    }

    pub(super) fn send_stage(&mut self, id: RequestId) -> Option<SendStage> {
        let slot = self.sender.cx.requests.find(id)?;
        match self.sender.cx.requests.get(slot) {
            Operation::Send(sending) => Some(sending.stage),
            _ => None,
        }
    }

    /// As if the sender were stopped in the middle of its next block. Gives what it did before.
    pub(super) fn stop_in_block(&mut self, send: RequestId) -> SplitWrite {
        let stage = self.send_stage(send);
        let Some(SendStage::SplitWrite(split)) = stage else {
            panic!("the sender takes no part: {stage:?}");
        };
        let outgoing = &self.sender.cx.transfers.splits.outgoing;
        outgoing.claim(split.line, split.own_blocks + 1);
        split
    }

    /// Until both ends of the message are done.
    fn finish(&mut self, send: RequestId, receive: RequestId) -> (Outcome, Outcome) {
        let since = Instant::now();
        let (mut sent, mut received) = (None, None);
        while sent.is_none() || received.is_none() {
            assert!(since.elapsed() < PATIENCE, "{sent:?} {received:?}");
            turn(&mut [&mut self.receiver, &mut self.sender]);
            sent = sent.or_else(|| self.sender.test(send));
            received = received.or_else(|| self.receiver.test(receive));
        }
        (sent.expect("sent"), received.expect("received"))
    }

    /// The message arrives whole while the sender has no turn, and then the send is over.
    fn receive_alone(&mut self, send: RequestId, receive: RequestId) {
        let since = Instant::now();
        let received = loop {
            assert!(since.elapsed() < PATIENCE, "it waits for its sender");
            self.receiver.progress();
            if let Some(received) = self.receiver.test(receive) {
                break received;
            }
        };
        assert!(received.is_ok(), "{received:?}");
        assert!(self.room == self.data, "other bytes have come");
        let since = Instant::now();
        while self.sender.test(send).is_none() {
            assert!(since.elapsed() < PATIENCE, "the send goes on");
            self.sender.progress();
        }
    }

    /// A third asks the sender to write to a victim, whose bytes are alike, and it does not.
    fn ask_in_vain(&mut self, send: RequestId, record: &ControlRecord, victim: &[u8]) {
        Forger::new(&self.sender, self.of_receiver).push(record);
        for _ in 0..100 {
            self.sender.progress();
        }
        assert!(victim.iter().all(|byte| *byte == 0x5A), "it was written to");
        assert_eq!(self.send_stage(send), OFFERED);
    }

    /// The message arrives whole, and both ends say so.
    fn check(&mut self, send: RequestId, receive: RequestId) {
        let (sent, received) = self.finish(send, receive);
        assert!(sent.is_ok(), "{sent:?}");
        assert!(received.is_ok(), "{received:?}");
        assert!(self.room == self.data, "other bytes have come");
    }
}

/// What a receiver writes into its line for a copy of which this sender is to do a part.
fn terms(sender: u32, send: RequestId, into: &[u8]) -> SplitTerms {
    SplitTerms {
        sender,
        send: send.0,
        receive: 7,
        bytes: LEN as u64,
        address: into.as_ptr().expose_provenance() as u64,
        block: 128 << 10,
    }
}

const OFFERED: Option<SendStage> = Some(SendStage::Offered { retracting: false });

#[test]
fn a_write_that_a_third_asks_for_is_not_made() {
    let mut pair = Pair::new();
    let send = pair.offer();
    let victim = vec![0x5A_u8; LEN];
    let address = victim.as_ptr().expose_provenance() as u64;
    // The id of the send, all bytes, and an address in the receiver.
    let words = [send.0, 0, LEN as u64, 0, address];
    pair.ask_in_vain(send, &ControlRecord::new(SPLIT_COPY, 0, words), &victim);
    let receive = pair.accept();
    pair.check(send, receive);
}

#[test]
fn a_write_that_another_sender_was_asked_for_is_not_made() {
    let mut pair = Pair::new();
    let mut other = open();
    let (of_other, _) = attach_both(&mut pair.receiver, &mut other);
    let send = pair.offer();
    let victim = vec![0x5A_u8; LEN];
    // Ids of requests are alike in all endpoints.
    let terms = terms(of_other, send, &victim);
    let (line, _) = pair
        .receiver
        .cx
        .transfers
        .splits
        .open(&terms)
        .expect("a line");
    let record = ControlRecord::new(SPLIT_COPY, 0, [send.0, line.into()]);
    pair.ask_in_vain(send, &record, &victim);
    pair.receiver.cx.transfers.splits.close(line);
}

#[test]
fn a_request_for_a_write_that_comes_when_the_receiver_has_given_up_is_nothing() {
    let mut pair = Pair::new();
    let send = pair.offer();
    let victim = vec![0x5A_u8; LEN];
    let terms = terms(pair.of_sender, send, &victim);
    let splits = &mut pair.receiver.cx.transfers.splits;
    let (line, _) = splits.open(&terms).expect("a line");
    // The record was held back meanwhile; or it is one that was seen before, played again.
    splits.close(line);
    let record = ControlRecord::new(SPLIT_COPY, 0, [send.0, line.into()]);
    pair.ask_in_vain(send, &record, &victim);
}

#[test]
fn a_sender_writes_no_block_more_when_its_receiver_has_ended_the_copy() {
    let (mut pair, _, receive) = Pair::under_way();
    let line = pair.split_read(receive).expect("a copy is under way");
    pair.receiver.cx.transfers.splits.incoming.end(line);
    // The buffer is its owner's again.
    pair.room.fill(0x5A);
    for _ in 0..100 {
        pair.sender.progress();
    }
    let is_as_it_was = pair.room.iter().all(|byte| *byte == 0x5A);
    assert!(is_as_it_was, "it was written to");
}

#[test]
fn a_receive_is_not_over_because_a_third_says_that_its_sender_has_written() {
    let (mut pair, send, receive) = Pair::under_way();
    let split = pair.stop_in_block(send);
    let mut forger = Forger::new(&pair.receiver, pair.of_sender);
    let blocks = [receive.0, 1 << 20];
    let mut written = Done::Written.encode(receive.0);
    written = ControlRecord::new(written.kind, written.tag, blocks);
    forger.push(&written);
    for _ in 0..200 {
        pair.receiver.progress();
    }
    assert!(
        pair.receiver.test(receive).is_none(),
        "its sender is in the middle of it"
    );
    let outgoing = &pair.sender.cx.transfers.splits.outgoing;
    outgoing.claim(split.line, split.own_blocks);
    pair.check(send, receive);
}

/// The receiver lets its sender begin no block more, and waits for the one under way.
#[test]
fn a_receive_ends_though_a_third_says_to_its_sender_that_it_has_all_bytes() {
    let (mut pair, send, receive) = Pair::under_way();
    let split = pair.stop_in_block(send);
    pair.receiver.cx.transfers.splits.end(split.peer_line);
    let mut forger = Forger::new(&pair.sender, pair.of_receiver);
    forger.push(&Done::Received(Path::SplitCopy).encode(send.0));
    pair.check(send, receive);
}

#[test]
fn a_receive_goes_on_alone_if_a_third_says_so_before_its_sender_takes_part() {
    let mut pair = Pair::new();
    let send = pair.offer();
    let receive = pair.accept();
    let mut forger = Forger::new(&pair.receiver, pair.of_sender);
    forger.push(&Done::Written.encode(receive.0));
    pair.receiver.progress();
    pair.check(send, receive);
}

#[test]
fn a_send_is_not_over_because_a_third_says_that_its_receiver_has_all_bytes() {
    let (mut pair, send, receive) = Pair::under_way();
    let before = pair.send_stage(send);
    let mut forger = Forger::new(&pair.sender, pair.of_receiver);
    forger.push(&Done::Received(Path::SplitCopy).encode(send.0));
    let clear = ClearToSend {
        send: send.0,
        receive: receive.0,
        start: 0,
        end: 0,
        next: Next::Usual,
    };
    forger.push(&clear.encode());
    for _ in 0..4 {
        pair.sender.progress();
    }
    let now = pair.send_stage(send);
    assert!(
        matches!(now, Some(SendStage::SplitWrite(_))),
        "{before:?} became {now:?}"
    );
    pair.check(send, receive);
}

#[test]
fn a_request_for_blocks_that_are_too_short_or_too_long_fails_its_receiver() {
    for block in [1, u64::MAX] {
        let mut pair = Pair::new();
        let send = pair.offer();
        let victim = vec![0x5A_u8; LEN];
        let terms = SplitTerms {
            block,
            ..terms(pair.of_sender, send, &victim)
        };
        let splits = &mut pair.receiver.cx.transfers.splits;
        let (line, _) = splits.open(&terms).expect("a line");
        let record = ControlRecord::new(SPLIT_COPY, 0, [send.0, line.into()]);
        Forger::new(&pair.sender, pair.of_receiver).push(&record);
        let since = Instant::now();
        while !pair.sender.cx.peers.is_gone(pair.of_receiver) {
            assert!(
                since.elapsed() < PATIENCE,
                "it is taken for a peer that keeps the rules"
            );
            pair.sender.progress();
        }
        assert!(victim.iter().all(|byte| *byte == 0x5A), "it was written to");
    }
}

/// The sender computes, and looks at its ring when all is done; or it has written a part before.
#[test]
fn a_receive_does_not_wait_for_a_sender_that_is_busy() {
    for takes_part in [false, true] {
        let mut pair = Pair::new();
        let send = pair.offer();
        let receive = pair.accept();
        if takes_part {
            pair.take_part(send);
            pair.sender.progress();
        }
        pair.receive_alone(send, receive);
    }
}

/// More than the sender has lines for: its receivers read the rest alone.
#[test]
fn more_split_copies_than_lines_arrive_whole() {
    const RECEIVERS: usize = 9;
    const EACH: usize = 4;
    const LEN: usize = 256 << 10;
    let mut sender = open();
    let mut receivers: Vec<Engine> = (0..RECEIVERS).map(|_| open()).collect();
    let numbers: Vec<(u32, u32)> = receivers
        .iter_mut()
        .map(|receiver| attach_both(receiver, &mut sender))
        .collect();
    let data: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    let mut rooms = vec![vec![0_u8; LEN]; RECEIVERS * EACH];
    let mut receives = Vec::new();
    for (at, room) in rooms.iter_mut().enumerate() {
        let (of_sender, to) = numbers[at % RECEIVERS];
        let (receiver, tag) = (&mut receivers[at % RECEIVERS], at as u64);
        // SAFETY: rooms and data stay as long as the endpoints.
        let receive = pending(unsafe { post_receive(receiver, (Peer(of_sender), tag), room) });
        // SAFETY: as above.
        pending(unsafe { post(&mut sender, to, tag, &data) });
        receives.push((at, receive));
    }
    sender.progress();
    // All requests for a part are there before the sender looks.
    for receiver in &mut receivers {
        receiver.progress();
    }
    let since = Instant::now();
    while !receives.is_empty() {
        assert!(since.elapsed() < PATIENCE, "{} go on", receives.len());
        sender.progress();
        turn(&mut receivers.iter_mut().collect::<Vec<_>>());
        receives.retain(
            |(at, receive)| match receivers[at % RECEIVERS].test(*receive) {
                None => true,
                Some(outcome) => {
                    assert!(outcome.is_ok(), "{outcome:?}");
                    false
                }
            },
        );
    }
    assert!(
        rooms.iter().all(|room| *room == data),
        "other bytes have come"
    );
}
