//! Arenas for loans (K9): memory beside the segment, made when the first loan is asked for.
//!
//! The owner alone hands out room. A receiver gives a loan back by a release flag in the owner's
//! segment; peers map arenas for reading only.

mod ahead;
mod slots;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};

use limic_shm::ring::{Mapped, Memory, ReleaseFlags};
use limic_shm::segment::{Arena, Placement};

use self::slots::{Slots, Use};
use super::given_up::has_ended;
use crate::raw::RawLoan;
use crate::{Error, Result};

/// Loans start at multiples of this, so that neighbours share no cache line, nor its prefetched twin.
const ALIGN: usize = 128;
/// Smallest arena.
const ARENA_BYTES: usize = 4 << 20;
/// Loans with receivers before the owner looks whether the oldest came back: so many that its flag, which was asked for when the
/// last one was sent, is here by then, and so few that the next loan lies in memory which is still in the cache.
const LOOK_AT: u32 = 4;
/// Rooms that are kept as they came back, for the next loans of the same length: their lines are still in the cache.
const RECENT: usize = 32;

struct OwnArena {
    arena: Arena,
    view: Mapped,
    /// Free room: offset and length.
    free: BTreeMap<usize, usize>,
    /// Made for messages that go ahead of their receivers, and of no use when these lag no longer.
    ahead: bool,
}

impl OwnArena {
    fn is_free(&self) -> bool {
        self.free.get(&0).is_some_and(|len| *len == self.view.len())
    }
}

/// Room that is in use.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) arena: u32,
    offset: usize,
    len: usize,
}

/// The arenas of this endpoint.
pub(crate) struct Arenas {
    /// By number. Numbers are not used again, since peers may have mapped what had them.
    arenas: Vec<Option<OwnArena>>,
    placement: Placement,
    /// What is with receivers.
    slots: Slots,
    borrowed: Borrowed,
    /// Peers that are forgotten but hold something, and their processes, which live.
    outlived: Vec<(u32, OwnedFd)>,
    /// Free rooms that are not in their arena's `free` again.
    recent: Vec<Room>,
    bytes: usize,
    most: usize,
    /// Flags of the messages that went ahead of their receivers, oldest first.
    ahead: VecDeque<u32>,
    ahead_bytes: u64,
}

/// What the application holds, by id: a slot, and the slot's generation above.
#[derive(Default)]
struct Borrowed {
    slots: Vec<(u32, Option<Room>)>,
    free: Vec<u32>,
}

impl Borrowed {
    fn insert(&mut self, room: Room) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let (generation, place) = &mut self.slots[slot as usize];
        *generation = generation.wrapping_add(1).max(1);
        *place = Some(room);
        u64::from(*generation) << 32 | u64::from(slot)
    }

    fn get(&self, id: u64) -> Option<Room> {
        let (generation, room) = self.slots.get(id as u32 as usize)?;
        room.filter(|_| *generation == (id >> 32) as u32)
    }

    fn remove(&mut self, id: u64) -> Option<Room> {
        let room = self.get(id)?;
        self.slots[id as u32 as usize].1 = None;
        self.free.push(id as u32);
        Some(room)
    }
}

/// A loan on its way: what the receiver must be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoanRecord {
    pub(crate) arena: u32,
    pub(crate) offset: u64,
    pub(crate) flag: u32,
    pub(crate) generation: u32,
    /// The flag of the next loan, most likely.
    pub(crate) next_flag: u32,
}

impl Arenas {
    pub(crate) fn new(flags: ReleaseFlags<Mapped>, placement: Placement, most: usize) -> Self {
        Self {
            arenas: Vec::new(),
            placement,
            slots: Slots::new(flags),
            borrowed: Borrowed::default(),
            outlived: Vec::new(),
            recent: Vec::new(),
            bytes: 0,
            most,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
        }
    }

    /// Lends room to the application: that of the oldest loan, if it came back and has this length, so that its lines are still in the
    /// cache.
    #[inline]
    pub(crate) fn borrow(&mut self, len: usize) -> Result<RawLoan> {
        let need = len
            .max(1)
            .checked_next_multiple_of(ALIGN)
            .ok_or_else(|| self.no_room(len))?;
        let back = if self.slots.lent() >= LOOK_AT {
            self.slots.take_oldest()
        } else {
            None
        };
        let room = match back {
            Some(room) if room.len == need && self.is_for_loans(room) => room,
            other => self.find_other(other, need, len)?,
        };
        let arena = self.arenas.get(room.arena as usize);
        let Some(start) = arena
            .and_then(Option::as_ref)
            .map(|arena| arena.view.pointer(room.offset))
        else {
            return Err(self.no_room(len));
        };
        let id = self.borrowed.insert(room);
        Ok(RawLoan { start, len, id })
    }

