//! Which of an endpoint's lines of split copies are in use.

use super::split::{SplitIn, SplitOut, SplitTerms};
use crate::ring::Mapped;
use crate::segment::OwnSegment;
use crate::system::FIRST_GENERATION;

/// The lines of an endpoint, which knows its sends by `S`.
#[derive(Debug)]
pub struct OwnSplits<S> {
    /// Of copies into its memory.
    pub incoming: SplitIn<Mapped>,
    /// The sender of each of `incoming`.
    senders: Vec<Option<u32>>,
    /// The serial number of the last copy.
    serial: u64,
    /// Of copies out of its memory.
    pub outgoing: SplitOut<Mapped>,
    /// The send of each of `outgoing`.
    sends: Vec<Option<S>>,
    /// This is a forked child: the lines are its parent's.
    is_parents: bool,
}

impl<S: Copy> OwnSplits<S> {
    /// All of them, free.
    pub fn new(segment: &OwnSegment) -> Self {
        let count = segment.shape().split_copies;
        Self {
            incoming: SplitIn::new(segment.split_in()),
            senders: vec![None; count as usize],
            serial: u64::from(FIRST_GENERATION - 1),
            outgoing: SplitOut::new(segment.split_out()),
            sends: vec![None; count as usize],
            is_parents: false,
        }
    }

    /// Opens a copy into this endpoint's memory: gives its line and its serial number. `None`: no
    /// line is free.
    pub fn open(&mut self, terms: &SplitTerms) -> Option<(u32, u64)> {
        let line = self.senders.iter().position(Option::is_none)?;
        self.senders[line] = Some(terms.sender);
        let line = line as u32;
        self.serial += 1;
        self.incoming.open(line, self.serial, terms);
        Some((line, self.serial))
    }

    /// This is a forked child: copies that end here go on in its parent.
    pub fn leave_to_parent(&mut self) {
        self.is_parents = true;
    }

    /// The sender of a copy begins no further write.
    pub fn end(&self, line: u32) {
        if !self.is_parents {
            self.incoming.end(line);
        }
    }

    /// Ends a copy into which nobody writes any more, and frees its line.
    pub fn close(&mut self, line: u32) {
        self.end(line);
        self.senders[line as usize] = None;
    }

    /// Open copies of what a sender sends.
    pub fn open_from(&self, sender: u32) -> usize {
        let from_it = |from: &&Option<u32>| **from == Some(sender);
        self.senders.iter().filter(from_it).count()
    }

    /// Takes a line for a send that is to be copied by both ends. `None`: all lines are for sends
    /// that are not over.
    pub fn take_out(
        &mut self,
        send: S,
        receiver: u32,
        serial: u64,
        mut is_over: impl FnMut(S) -> bool,
    ) -> Option<u32> {
        let mut sends = self.sends.iter();
        let line = sends.position(|send| send.is_none_or(&mut is_over))?;
        self.sends[line] = Some(send);
        let line = line as u32;
        self.outgoing.take(line, receiver, serial);
        Some(line)
    }
}
