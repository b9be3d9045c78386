//! The lines of split copies: which of this endpoint's are in use, and those of peers. What is said
//! in them, and in which order: [`limic_shm::owner::split`].

use limic_shm::owner::split::{SplitIn, SplitOut, SplitTerms};
use limic_shm::ring::Mapped;
use limic_shm::segment::{OwnSegment, PeerSegment, ReadOnly};
use limic_shm::world::FIRST_GENERATION;

use crate::raw::RequestId;

/// The lines of a peer.
pub(crate) type PeerSplits = limic_shm::owner::split::PeerSplits<ReadOnly>;

/// The lines of a peer, at which this endpoint has this number.
pub(crate) fn of_peer(segment: &PeerSegment, my_number: u32) -> PeerSplits {
    let count = segment.shape().split_copies;
    PeerSplits::new(segment.split_in(), segment.split_out(), count, my_number)
}

/// The lines of this endpoint.
pub(crate) struct OwnSplits {
    /// Of copies into its memory.
    pub(crate) incoming: SplitIn<Mapped>,
    /// Of `incoming`.
    free: Vec<u32>,
    /// The serial number of the last copy.
    serial: u64,
    /// Of copies out of its memory.
    pub(crate) outgoing: SplitOut<Mapped>,
    /// The send of each of `outgoing`.
    sends: Vec<Option<RequestId>>,
}

impl OwnSplits {
    pub(crate) fn new(segment: &OwnSegment) -> Self {
        let count = segment.shape().split_copies;
        Self {
            incoming: SplitIn::new(segment.split_in()),
            free: (0..count).rev().collect(),
            serial: u64::from(FIRST_GENERATION - 1),
            outgoing: SplitOut::new(segment.split_out()),
            sends: vec![None; count as usize],
        }
    }

    /// Opens a copy into this endpoint's memory: gives its line and its serial number. `None`: no
    /// line is free.
    pub(crate) fn open(&mut self, terms: &SplitTerms) -> Option<(u32, u64)> {
        let line = self.free.pop()?;
        self.serial += 1;
        self.incoming.open(line, self.serial, terms);
        Some((line, self.serial))
    }

    /// Ends a copy into which nobody writes any more, and frees its line.
    pub(crate) fn close(&mut self, line: u32) {
        self.incoming.end(line);
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
        self.outgoing.take(line, receiver, serial);
        Some(line)
    }
}
