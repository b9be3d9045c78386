//! Long messages on their way out: the sender's side of the pipeline, piece by piece through the ring or the pool.

use limic_shm::segment::POOL_PAGE;

use super::Core;
use super::peers::Link;
use super::requests::{SendStage, Slot};
use super::wire;
use crate::buffer::{Behind, SendBuffer, put_words};
use crate::policy::Path;

/// Longest piece of a long message that travels in the ring, with its header.
const MOST_IN_RING: u64 = 4 << 10;
/// Shortest piece that travels through a chunk, unless the message or the chunk ends.
const LEAST_CHUNK: u64 = 16 << 10;
/// Bytes of a piece's own words.
pub(crate) const PIECE_WORDS: u64 = 8;
/// Bytes of these, and of the record's header.
const PIECE_HEADER: u64 = PIECE_WORDS + 16;

/// Polls in vain before yielding under which two ranks are taken not to run at the same time. Each turn of one then
/// has to move as much as it can: through chunks, which hold twenty times as much as the near lap.
pub(crate) const FEW_SPINS: u32 = 100;
/// Chunks to fill, before the ring is tried again, once a stream has waited so long that its sender yielded.
pub(crate) const CROWDED: u32 = 32;

/// Bytes of the first and the last piece of a message through the pool: a quarter of it, within these bounds, and at most half of
/// it. The receiver can only begin when the first is there, and ends when it has copied the last.
const FIRST_PIECE: core::ops::RangeInclusive<u64> = 8 << 10..=16 << 10;

/// A message of more chunks goes in pieces of two: they are half as many to tell of, and still few bytes of it. Streams of
/// 2 MiB became 5 % faster by it; messages of 512 KiB would become 10 % slower.
const MANY_CHUNKS: u64 = 32;
/// Chunks in the longest piece.
pub(crate) const CHUNKS_IN_PIECE: u64 = 2;

/// Bytes of the piece at byte `at` of a message of `len` bytes that goes in chunks of `chunk` bytes: short ones first and last, and
/// longer ones, of which each costs as much to tell as a short one, in between.
pub(crate) fn piece_bytes(len: u64, at: u64, chunk: u64) -> u64 {
    let most = if len <= MANY_CHUNKS * chunk {
        chunk
    } else {
        CHUNKS_IN_PIECE * chunk
    };
    let pages = |bytes: u64| bytes.next_multiple_of(POOL_PAGE.into());
    let first = pages(len / 4).clamp(*FIRST_PIECE.start(), *FIRST_PIECE.end());
    let first = first.min(pages(len.div_ceil(2)));
    let left = len - at;
    at.min(pages(left / 2)).max(first).min(most).min(left)
}

impl Core {
    /// Fills chunks for the sends that were asked for, oldest first. True if bytes moved.
    pub(crate) fn push_streams(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..self.work.streams.len() {
            let Some(slot) = self.work.streams.pop_front() else {
                break;
            };
            let (went, over) = self.push_stream(slot);
            moved |= went;
            if !over {
                self.work.streams.push_back(slot);
            }
        }
        moved
    }

    /// Fills chunks for one send until there are none: (bytes moved, it is over).
    fn push_stream(&mut self, slot: Slot) -> (bool, bool) {
        let mut moved = false;
        let to = self.requests.sending(slot).map(|sending| sending.to);
        let wire = to.and_then(|to| self.peers.get(to)?.wire);
        if let Some(wire) = wire {
            return self.push_stream_remote(slot, wire);
        }
        loop {
            let Some(sending) = self.requests.sending(slot) else {
                return (moved, true);
            };
            let SendStage::Streaming {
                remote,
                at,
                end,
                confirm,
            } = sending.stage
            else {
                return (moved, true);
            };
            let to = sending.to;
            let Some(link) = self.peers.link(to) else {
                return (moved, true);
            };
            if at == end {
                self.streamed(slot, confirm);
                return (moved, true);
            }
            // Few polls: there are more endpoints than CPUs.
            let crowded = self.crowded > 0 || self.spins < FEW_SPINS;
            let len = if link.streams_in_ring() && !crowded {
                match link.push_piece(remote, at, end - at, &sending.data) {
                    Some(len) => len,
                    None => return (moved, false),
                }
            } else {
                // Short pieces are for the ring; one in the pool costs more, and is made for more.
                let most = link.chunk_bytes.max(LEAST_CHUNK).min(self.pool.chunk_bytes);
                let len = if crowded {
                    most.min(end - at)
                } else {
                    piece_bytes(end, at, most)
                };
                if !link.has_room() {
                    return (moved, false);
                }
                match link.target_for(&mut self.pool, to, len, end, link.window) {
                    Some((target, len)) => {
                        if let Some(mut window) = link.window_of(&self.pool, &target, len) {
                            sending.data.copy_to(at, len, &mut window);
                        }
                        let [place, extent] = target.told(len).words();
                        let words = [remote, at, place, extent];
                        if !link.push_words(wire::DATA, 0, words) {
                            link.put_back(&mut self.pool, target);
                            return (moved, false);
                        }
                        self.crowded = self.crowded.saturating_sub(1);
                        len
                    }
                    // Other peers hold all of it, and need not ever return it.
                    None if self.pool.holds_nothing(to) => {
                        match link.push_piece(remote, at, end - at, &sending.data) {
                            Some(len) => len,
                            None => return (moved, false),
                        }
                    }
                    None => return (moved, false),
                }
            };
            sending.stage = SendStage::Streaming {
                remote,
                at: at + len,
                end,
                confirm,
            };
            moved = true;
        }
    }

