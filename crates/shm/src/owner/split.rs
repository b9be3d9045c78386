//! What the two ends of split copies say of them: each in lines of its own segment that only it can
//! write, so that no third endpoint can begin a write into the receiver's memory, name another
//! place for it, or hide one.
//!
//! A line of the receiver ([`SplitIn`]): which copy it is for, where the bytes go, and how many
//! blocks are claimed from the front. A line of the sender ([`SplitOut`]): for which copy of which
//! receiver it is, how many blocks are claimed from the back, and how many of these are written.
//!
//! # Invariants
//! - A serial number is of one copy only. The receiver's line shows it from when the line is whole
//!   until the copy ends; a sender begins no write unless it shows it, and has blocks left, after
//!   the claim was stored.
//! - A line of the sender is another copy's only when the send is over that it was for.

use super::Words;
use crate::ring::{LINE, Memory};
use crate::sync::{AtomicU64, Ordering, fence};

/// Bytes of what one side says of a split copy: a line.
pub const SPLIT_BYTES: usize = LINE;

/// Both lines begin with the copy's serial number; 0 while it is for none.
const SERIAL: usize = 0;
/// Then comes the other end: the number that it has at the endpoint whose line it is.
const PARTNER: usize = 8;

/// Of the receiver's line.
const SEND: usize = 16;
const RECEIVE: usize = 24;
const BYTES: usize = 32;
const ADDRESS: usize = 40;
const BLOCK: usize = 48;
const FRONT: usize = 56;

/// Of the sender's line.
const CLAIMED: usize = 16;
const DONE: usize = 24;
/// 0 while it goes on; then one more than the blocks that were copied.
const FINISHED: usize = 32;

/// What a split copy is to do, in the receiver's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitTerms {
    /// The sender's number at the receiver.
    pub sender: u32,
    /// The sender's request.
    pub send: u64,
    /// The receiver's request.
    pub receive: u64,
    /// Of the message.
    pub bytes: u64,
    /// The receive buffer.
    pub address: u64,
    /// Bytes of each block but the last.
    pub block: u64,
}

/// How far a sender is, in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitProgress {
    /// Blocks that it has claimed from the back.
    pub claimed: u32,
    /// Blocks that it has copied so far.
    pub copied: u32,
    /// Blocks that it has copied, once it claims no more.
    pub finished: Option<u32>,
}

impl SplitProgress {
    /// It writes nothing now.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.finished.is_some() || self.copied >= self.claimed
    }
}

fn at_line<M: Memory>(lines: &M, line: u32, at: usize) -> &AtomicU64 {
    lines.word64(line as usize * SPLIT_BYTES + at)
}

/// The own lines of copies into this endpoint's memory.
#[derive(Debug)]
pub struct SplitIn<M>(M);

impl<M: Memory> SplitIn<M> {
    /// Of an area of [`SPLIT_BYTES`] each.
    pub const fn new(lines: M) -> Self {
        Self(lines)
    }

    /// Opens a copy under a serial number that no other one has had. Its line is for none.
    pub fn open(&self, line: u32, serial: u64, terms: &SplitTerms) {
        // Pairs with the acquire fence in `PeerSplits::terms`: who sees a part of these terms sees
        // that the copy before is over.
        fence(Ordering::Release);
        let store = |at, word| at_line(&self.0, line, at).store(word, Ordering::Relaxed);
        store(PARTNER, terms.sender.into());
        store(SEND, terms.send);
        store(RECEIVE, terms.receive);
        store(BYTES, terms.bytes);
        store(ADDRESS, terms.address);
        store(BLOCK, terms.block);
        store(FRONT, 0);
        // Release: pairs with the acquire in `PeerSplits::terms`: the terms are whole.
        at_line(&self.0, line, SERIAL).store(serial, Ordering::Release);
    }

    /// So many blocks are claimed from the front. A sender that sees it late copies a block that is
    /// copied here too, which are the same bytes.
    pub fn claim(&self, line: u32, blocks: u32) {
        at_line(&self.0, line, FRONT).store(blocks.into(), Ordering::Relaxed);
    }

    /// No block is left: the sender begins no further write, and the line still shows the copy.
    /// Nothing is claimed after that.
    pub fn claim_rest(&self, line: u32) {
        at_line(&self.0, line, FRONT).store(u64::MAX, Ordering::Relaxed);
        // Pairs with the fence in `SplitOut::claim`: either the sender sees that no block is left,
        // or this side sees the claim.
        fence(Ordering::SeqCst);
    }

    /// The sender begins no further write.
    pub fn end(&self, line: u32) {
        at_line(&self.0, line, SERIAL).store(0, Ordering::Relaxed);
        // Pairs with the fence in `SplitOut::claim`: either the sender sees that the copy is over,
        // or this side sees the claim.
        fence(Ordering::SeqCst);
    }
}

/// The own lines of copies out of this endpoint's memory.
#[derive(Debug)]
pub struct SplitOut<M>(M);

impl<M: Memory> SplitOut<M> {
    /// Of an area of [`SPLIT_BYTES`] each.
    pub const fn new(lines: M) -> Self {
        Self(lines)
    }

