//! Arenas: memory beside the segment, which peers map for reading.
//!
//! [`Arenas`] are those of this endpoint, each made when no other one has room. A *room* is a range
//! in one. It is lent to the application (a loan), or to a peer with a message that goes ahead. A
//! *slot* says what a room is in use for (`slots`); that of a room which is sent has a release flag
//! in the owner's segment, by which the receiver gives the room back. [`PeerArenas`] are those of
//! one peer, mapped here or, where that cannot be, read by calls of the kernel.
//!
//! # Invariants
//!
//! - A room is free or in one slot: kept there for the next loan, held, or sent.
//! - Numbers of arenas are not used again: peers may have mapped what had them.

mod message;
mod peer_arenas;
mod quota;
mod send_ahead;
mod slots;
mod thread_rc;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use limic_shm::bytes::Window;
use limic_shm::control::has_ended;
use limic_shm::ring::{Mapped, Memory, PackedFlags};
use limic_shm::segment::{Arena, Placement, SegmentError};
use limic_shm::system;

pub use self::message::{ArenaMessage, MOST_ARENAS};
pub use self::peer_arenas::{LoanHold, PeerArenas};
use self::slots::Slots;

/// Loans start at multiples of this, so that neighbours share no cache line, nor its prefetched
/// twin.
const ALIGN: usize = 128;
/// Smallest arena.
const ARENA_BYTES: usize = 4 << 20;
/// Loans with receivers before the owner looks which of them came back: so many that a line of
/// flags moves seldom, and so few that the next loan lies in memory which is still in the cache.
const RECLAIM_AT: usize = 8;
/// Rooms that are kept as they came back, for the next loans of the same length: their lines are
/// still in the cache.
const RECENT: usize = 32;

#[derive(Debug)]
struct OwnArena {
    arena: Arena,
    view: Mapped,
    /// Free room: offset and length.
    free: BTreeMap<usize, usize>,
    /// Made for messages that go ahead of their receivers, and of no use when these lag no longer.
    send_ahead: bool,
}

impl OwnArena {
    fn is_free(&self) -> bool {
        self.free.get(&0).is_some_and(|len| *len == self.view.len())
    }
}

/// Room that is in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArenaRange {
    /// The number of the arena.
    pub arena: u32,
    offset: usize,
    len: usize,
}

/// Room that the application has.
#[derive(Debug)]
pub struct Loan {
    /// The first byte.
    pub start: *mut u8,
    /// The name of the loan.
    pub id: u64,
}

/// Why there is no room.
#[derive(Debug, thiserror::Error)]
pub enum NoRoom {
    /// Peers have too much of what may be lent.
    #[error(
        "a loan of {len} bytes: {exist} of at most {most} bytes exist, {out} of them are with \
         receivers; wait until they drop what they received"
    )]
    Full {
        /// Bytes that were asked for.
        len: usize,
        /// Bytes of all arenas.
        exist: usize,
        /// Most bytes of all arenas.
        most: usize,
        /// Bytes that are with receivers.
        out: usize,
    },
    /// An arena could not be made.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// A peer that is forgotten but holds something. Its process lives, as far as is known.
#[derive(Debug)]
struct Holder {
    peer: u32,
    pid: i32,
    /// Its pidfd. Without one, what it holds comes back when it is dropped, or never.
    process: Option<OwnedFd>,
}

/// The arenas of this endpoint.
#[derive(Debug)]
pub struct Arenas {
    /// By number. Numbers are not used again, since peers may have mapped what had them.
    arenas: Vec<Option<OwnArena>>,
    placement: Placement,
    slots: Slots,
    living_holders: Vec<Holder>,
    bytes: usize,
    most: usize,
    /// Slots of the messages that went ahead of their receivers, oldest first.
    send_ahead: VecDeque<u32>,
    send_ahead_bytes: u64,
    /// Since when no message was sent ahead; 0 if that is not known.
    send_ahead_idle_since_ns: u64,
}

impl Arenas {
    /// None yet, of at most `most` bytes. `flags`: the release flags of all loans.
    #[must_use]
    pub fn new(flags: PackedFlags<Mapped>, placement: Placement, most: usize) -> Self {
        Self {
            arenas: Vec::new(),
            placement,
            slots: Slots::new(flags),
            living_holders: Vec::new(),
            bytes: 0,
            most,
            send_ahead: VecDeque::new(),
            send_ahead_bytes: 0,
            send_ahead_idle_since_ns: 0,
        }
    }

    /// Lends room to the application that is known to be back and has this length, so that its
    /// lines are still in the cache.
    #[inline(always)]
    pub fn borrow_again(&mut self, len: usize) -> Option<Loan> {
        let need = len.max(1).checked_next_multiple_of(ALIGN)?;
        let slot = self.slots.take_first_back(need)?;
        if !self.is_for_loans(self.slots.range(slot)) {
            self.keep(slot);
            return None;
        }
        self.hold(slot)
    }

