//! What the two ends of split copies say of them: each in lines of its own segment that only it can
//! write, so that no third endpoint can begin a write into the receiver's memory, name another
//! place for it, or hide one.
//!
//! A line of the receiver, in the area `split_in`: which copy it is for, where the bytes go, and
//! how many blocks are claimed from the front. A line of the sender, in `split_out`: for which copy
//! of which receiver it is, how many blocks are claimed from the back, and how many of these are
//! done with.
//!
//! # Invariants
//! - A serial number is of one copy only. The receiver's line shows it from when the line is whole
//!   until the copy ends; a sender begins no write unless it shows it after the claim was stored.
//! - A line of the sender is another copy's only when the send is over that it was for.

use limic_shm::ring::{Mapped, Memory};
use limic_shm::segment::{OwnSegment, PeerSegment, ReadOnly, SPLIT_BYTES};
use limic_shm::sync::{Ordering, fence};

use crate::raw::RequestId;

/// Both lines begin with the copy's serial number; 0 while it is for none.
const SERIAL: usize = 0;
/// Then comes the other end: the number that it has at the endpoint whose line it is.
const PARTNER: usize = 8;

/// Of the receiver's line.
const SEND: usize = 16;
const RECEIVE: usize = 24;
const BYTES: usize = 32;
const ADDRESS: usize = 40;
const FRONT: usize = 48;

/// Of the sender's line.
const CLAIMED: usize = 16;
const DONE: usize = 24;
/// 0 while it goes on; then one more than the blocks that were copied.
const FINISHED: usize = 32;

/// What a split copy is to do, in the receiver's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitTerms {
    /// The sender's number at the receiver.
    pub(crate) sender: u32,
    /// The sender's request.
    pub(crate) send: u64,
    /// The receiver's request.
    pub(crate) receive: u64,
    pub(crate) bytes: u64,
    /// The receive buffer.
    pub(crate) address: u64,
}

/// How far a sender is, in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitProgress {
    /// Blocks that it has claimed from the back.
    pub(crate) claimed: u32,
    /// It writes nothing now.
    pub(crate) is_idle: bool,
    /// Blocks that it has copied, once it claims no more.
    pub(crate) finished: Option<u32>,
}

/// The lines of this endpoint.
pub(crate) struct OwnSplits {
    incoming: Mapped,
    /// Of `incoming`.
    free: Vec<u32>,
    /// The serial number of the last copy.
    serial: u64,
    outgoing: Mapped,
    /// The send of each of `outgoing`.
    sends: Vec<Option<RequestId>>,
}

impl OwnSplits {
    pub(crate) fn new(segment: &OwnSegment) -> Self {
        let count = segment.shape().split_copies;
        Self {
            incoming: segment.split_in(),
            free: (0..count).rev().collect(),
            serial: 0,
            outgoing: segment.split_out(),
            sends: vec![None; count as usize],
        }
    }

    /// Opens a copy into this endpoint's memory: gives its line and its serial number. `None`: no
    /// line is free.
    pub(crate) fn open(&mut self, terms: &SplitTerms) -> Option<(u32, u64)> {
        let line = self.free.pop()?;
        self.serial += 1;
        // Pairs with the acquire fence in `PeerSplits::terms`: who sees a part of these terms sees
        // that the copy before is over.
        fence(Ordering::Release);
        let store = |at, word| at_line(&self.incoming, line, at).store(word, Ordering::Relaxed);
        store(PARTNER, terms.sender.into());
        store(SEND, terms.send);
        store(RECEIVE, terms.receive);
        store(BYTES, terms.bytes);
        store(ADDRESS, terms.address);
        store(FRONT, 0);
        // Release: pairs with the acquire in `PeerSplits::terms`: the terms are whole.
        at_line(&self.incoming, line, SERIAL).store(self.serial, Ordering::Release);
        Some((line, self.serial))
    }

    /// So many blocks are claimed from the front. A sender that sees it late copies a block that is
    /// copied here too, which are the same bytes.
    pub(crate) fn claim_front(&self, line: u32, blocks: u32) {
        at_line(&self.incoming, line, FRONT).store(blocks.into(), Ordering::Relaxed);
    }

    /// The sender begins no further write.
    pub(crate) fn end(&self, line: u32) {
        at_line(&self.incoming, line, SERIAL).store(0, Ordering::Relaxed);
        // Pairs with the fence in `claim_back`: either the sender sees that the copy is over, or
        // this side sees the claim.
        fence(Ordering::SeqCst);
    }

    /// Ends a copy into which nobody writes any more, and frees its line.
    pub(crate) fn close(&mut self, line: u32) {
        self.end(line);
        self.free.push(line);
    }