    /// Other room than that which has just come back.
    fn find_other(&mut self, back: Option<Room>, need: usize, asked: usize) -> Result<Room> {
        if let Some(back) = back {
            self.keep(back);
        }
        if let Some(at) = self.recent.iter().rposition(|room| room.len == need) {
            return Ok(self.recent.swap_remove(at));
        }
        if let Some(room) = self.find(need) {
            return Ok(room);
        }
        // Where few so long ones exist, the oldest is soon back.
        if let Some(oldest) = self.slots.take_oldest() {
            if oldest.len == need && self.is_for_loans(oldest) {
                return Ok(oldest);
            }
            self.keep(oldest);
        }
        self.reclaim();
        self.take_from_ended();
        for room in core::mem::take(&mut self.recent) {
            self.free(room);
        }
        if let Some(room) = self.find(need) {
            return Ok(room);
        }
        self.grow(need, asked, false)?;
        self.find(need).ok_or_else(|| self.no_room(asked))
    }

    fn find(&mut self, need: usize) -> Option<Room> {
        for (number, arena) in self.arenas.iter_mut().enumerate() {
            let Some(arena) = arena else { continue };
            let fit = arena.free.iter().find(|(_, len)| **len >= need);
            if let Some((offset, len)) = fit.map(|(offset, len)| (*offset, *len)) {
                arena.free.remove(&offset);
                if len > need {
                    arena.free.insert(offset + need, len - need);
                }
                return Some(Room {
                    arena: number as u32,
                    offset,
                    len: need,
                });
            }
        }
        None
    }

    fn grow(&mut self, need: usize, asked: usize, ahead: bool) -> Result<()> {
        let bytes = need
            .checked_next_multiple_of(ARENA_BYTES)
            .ok_or_else(|| self.no_room(asked))?;
        if self.bytes.saturating_add(bytes) > self.most {
            return Err(self.no_room(asked));
        }
        let arena =
            Arena::create(bytes, self.placement).map_err(|e| Error::NoMemory(e.to_string()))?;
        let view = arena.view();
        self.bytes += view.len();
        self.arenas.push(Some(OwnArena {
            free: BTreeMap::from([(0, view.len())]),
            view,
            arena,
            ahead,
        }));
        Ok(())
    }

    fn no_room(&self, len: usize) -> Error {
        let lent = self.slots.used().filter(|(_, used, ..)| *used == Use::Lent);
        let out: usize = lent.map(|(_, _, room, _)| room.len).sum();
        Error::NoMemory(format!(
            "a loan of {len} bytes: {} of at most {} bytes exist, {out} of them are with receivers; \
             wait until they drop what they received, or raise LIMIC_LOAN_BYTES",
            self.bytes, self.most
        ))
    }

    fn free(&mut self, room: Room) {
        let Some(Some(arena)) = self.arenas.get_mut(room.arena as usize) else {
            return;
        };
        let (mut offset, mut len) = (room.offset, room.len);
        if let Some(after) = arena.free.remove(&(offset + len)) {
            len += after;
        }
        if let Some((before, before_len)) = arena
            .free
            .range(..offset)
            .next_back()
            .map(|(o, l)| (*o, *l))
            && before + before_len == offset
        {
            arena.free.remove(&before);
            offset = before;
            len += before_len;
        }
        arena.free.insert(offset, len);
    }

    /// Whether it may be kept for long: memory for messages that go ahead is given back when none of them lies there.
    #[inline(always)]
    fn is_for_loans(&self, room: Room) -> bool {
        let arena = self.arenas.get(room.arena as usize);
        let arena = arena.and_then(Option::as_ref);
        arena.is_some_and(|arena| !arena.ahead)
    }

    /// A loan is over: its room is for the next one.
    fn keep(&mut self, room: Room) {
        if self.recent.len() < RECENT && self.is_for_loans(room) {
            self.recent.push(room);
        } else {
            self.free(room);
        }
    }

