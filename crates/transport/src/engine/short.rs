//! The way that most messages take: short, to a peer with a ring of its own, under the tag of the one before.

use limic_shm::ring::line::INLINE_PAYLOAD;

use super::Core;
use super::peers::Out;
use super::wire::EAGER;
use crate::policy::Path;
use crate::raw::RawSlice;

/// What became of a short message.
#[must_use]
pub(crate) enum Short {
    /// It is out.
    Sent,
    /// It is out, and its receiver sleeps: to be rung.
    SentToSleeper,
    /// It goes another way, if it can go: nothing was done.
    No,
}

impl Core {
    /// Sends a message if that is all that there is to do about it.
    ///
    /// The line that it takes stays with the receiver until that has read it, and until then this core's stores wait one behind the
    /// other. There is room for 64 of them on current processors, those of what the application does meanwhile included: a stream goes as
    /// fast as few stores make it. So this is apart from the other ways, and nothing that needs registers or memory of its own is called
    /// here. For 8 bytes it stores ten words: five of the record and of the ring's state, three counts, two for the borrow of the engine.
    ///
    /// # Safety
    /// The slice is readable during the call.
    #[inline(always)]
    pub(crate) unsafe fn send_short(&mut self, to: u32, tag: u64, data: RawSlice) -> Short {
        let len = data.len as u64;
        let Some(peer) = self.peers.get(to) else {
            return Short::No;
        };
        let Some(link) = &mut peer.link else {
            return Short::No;
        };
        if len >= link.thresholds.inline_below
            || link.switching.is_some()
            || !peer.backlog.is_empty()
        {
            return Short::No;
        }
        let Out::Private(ring) = &mut link.out else {
            return Short::No;
        };
        // SAFETY: the caller's promise, and no slice of an application lies in a ring.
        if !unsafe { ring.push_same_tag(EAGER, tag, data.start, data.len) } {
            return Short::No;
        }
        self.tally.sent(&peer.counts, Path::Inline, len);
        if link.waker.must_ring() {
            Short::SentToSleeper
        } else {
            Short::Sent
        }
    }

    /// Rings the receiver of what was sent just now.
    #[cold]
    pub(crate) fn ring(&mut self, to: u32) {
        if let Some(link) = self.peers.link(to) {
            link.ring_bell();
        }
    }
}

/// Whether a message of this length may be short: what [`Path::Inline`] is at most.
#[inline(always)]
pub(crate) fn may_be_short(len: usize) -> bool {
    len <= INLINE_PAYLOAD as usize
}