    /// Takes a line for a send that is to be copied by both ends. `None`: all lines are for sends
    /// that are not over.
    pub(crate) fn take_out(
        &mut self,
        send: RequestId,
        receiver: u32,
        serial: u64,
        mut is_over: impl FnMut(RequestId) -> bool,
    ) -> Option<u32> {
        let mut sends = self.sends.iter();
        let line = sends.position(|send| send.is_none_or(&mut is_over))?;
        self.sends[line] = Some(send);
        let line = line as u32;
        let word = |at| at_line(&self.outgoing, line, at);
        word(SERIAL).store(0, Ordering::Relaxed);
        // Pairs with the acquire fence in `PeerSplits::progress`: who sees a part of what follows
        // sees that the line is another copy's.
        fence(Ordering::Release);
        word(PARTNER).store(receiver.into(), Ordering::Relaxed);
        word(CLAIMED).store(0, Ordering::Relaxed);
        word(DONE).store(0, Ordering::Relaxed);
        word(FINISHED).store(0, Ordering::Relaxed);
        // Release: pairs with the acquire in `PeerSplits::progress`: the line is whole.
        word(SERIAL).store(serial, Ordering::Release);
        Some(line)
    }

    /// So many blocks are claimed from the back. Whether the copy is over is to be looked at next.
    pub(crate) fn claim_back(&self, line: u32, blocks: u32) {
        at_line(&self.outgoing, line, CLAIMED).store(blocks.into(), Ordering::Relaxed);
        // Pairs with the fence in `end`.
        fence(Ordering::SeqCst);
    }

    /// Of the claimed blocks, so many are written, or never will be.
    pub(crate) fn done_back(&self, line: u32, blocks: u32) {
        // Release: pairs with the acquire in `PeerSplits::progress`: the bytes are there.
        at_line(&self.outgoing, line, DONE).store(blocks.into(), Ordering::Release);
    }

    /// No more blocks are claimed, and so many were copied.
    pub(crate) fn finish_back(&self, line: u32, blocks: u32) {
        let word = u64::from(blocks) + 1;
        // Release: as in `done_back`.
        at_line(&self.outgoing, line, FINISHED).store(word, Ordering::Release);
    }
}

fn at_line(lines: &Mapped, line: u32, at: usize) -> &limic_shm::sync::AtomicU64 {
    lines.word64(line as usize * SPLIT_BYTES + at)
}

/// The lines of a peer.
pub(crate) struct PeerSplits {
    incoming: ReadOnly,
    outgoing: ReadOnly,
    /// Lines of each.
    count: u32,
    /// This endpoint's number at the peer.
    my_number: u32,
}

impl PeerSplits {
    pub(crate) fn new(segment: &PeerSegment, my_number: u32) -> Self {
        Self {
            incoming: segment.split_in(),
            outgoing: segment.split_out(),
            count: segment.shape().split_copies,
            my_number,
        }
    }

    /// The serial number and the terms of the copy out of this endpoint that a line of the peer is
    /// for.
    pub(crate) fn terms(&self, line: u32) -> Option<(u64, SplitTerms)> {
        if line >= self.count {
            return None;
        }
        let load = |at| self.incoming.load(line as usize * SPLIT_BYTES + at);
        // Acquire: pairs with the release in `OwnSplits::open`.
        let serial = self
            .incoming
            .load_acquire(line as usize * SPLIT_BYTES + SERIAL);
        let terms = SplitTerms {
            sender: u32::try_from(load(PARTNER)).ok()?,
            send: load(SEND),
            receive: load(RECEIVE),
            bytes: load(BYTES),
            address: load(ADDRESS),
        };
        // Pairs with the release fence in `OwnSplits::open`.
        fence(Ordering::Acquire);
        let is_whole = serial != 0 && self.shows(line, serial);
        (is_whole && terms.sender == self.my_number).then_some((serial, terms))
    }

    /// Whether a line of the peer, as a receiver, still shows a copy.
    pub(crate) fn shows(&self, line: u32, serial: u64) -> bool {
        self.incoming.load(line as usize * SPLIT_BYTES + SERIAL) == serial
    }

    /// Blocks that the peer, as a receiver, has claimed from the front.
    pub(crate) fn front(&self, line: u32) -> u32 {
        count(self.incoming.load(line as usize * SPLIT_BYTES + FRONT))
    }

    /// How far the peer is as the sender of a copy into this endpoint. `None`: it does not take
    /// part, and if the copy has ended, it never will.
    pub(crate) fn progress(&self, serial: u64) -> Option<SplitProgress> {
        (0..self.count).find_map(|line| {
            let load = |at| self.outgoing.load(line as usize * SPLIT_BYTES + at);
            let load_acquire = |at| self.outgoing.load_acquire(line as usize * SPLIT_BYTES + at);
            // Acquire: pairs with the release in `OwnSplits::take_out`.
            if load_acquire(SERIAL) != serial || load(PARTNER) != u64::from(self.my_number) {
                return None;
            }
            // Acquire: pairs with the releases in `finish_back` and `done_back`. Finished and done
            // come first, so that they are not newer than the claims.
            let finished = load_acquire(FINISHED);
            let done = count(load_acquire(DONE));
            let claimed = count(load(CLAIMED));
            // Pairs with the release fence in `OwnSplits::take_out`.
            fence(Ordering::Acquire);
            (load(SERIAL) == serial).then_some(SplitProgress {
                claimed,
                is_idle: finished != 0 || done >= claimed,
                finished: finished.checked_sub(1).map(count),
            })
        })
    }
}

/// A number of blocks that a peer states: no more than there can be.
fn count(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}