    /// The application gives a loan back unsent.
    pub(crate) fn give_back(&mut self, id: u64) {
        if let Some(room) = self.borrowed.remove(id) {
            self.keep(room);
        }
    }

    /// The room of a borrowed loan, which is nobody's then until it is lent or put back.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: u64) -> Option<Room> {
        self.borrowed.remove(id)
    }

    /// Undoes [`take`](Self::take). The loan has another id then.
    pub(crate) fn put_back(&mut self, room: Room) -> u64 {
        self.borrowed.insert(room)
    }

    /// Lends room that was taken to a peer. `None` if all flags are in use.
    #[inline(always)]
    pub(crate) fn lend(&mut self, room: Room, peer: u32) -> Option<LoanRecord> {
        let entered = match self.slots.enter(room, peer, Use::Lent) {
            None => {
                self.reclaim();
                self.slots.enter(room, peer, Use::Lent)
            }
            entered => entered,
        };
        entered.map(|entered| self.record(room, entered))
    }

    /// Asks for the flag of the oldest loan, off the way of the one that was just sent.
    #[inline(always)]
    pub(crate) fn look_ahead(&self) {
        self.slots.look_ahead();
    }

    #[inline(always)]
    fn record(&self, room: Room, (flag, generation): (u32, u32)) -> LoanRecord {
        LoanRecord {
            arena: room.arena,
            offset: room.offset as u64,
            flag,
            generation,
            next_flag: self.slots.next(),
        }
    }

    /// The memory of some room, and where it begins there.
    pub(crate) fn memory_of(&self, room: Room) -> Option<(&Mapped, u64)> {
        let arena = self.arenas.get(room.arena as usize)?.as_ref()?;
        Some((&arena.view, room.offset as u64))
    }

    /// Gives room back that was not sent after all.
    pub(crate) fn free_room(&mut self, room: Room) {
        self.free(room);
    }

    /// Undoes the last [`lend`](Self::lend) for a record that found no room in the ring.
    pub(crate) fn unlend(&mut self) {
        self.slots.undo();
    }

    /// Takes back what receivers have released.
    fn reclaim(&mut self) {
        self.take_back(|slots, flag, _| slots.is_back(flag));
    }

    /// Takes back the loans of which this is said (of their flag and peer).
    fn take_back(&mut self, is_over: impl Fn(&Slots, u32, u32) -> bool) {
        let over: Vec<u32> = self
            .slots
            .used()
            .filter(|(flag, used, _, peer)| {
                *used == Use::Lent && is_over(&self.slots, *flag, *peer)
            })
            .map(|(flag, ..)| flag)
            .collect();
        for flag in over {
            let room = self.slots.end(flag);
            self.keep(room);
        }
    }

    /// A peer is about to be forgotten, and its process (a pidfd) may live on.
    pub(crate) fn outlived_by(&mut self, peer: u32, process: &OwnedFd) {
        let holds_some = self
            .slots
            .used()
            .any(|(flag, _, _, holder)| holder == peer && !self.slots.is_back(flag));
        let known = self.outlived.iter().any(|(known, _)| *known == peer);
        if holds_some && !known && !has_ended(process) {
            self.outlived
                .extend(process.try_clone().map(|process| (peer, process)));
        }
    }

    /// Takes back what a failed peer held, except for what its process may still read: a received loan outlives the endpoint that
    /// received it. That comes back when it is dropped, or with the end of the process.
    pub(crate) fn forget_peer(&mut self, peer: u32) {
        if self.outlived.iter().all(|(other, _)| *other != peer) {
            self.take_from(peer);
        }
    }

    /// Takes back what processes held that have ended, and had left before.
    fn take_from_ended(&mut self) {
        for (peer, process) in core::mem::take(&mut self.outlived) {
            if has_ended(&process) {
                self.take_from(peer);
            } else {
                self.outlived.push((peer, process));
            }
        }
    }

    fn take_from(&mut self, peer: u32) {
        self.take_back(|_, _, holder| holder == peer);
        self.end_ahead_if(|slots, flag| slots.peer(flag) == peer);
    }

    /// The descriptor of an arena, and its size.
    pub(crate) fn descriptor(&self, number: u32) -> Option<(BorrowedFd<'_>, usize)> {
        let arena = self.arenas.get(number as usize)?.as_ref()?;
        Some((arena.arena.fd(), arena.arena.bytes()))
    }
}