    /// Takes part in a copy of a receiver, by a line of which the last send is over.
    pub fn take(&self, line: u32, receiver: u32, serial: u64) {
        let word = |at| at_line(&self.0, line, at);
        // Release: pairs with the last acquire fence in `PeerSplits::progress`: who sees that the
        // line is another copy's sees the bytes of the copy before.
        word(SERIAL).store(0, Ordering::Release);
        // Pairs with the acquire fences in `PeerSplits::progress`: who sees a part of what follows
        // sees that the line is another copy's.
        fence(Ordering::Release);
        word(PARTNER).store(receiver.into(), Ordering::Relaxed);
        word(CLAIMED).store(0, Ordering::Relaxed);
        word(DONE).store(0, Ordering::Relaxed);
        word(FINISHED).store(0, Ordering::Relaxed);
        // Release: pairs with the acquire in `PeerSplits::progress`: the line is whole.
        word(SERIAL).store(serial, Ordering::Release);
    }

    /// So many blocks are claimed from the back. [`PeerSplits::lets_write`] is to be asked next.
    pub fn claim(&self, line: u32, blocks: u32) {
        at_line(&self.0, line, CLAIMED).store(blocks.into(), Ordering::Relaxed);
        // Pairs with the fences in `SplitIn::end` and `SplitIn::claim_rest`.
        fence(Ordering::SeqCst);
    }

    /// Of the claimed blocks, so many are written.
    pub fn done(&self, line: u32, blocks: u32) {
        // Release: pairs with the acquire in `PeerSplits::progress`: the bytes are there.
        at_line(&self.0, line, DONE).store(blocks.into(), Ordering::Release);
    }

    /// No more blocks are claimed, and so many were copied.
    pub fn finish(&self, line: u32, blocks: u32) {
        let word = u64::from(blocks) + 1;
        // Release: as in `done`.
        at_line(&self.0, line, FINISHED).store(word, Ordering::Release);
    }
}

/// The lines of a peer.
#[derive(Debug)]
pub struct PeerSplits<W> {
    /// Of copies into the peer's memory, and out of it.
    incoming: W,
    outgoing: W,
    /// Lines of each.
    count: u32,
    /// This endpoint's number at the peer.
    my_number: u32,
}

impl<W: Words> PeerSplits<W> {
    /// Of two areas of `count` lines: of copies into the peer's memory, and out of it.
    pub const fn new(incoming: W, outgoing: W, count: u32, my_number: u32) -> Self {
        Self {
            incoming,
            outgoing,
            count,
            my_number,
        }
    }

    /// The serial number and the terms of the copy out of this endpoint that a line of the peer is
    /// for.
    pub fn terms(&self, line: u32) -> Option<(u64, SplitTerms)> {
        if line >= self.count {
            return None;
        }
        let load = |at| self.incoming.load(line as usize * SPLIT_BYTES + at);
        // Acquire: pairs with the release in `SplitIn::open`.
        let serial = self
            .incoming
            .load_acquire(line as usize * SPLIT_BYTES + SERIAL);
        let terms = SplitTerms {
            sender: u32::try_from(load(PARTNER)).ok()?,
            send: load(SEND),
            receive: load(RECEIVE),
            bytes: load(BYTES),
            address: load(ADDRESS),
            block: load(BLOCK),
        };
        // Pairs with the release fence in `SplitIn::open`.
        fence(Ordering::Acquire);
        let is_whole = serial != 0 && self.shows(line, serial);
        (is_whole && terms.sender == self.my_number).then_some((serial, terms))
    }

    /// Whether a line of the peer, as a receiver, still shows a copy.
    pub fn shows(&self, line: u32, serial: u64) -> bool {
        self.incoming.load(line as usize * SPLIT_BYTES + SERIAL) == serial
    }

    /// Whether a block that was claimed just now may be written.
    pub fn lets_write(&self, line: u32, serial: u64) -> bool {
        self.shows(line, serial) && self.front(line) < u32::MAX
    }

    /// Blocks that the peer, as a receiver, has claimed from the front.
    pub fn front(&self, line: u32) -> u32 {
        count(self.incoming.load(line as usize * SPLIT_BYTES + FRONT))
    }

    /// How far the peer is as the sender of a copy into this endpoint. `None`: it does not take
    /// part, and if the copy has ended, it never will.
    pub fn progress(&self, serial: u64) -> Option<SplitProgress> {
        let progress = (0..self.count).find_map(|line| {
            let load = |at| self.outgoing.load(line as usize * SPLIT_BYTES + at);
            let load_acquire = |at| self.outgoing.load_acquire(line as usize * SPLIT_BYTES + at);
            // Acquire: pairs with the release in `SplitOut::take`.
            if load_acquire(SERIAL) != serial || load(PARTNER) != u64::from(self.my_number) {
                return None;
            }
            // Acquire: pairs with the releases in `SplitOut::finish` and `SplitOut::done`. Finished
            // and done come first, so that they are not newer than the claims.
            let finished = load_acquire(FINISHED);
            let done = count(load_acquire(DONE));
            let claimed = count(load(CLAIMED));
            // Pairs with the release fence in `SplitOut::take`.
            fence(Ordering::Acquire);
            // Acquire: as above. Another receiver's copy may have the same number.
            let is_same = load_acquire(SERIAL) == serial;
            let is_same = is_same && load(PARTNER) == u64::from(self.my_number);
            is_same.then_some(SplitProgress {
                claimed,
                copied: done,
                finished: finished.checked_sub(1).map(count),
            })
        });
        // Pairs with the releases in `SplitOut::take`: if the line is another copy's by now, the
        // bytes are there.
        fence(Ordering::Acquire);
        progress
    }
}

/// A number of blocks that a peer states: no more than there can be.
fn count(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}