    /// All bytes of a send lie in chunks or packets: its buffer is free. A one-sided write is done only when the
    /// owner of the region says so, and a message that has to be delivered when its receiver does.
    pub(crate) fn streamed(&mut self, slot: Slot, confirm: bool) {
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        if confirm {
            sending.stage = SendStage::Confirming;
            return;
        }
        let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
        let over_verbs = self.peers.get(to).is_some_and(|peer| peer.wire.is_some());
        let path = if over_verbs {
            Path::RcEager
        } else {
            Path::Pipeline
        };
        // What a peer reads of a region counts with the peer.
        let id = self.requests.id(slot);
        if !self.region_users.iter().any(|(user, _)| *user == id) {
            self.note_sent(to, path, len);
        }
        self.end_send(slot, super::send::sent(to, tag, len));
    }
}

impl Link {
    /// Whether the pieces of long messages are short enough to travel in the private ring, all in its near
    /// lap: then the same few lines go to and fro between the first-level caches of the two cores. Longer ones,
    /// and those to a peer without a private ring, go through chunks.
    #[inline]
    fn streams_in_ring(&self) -> bool {
        matches!(self.out, super::peers::Out::Private(_)) && self.chunk_bytes <= MOST_IN_RING
    }

    /// Sends the next bytes of a long message in a record; says how many. `None`: no room now.
    fn push_piece(&mut self, id: u64, at: u64, left: u64, data: &SendBuffer) -> Option<u64> {
        let super::peers::Out::Private(ring) = &mut self.out else {
            return None;
        };
        // With its header a record takes `chunk_bytes`, so that whole records fill the lap.
        let most = (self.chunk_bytes - PIECE_HEADER).min(left) + PIECE_WORDS;
        let most = u32::try_from(most).map_or(u32::MAX, |most| most.min(ring.max_near_payload()));
        let mut room = ring.reserve_near(most)?;
        let len = u64::from(room.len()) - PIECE_WORDS;
        let mut rest = Behind {
            inner: &mut room,
            skip: PIECE_WORDS,
        };
        data.copy_to(at, len, &mut rest);
        // Last, as it is in the line that the receiver polls.
        put_words(&mut room, &[at]);
        room.publish(wire::PIECE, 0, id);
        self.wake();
        Some(len)
    }

    /// Whether a control record has room now.
    pub(crate) fn has_room(&mut self) -> bool {
        use super::peers::Out;
        const BYTES: u32 = (wire::WORDS * 8) as u32;
        self.finish_switch()
            && match &mut self.out {
                Out::Private(ring) => ring.reserve(BYTES).is_some(),
                Out::Shared(ring) => ring.has_room(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(len: u64) -> Vec<u64> {
        let mut at = 0;
        let mut all = Vec::new();
        while at < len {
            let piece = piece_bytes(len, at, 32 << 10);
            at += piece;
            all.push(piece);
        }
        assert_eq!(at, len);
        all
    }

    #[test]
    fn pieces_are_short_at_both_ends_and_longest_in_long_messages() {
        let kib = |sizes: &[u64]| sizes.iter().map(|size| size << 10).collect::<Vec<_>>();
        assert_eq!(pieces(16 << 10), kib(&[8, 8]));
        assert_eq!(pieces(64 << 10), kib(&[16, 16, 16, 16]));
        assert_eq!(pieces(128 << 10), kib(&[16, 16, 32, 32, 16, 16]));
        for (len, longest) in [(1 << 20, 32 << 10), ((1 << 20) + 1, 64 << 10)] {
            assert_eq!(pieces(len).into_iter().max(), Some(longest));
        }
    }

    /// What is in hand is used in the opposite order.
    #[test]
    fn an_answer_as_long_has_the_same_pieces_from_behind() {
        for len in [16 << 10, 96 << 10, 512 << 10, 1 << 20] {
            let mut back = pieces(len);
            back.reverse();
            assert_eq!(back, pieces(len));
        }
    }
}
