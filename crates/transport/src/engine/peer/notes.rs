//! What progress is to do about peers. Code below `contact` leaves it here.

use crate::error::PeerFailure;
use crate::raw::RequestId;

/// What progress is to do about a peer.
pub(crate) enum Note {
    /// Its connection ended: it fails after its last records were read.
    Ended(PeerFailure),
    /// This was the private ring of one that is gone.
    LeftRing(u32),
    /// It sends more than is received: its messages wait in its private ring.
    HoldBack,
    /// It asks for help with accesses to regions: the time that this takes is counted.
    AsksHelp,
    /// All bytes of this receive were read out of its memory, and it has said something since,
    /// which may be that it leaves.
    WasRead {
        receive: RequestId,
        /// How many peers it had given up by then.
        given_up: u64,
    },
}

/// What is to be done about peers.
///
/// # Invariants
/// - What was noted first is done first.
/// - A peer ends once, is held back once and asks for help once, until that is done.
#[derive(Default)]
pub(crate) struct Notes {
    /// With the peers' numbers, oldest first.
    notes: Vec<(u32, Note)>,
    /// Records that made no sense, and were not counted yet.
    violations: u64,
}

impl Notes {
    /// Bytes of a peer made no sense.
    pub(crate) fn count_violation(&mut self) {
        self.violations += 1;
    }

    /// How often that was, since the last time that somebody asked.
    pub(crate) fn take_violations(&mut self) -> u64 {
        core::mem::take(&mut self.violations)
    }

    /// A peer is gone, if nothing has said so before.
    pub(crate) fn ended(&mut self, peer: u32, why: PeerFailure) {
        self.note_once(peer, Note::Ended(why));
    }

    /// Notes something of a peer, unless the same is noted already.
    fn note_once(&mut self, peer: u32, note: Note) {
        let kind = core::mem::discriminant(&note);
        let same = |(of, it): &(u32, Note)| *of == peer && core::mem::discriminant(it) == kind;
        if !self.notes.iter().any(same) {
            self.notes.push((peer, note));
        }
    }

    /// Whether a peer is gone, and has not failed yet.
    pub(crate) fn has_ended(&self, peer: u32) -> bool {
        let ended = |note: &(u32, Note)| note.0 == peer && matches!(note.1, Note::Ended(_));
        self.notes.iter().any(ended)
    }

    /// A peer has failed, or is forgotten: its private ring is to be closed.
    pub(crate) fn left_ring(&mut self, peer: u32, ring: u32) {
        self.notes.push((peer, Note::LeftRing(ring)));
    }

    /// A peer sends more than is received.
    pub(crate) fn hold_back(&mut self, peer: u32) {
        self.note_once(peer, Note::HoldBack);
    }

    /// A peer asks for help with accesses to regions.
    pub(crate) fn asks_help(&mut self, peer: u32) {
        self.note_once(peer, Note::AsksHelp);
    }

    /// A receive is over once it is known that the peer, which has said something, has not left.
    pub(crate) fn was_read(&mut self, peer: u32, receive: RequestId, given_up: u64) {
        self.notes.push((peer, Note::WasRead { receive, given_up }));
    }

    /// Whether something is to be done about peers.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// The next thing to do about a peer.
    pub(crate) fn take_next(&mut self) -> Option<(u32, Note)> {
        (!self.notes.is_empty()).then(|| self.notes.remove(0))
    }
}
