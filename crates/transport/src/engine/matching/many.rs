//! Receives for many messages: each message takes a part of the room of the oldest receive that it
//! matches. The receive keeps its place among the posted ones until too little of its room is left.

use std::collections::VecDeque;

use limic_matching::Selector as Query;
use limic_shm::bytes::SingleSlice;

use super::Matching;
use super::posted::no_memory;
use crate::engine::request::{Requests, Slot};
use crate::raw::{Owner, Posted, RequestId, Taken};
use crate::{Peer, Result};

/// The next message begins where any type may lie.
const ALIGN: usize = 16;

/// Room for many messages.
pub(crate) struct ManyRoom {
    remaining: SingleSlice,
    /// With less left it is over.
    least: usize,
    /// What the caller calls it.
    name: u64,
}

impl ManyRoom {
    pub(crate) fn new(remaining: SingleSlice, least: usize, name: u64) -> Self {
        Self {
            remaining,
            least: least.max(1),
            name,
        }
    }

    /// The part that a message of `len` bytes takes, and whether it is the last one.
    pub(crate) fn cut(&mut self, len: u64) -> (SingleSlice, bool) {
        let part = self.remaining.cut(len, ALIGN);
        (part, self.remaining.len() < self.least)
    }

    /// What its caller is told of a message that has taken a part.
    pub(crate) fn taken(&self, part: SingleSlice, from: u32, last: bool, posted: Posted) -> Taken {
        Taken {
            name: self.name,
            start: part.start(),
            from: Peer(from),
            last,
            posted,
        }
    }
}

/// Those that are posted, and what has come for them.
#[derive(Default)]
pub(crate) struct ManyRooms {
    rooms: Vec<(Slot, ManyRoom)>,
    taken: VecDeque<Taken>,
}

impl ManyRooms {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// A receive is not posted any more.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.rooms.retain(|(known, _)| *known != slot);
    }

    /// A message has taken a part.
    pub(crate) fn note(&mut self, taken: Taken) {
        self.taken.push_back(taken);
    }

    /// The next of the messages that have taken a part, in the order in which they did.
    #[inline(always)]
    pub(crate) fn next_taken(&mut self) -> Option<Taken> {
        self.taken.pop_front()
    }
}

impl Matching {
    pub(crate) fn many(&mut self) -> &mut ManyRooms {
        &mut self.many
    }

    /// Posts a receive for many messages, for which none waits. It is never in the fifo, whose
    /// receives are matched once.
    pub(crate) fn post_many(
        &mut self,
        requests: &mut Requests,
        query: &Query,
        room: ManyRoom,
    ) -> Result<RequestId> {
        self.move_fifo_to_matcher(requests)
            .and_then(|()| self.matcher.reserve(1, 0))
            .map_err(|full| no_memory(&full))?;
        let slot = requests.take_slot();
        match self.matcher.post_staying(query, slot) {
            Ok(posted) => {
                let id = requests.post(slot, posted, room.remaining.into(), Owner::Caller);
                self.many.rooms.push((slot, room));
                Ok(id)
            }
            Err(full) => {
                requests.release(slot);
                Err(no_memory(&full))
            }
        }
    }

    /// A message of `len` bytes has found a receive. If that one is for many, the message gets a
    /// receive of its own, for a part of the room.
    #[cold]
    pub(super) fn take_part(
        &mut self,
        requests: &mut Requests,
        slot: Slot,
        from: u32,
        len: u64,
    ) -> Slot {
        let rooms = &mut self.many.rooms;
        let Some(at) = rooms.iter().position(|(known, _)| *known == slot) else {
            return slot;
        };
        let Some(posted) = requests.posted_as(slot) else {
            return slot;
        };
        let room = &mut rooms[at].1;
        let (part, last) = room.cut(len);
        let own = requests.take_slot();
        let id = requests.post(own, posted, part.into(), Owner::Caller);
        let taken = room.taken(part, from, last, Posted::Pending(id));
        self.many.note(taken);
        if last {
            self.many.rooms.swap_remove(at);
            self.matcher.cancel_posted(posted);
            requests.release(slot);
        }
        own
    }
}
