//! Peers that were given up while their processes live: they sent what makes no sense, or a
//! connection with them broke.
//!
//! Such a process may still read and write what it was given here: its private ring, staging
//! buffers, probe words (for loans, which outlive even a goodbye, see `arena`). The next peer that
//! gets them would read its bytes, or lose its own. So all of it is kept until the process has
//! ended, which its pidfd tells, or its end of the connection where there is no pidfd; so is the
//! word in which it says what it accesses. Receives into which it was writing are kept until it is
//! done with the block. A peer that has said goodbye is not among these, unless it is in the middle
//! of a block: then a forked child of it may have said that. Of an endpoint that has closed, those
//! are here that access one of its regions.

use limic_shm::control::PeerProcess;
use limic_shm::owner::region::PeerAccess;
use limic_shm::owner::split::PeerSplits;
use limic_shm::segment::ReadOnly;

use crate::Error;
use crate::raw::RequestId;

/// Peers whose processes are looked at in one visit: each look is a system call.
const VISIT: usize = 16;

/// A peer whose process lives, as far as is known, with what is kept because of that.
pub(crate) struct Quarantined {
    pub(crate) peer: u32,
    /// The number of its process; 0 for one of another namespace.
    pid: i32,
    process: PeerProcess,
    pub(crate) rings: Vec<u32>,
    pub(crate) probe_words: Vec<u32>,
    /// Where it says which region it accesses.
    access: Option<PeerAccess<ReadOnly>>,
    /// What it says of split copies.
    splits: Option<PeerSplits<ReadOnly>>,
    /// Receives into which it was writing: request, serial number, and how they end.
    pub(crate) written: Vec<(RequestId, u64, Error)>,
}

impl Quarantined {
    fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    fn has_pidfd(&self) -> bool {
        matches!(self.process, PeerProcess::Pidfd(_))
    }

    fn is_writing(&self, serial: u64) -> bool {
        let splits = self.splits.as_ref();
        let progress = splits.and_then(|splits| splits.progress(serial));
        progress.is_some_and(|progress| !progress.is_idle())
    }
}

/// All of them. Mostly there are none.
#[derive(Default)]
pub(crate) struct Quarantine {
    all: Vec<Quarantined>,
    /// Whose process is looked at next.
    next: usize,
}

impl Quarantine {
    /// A peer is given up, or will be, and its process may live on.
    pub(crate) fn enter(&mut self, peer: u32, pid: i32, process: PeerProcess) {
        match self.find(peer) {
            // Over another of its connections there was a pidfd, which tells more.
            Some(known) if matches!(process, PeerProcess::Connection(_)) && known.has_pidfd() => {}
            Some(known) => (known.process, known.pid) = (process, pid),
            None => self.all.push(Quarantined {
                peer,
                pid,
                process,
                rings: Vec::new(),
                probe_words: Vec::new(),
                access: None,
                splits: None,
                written: Vec::new(),
            }),
        }
    }

    /// A peer has closed in good order after all, or is met again over another connection.
    pub(crate) fn leave(&mut self, peer: u32) {
        self.all.retain(|known| known.peer != peer);
    }

    fn find(&mut self, peer: u32) -> Option<&mut Quarantined> {
        self.all.iter_mut().find(|known| known.peer == peer)
    }

    /// How many peers of a process are kept: each takes a descriptor.
    pub(crate) fn count_of(&self, pid: i32) -> usize {
        self.all.iter().filter(|known| known.pid == pid).count()
    }

    /// Takes out all peers: nothing here is theirs in a forked child.
    pub(crate) fn take_all(&mut self) -> Vec<Quarantined> {
        core::mem::take(&mut self.all)
    }

    /// Takes out peers whose processes have ended. Each visit looks at some of all.
    pub(crate) fn take_ended(&mut self) -> Vec<Quarantined> {
        let mut ended = Vec::new();
        for _ in 0..self.all.len().min(VISIT) {
            if self.next >= self.all.len() {
                self.next = 0;
            }
            if self.all[self.next].has_ended() {
                ended.push(self.all.swap_remove(self.next));
            } else {
                self.next += 1;
            }
        }
        ended
    }

    /// Whether a peer that was given up lives, as far as is known.
    pub(crate) fn lives(&self, peer: u32) -> bool {
        let known = self.all.iter().find(|known| known.peer == peer);
        known.is_some_and(|known| !known.has_ended())
    }

    /// The key of the region that a peer that was given up says it accesses, if it lives.
    pub(crate) fn accesses(&self, peer: u32) -> Option<u64> {
        let mut known = self.all.iter();
        let known = known.find(|known| known.peer == peer && !known.has_ended())?;
        known.access.as_ref().map(PeerAccess::key)
    }

    /// Keeps where a peer says which region it accesses, and how far its split copies are.
    pub(crate) fn keep_words(
        &mut self,
        peer: u32,
        access: PeerAccess<ReadOnly>,
        splits: PeerSplits<ReadOnly>,
    ) {
        if let Some(known) = self.find(peer) {
            known.access = Some(access);
            known.splits = Some(splits);
        }
    }

    /// Keeps a receive until the peer's write into it is over. False if it is.
    pub(crate) fn keep_written(
        &mut self,
        peer: u32,
        receive: RequestId,
        serial: u64,
        error: &Error,
    ) -> bool {
        let writes = |known: &&mut Quarantined| known.is_writing(serial) && !known.has_ended();
        let known = self.find(peer).filter(writes);
        let kept = known.map(|known| known.written.push((receive, serial, error.clone())));
        kept.is_some()
    }

    /// A peer of which receives are kept until its write into them is over, of which nobody tells.
    pub(crate) fn writer(&self) -> Option<u32> {
        let writer = self.all.iter().find(|known| !known.written.is_empty())?;
        Some(writer.peer)
    }

    /// A receive into which a peer writes no more, and how it ends.
    pub(crate) fn next_written(&mut self) -> Option<(RequestId, Error)> {
        self.all.iter_mut().find_map(|known| {
            let mut written = known.written.iter();
            let at = written.position(|(_, serial, _)| !known.is_writing(*serial))?;
            let (receive, _, error) = known.written.swap_remove(at);
            Some((receive, error))
        })
    }

    /// Keeps a private ring until the process has ended. False if nobody will tell.
    pub(crate) fn keep_ring(&mut self, peer: u32, ring: u32) -> bool {
        let known = self.find(peer);
        known.map(|known| known.rings.push(ring)).is_some()
    }

    /// Keeps a probe word until the process has ended. False if nobody will tell.
    pub(crate) fn keep_word(&mut self, peer: u32, word: u32) -> bool {
        let known = self.find(peer);
        known.map(|known| known.probe_words.push(word)).is_some()
    }
}