    /// Lends room to the application.
    ///
    /// # Errors
    /// There is none, or no memory for it.
    pub fn borrow(&mut self, len: usize) -> Result<Loan, NoRoom> {
        let need = len.max(1).checked_next_multiple_of(ALIGN);
        let need = need.ok_or_else(|| self.no_room(len))?;
        let slot = self.find_slot(need, len)?;
        self.hold(slot).ok_or_else(|| self.no_room(len))
    }

    #[inline(always)]
    fn hold(&mut self, slot: u32) -> Option<Loan> {
        let range = self.slots.range(slot);
        let arena = self.arenas.get(range.arena as usize)?.as_ref()?;
        let start = arena.view.pointer(range.offset);
        let id = self.slots.hold(slot);
        Some(Loan { start, id })
    }

    /// A slot with such room.
    fn find_slot(&mut self, need: usize, asked: usize) -> Result<u32, NoRoom> {
        if self.slots.lent() >= RECLAIM_AT {
            self.slots.reclaim();
            if let Some(slot) = self.slots.take_first_back(need) {
                return Ok(slot);
            }
        }
        // What has another length is kept, so that what came back behind it can be used.
        while let Some(slot) = self.slots.take_back() {
            self.keep(slot);
        }
        if let Some(slot) = self.slots.take_kept(need) {
            return Ok(slot);
        }
        if let Some(range) = self.find(need) {
            return Ok(self.slots.add(range));
        }
        self.make_room(need, asked)
    }

    /// The same where there is no such room, by all means.
    #[cold]
    fn make_room(&mut self, need: usize, asked: usize) -> Result<u32, NoRoom> {
        // Where few so long ones exist, the oldest is soon back.
        self.slots.reclaim();
        if let Some(slot) = self.slots.take_first_back(need) {
            return Ok(slot);
        }
        self.reclaim();
        self.look_at_holders();
        while let Some(range) = self.slots.forget_kept() {
            self.free(range);
        }
        let range = match self.find(need) {
            Some(range) => Some(range),
            None => {
                self.grow(need, asked, false)?;
                self.find(need)
            }
        };
        let range = range.ok_or_else(|| self.no_room(asked))?;
        Ok(self.slots.add(range))
    }

    fn find(&mut self, need: usize) -> Option<ArenaRange> {
        for (number, arena) in self.arenas.iter_mut().enumerate() {
            let Some(arena) = arena else { continue };
            let fits = arena.free.iter().find(|(_, len)| **len >= need);
            if let Some((offset, len)) = fits.map(|(offset, len)| (*offset, *len)) {
                arena.free.remove(&offset);
                if len > need {
                    arena.free.insert(offset + need, len - need);
                }
                return Some(ArenaRange {
                    arena: number as u32,
                    offset,
                    len: need,
                });
            }
        }
        None
    }

    fn grow(&mut self, need: usize, asked: usize, send_ahead: bool) -> Result<(), NoRoom> {
        let bytes = need
            .checked_next_multiple_of(ARENA_BYTES)
            .ok_or_else(|| self.no_room(asked))?;
        if self.bytes.saturating_add(bytes) > self.most || self.arenas.len() >= MOST_ARENAS {
            return Err(self.no_room(asked));
        }
        let arena = Arena::create(bytes, self.placement)?;
        let view = arena.view();
        self.bytes += view.len();
        self.arenas.push(Some(OwnArena {
            free: BTreeMap::from([(0, view.len())]),
            view,
            arena,
            send_ahead,
        }));
        Ok(())
    }

    fn no_room(&self, len: usize) -> NoRoom {
        NoRoom::Full {
            len,
            exist: self.bytes,
            most: self.most,
            out: self.slots.lent_bytes(),
        }
    }

    /// Gives room back that was not sent after all.
    pub fn free(&mut self, range: ArenaRange) {
        let Some(Some(arena)) = self.arenas.get_mut(range.arena as usize) else {
            return;
        };
        let (mut offset, mut len) = (range.offset, range.len);
        if let Some(after) = arena.free.remove(&(offset + len)) {
            len += after;
        }
        if let Some((before, before_len)) = arena
            .free
            .range(..offset)
            .next_back()
            .map(|(o, l)| (*o, *l))
        {
            if before + before_len == offset {
                arena.free.remove(&before);
                offset = before;
                len += before_len;
            }
        }
        arena.free.insert(offset, len);
    }

    /// Whether it may be kept for long: memory for messages that go ahead is given back when none
    /// of them lies there.
    #[inline(always)]
    fn is_for_loans(&self, range: ArenaRange) -> bool {
        let arena = self.arenas.get(range.arena as usize);
        let arena = arena.and_then(Option::as_ref);
        arena.is_some_and(|arena| !arena.send_ahead)
    }

    /// A loan is over: its room is for the next one.
    fn keep(&mut self, slot: u32) {
        if !self.is_for_loans(self.slots.range(slot)) {
            let range = self.slots.end(slot);
            return self.free(range);
        }
        if self.slots.kept() >= RECENT {
            if let Some(range) = self.slots.forget_kept() {
                self.free(range);
            }
        }
        self.slots.keep(slot);
    }

    /// The application gives a loan back unsent.
    pub fn give_back(&mut self, id: u64) {
        if let Some(slot) = self.slots.held(id) {
            self.keep(slot);
        }
    }

    /// The slot of a loan that the application has.
    #[inline(always)]
    #[must_use]
    pub fn held(&self, id: u64) -> Option<u32> {
        self.slots.held(id)
    }

    /// The arena in which a slot's room is.
    #[inline(always)]
    #[must_use]
    pub fn arena_of(&self, slot: u32) -> u32 {
        self.slots.range(slot).arena
    }

    /// The name of the loan in a slot.
    #[must_use]
    pub fn id(&self, slot: u32) -> u64 {
        self.slots.name(slot)
    }

    /// Another slot, with a flag, for a loan that the application has in one without. The loan has
    /// another id then. `None` if all flags are in use.
    #[cold]
    pub fn find_flag(&mut self, slot: u32) -> Option<u32> {
        if !self.slots.has_free_flag() {
            self.reclaim();
            self.free_a_flag();
        }
        self.slots.move_to_flag(slot)
    }

    /// A flag whose slot only keeps room is for what is sent.
    fn free_a_flag(&mut self) {
        while !self.slots.has_free_flag() {
            let Some(range) = self.slots.forget_kept() else {
                return;
            };
            self.free(range);
        }
    }

    /// A peer is told of a loan that the application has, in a slot with a flag: what it must be
    /// told.
    #[inline(always)]
    pub fn lend(&mut self, slot: u32, peer: u32, len: u64) -> ArenaMessage {
        self.slots.lend(slot, peer);
        self.message(slot, len, None)
    }

    #[inline(always)]
    fn message(&self, slot: u32, len: u64, send_ahead: Option<u32>) -> ArenaMessage {
        let range = self.slots.range(slot);
        ArenaMessage {
            arena: range.arena,
            offset: range.offset as u64,
            len,
            flag: slot,
            generation: self.slots.generation(slot),
            send_ahead,
        }
    }

    /// A message has come, which mostly is answered: asks for what the next loan has to look at.
    #[inline(always)]
    pub fn expect_return(&self) {
        self.slots.expect_return();
    }

    /// Undoes the last [`lend`](Self::lend) for a record that found no room in the ring: the
    /// application has it again.
    pub fn unlend(&mut self) {
        self.slots.unlend();
    }

    /// The first `len` bytes of some room.
    #[must_use]
    pub fn window_of(&self, range: ArenaRange, len: u64) -> Option<Window<'_>> {
        let arena = self.arenas.get(range.arena as usize)?.as_ref()?;
        Window::new(&arena.view, range.offset as u64, len)
    }

    /// Takes back what receivers have released.
    fn reclaim(&mut self) {
        self.take_back(Slots::is_back);
    }

    /// Takes back the loans of whose slots this is said.
    fn take_back(&mut self, is_over: impl Fn(&Slots, u32) -> bool) {
        for slot in self.slots.take_lent_if(is_over) {
            self.keep(slot);
        }
    }

    /// A peer is about to be forgotten, and its process (a pidfd, if there is one) may live on.
    pub fn keep_for_living(&mut self, peer: u32, pid: i32, process: Option<&OwnedFd>) {
        let known = self.living_holders.iter().any(|holder| holder.peer == peer);
        if !known && self.slots.holds_some(peer) && !process.is_some_and(has_ended) {
            // Without a free descriptor for the copy it is as without a pidfd.
            let process = process.and_then(|process| process.try_clone().ok());
            let process = process.map(system::opened);
            self.living_holders.push(Holder { peer, pid, process });
        }
    }

    /// How many descriptors are kept for peers of a process that have left and hold something.
    pub fn count_of(&mut self, pid: i32) -> usize {
        self.look_at_holders();
        let kept = |holder: &&Holder| holder.pid == pid && holder.process.is_some();
        self.living_holders.iter().filter(kept).count()
    }

    /// Takes back what a failed peer held, except for what its process may still read: a received
    /// loan outlives the endpoint that received it. That comes back when it is dropped, or with the
    /// end of the process.
    pub fn forget_peer(&mut self, peer: u32) {
        if self.living_holders.iter().all(|holder| holder.peer != peer) {
            self.take_from(peer);
        }
    }

    /// Takes back what processes held that have ended, and forgets holders that hold nothing now.
    fn look_at_holders(&mut self) {
        for holder in core::mem::take(&mut self.living_holders) {
            if holder.process.as_ref().is_some_and(has_ended) {
                self.take_from(holder.peer);
            } else if self.slots.holds_some(holder.peer) {
                self.living_holders.push(holder);
            }
        }
    }

    fn take_from(&mut self, peer: u32) {
        let holds = |slots: &Slots, slot| slots.peer(slot) == peer;
        self.take_back(holds);
        self.end_send_ahead_if(holds);
    }

    /// A descriptor of an arena of this endpoint, for a peer, and its size. `None`: there is no
    /// such arena, or none can be had ([`Arena::descriptor`]).
    #[must_use]
    pub fn descriptor(&self, number: u32) -> Option<(OwnedFd, usize)> {
        let arena = self.arenas.get(number as usize)?.as_ref()?;
        Some((arena.arena.descriptor()?, arena.arena.bytes()))
    }
}
