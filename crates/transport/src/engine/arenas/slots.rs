//! Which loans are with receivers: a slot for each release flag.
//!
//! Slots are used in turn. So the line of a flag has been its receiver's for long when it is used again, the flag of the next loan
//! is known before, and the oldest loan is found without a queue.

use limic_shm::ring::{Mapped, ReleaseFlags};
use limic_shm::segment::LOAN_FLAGS;

use super::Room;

/// Loans with receivers before the owner looks at another one each time, since the oldest may be kept for long.
const LOOK_ON: u32 = 16;

const LAST: u32 = LOAN_FLAGS - 1;
const _: () = assert!(LOAN_FLAGS.is_power_of_two());

/// What a slot is in use for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Free,
    /// A loan of the application.
    Lent,
    /// A message that went ahead of its receiver.
    Ahead,
}

#[derive(Clone, Copy)]
struct Slot {
    room: Room,
    peer: u32,
    generation: u32,
    used: Use,
}

/// All slots; each is named by the number of its flag.
pub(super) struct Slots {
    flags: ReleaseFlags<Mapped>,
    slots: Box<[Slot; LOAN_FLAGS as usize]>,
    /// The next one to use, if it is free.
    next: u32,
    /// Where to look for the oldest loan.
    oldest: u32,
    lent: u32,
    ahead: u32,
}

impl Slots {
    pub(super) fn new(flags: ReleaseFlags<Mapped>) -> Self {
        let slot = Slot {
            room: Room::default(),
            peer: 0,
            generation: 0,
            used: Use::Free,
        };
        Self {
            flags,
            slots: Box::new([slot; LOAN_FLAGS as usize]),
            next: 0,
            oldest: 0,
            lent: 0,
            ahead: 0,
        }
    }

    /// Loans with receivers.
    #[inline(always)]
    pub(super) fn lent(&self) -> u32 {
        self.lent
    }

    pub(super) fn free(&self) -> u32 {
        LOAN_FLAGS - self.lent - self.ahead
    }

    #[inline(always)]
    fn slot(&self, flag: u32) -> &Slot {
        &self.slots[(flag & LAST) as usize]
    }

    /// Enters room that a peer is told of; gives the flag and its generation. `None` if all are in use.
    #[inline(always)]
    pub(super) fn enter(&mut self, room: Room, peer: u32, used: Use) -> Option<(u32, u32)> {
        let mut flag = self.next & LAST;
        if self.slot(flag).used != Use::Free {
            flag = self.find_free()?;
        }
        let slot = &mut self.slots[flag as usize];
        // 0 is what a flag begins with.
        let generation = slot.generation.wrapping_add(1).max(1);
        *slot = Slot {
            room,
            peer,
            generation,
            used,
        };
        match used {
            Use::Ahead => self.ahead += 1,
            _ => self.lent += 1,
        }
        self.next = (flag + 1) & LAST;
        Some((flag, generation))
    }

    /// The flag that is used next, most likely.
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    #[cold]
    fn find_free(&self) -> Option<u32> {
        let mut in_turn = (0..LOAN_FLAGS).map(|step| (self.next + step) & LAST);
        in_turn.find(|flag| self.slot(*flag).used == Use::Free)
    }

    /// Undoes the last [`enter`](Self::enter): the peer was not told. Gives the room.
    pub(super) fn undo(&mut self) -> Room {
        self.next = self.next.wrapping_sub(1) & LAST;
        self.end(self.next)
    }

    /// A slot is free again. Gives its room.
    #[inline(always)]
    pub(super) fn end(&mut self, flag: u32) -> Room {
        let slot = &mut self.slots[(flag & LAST) as usize];
        match core::mem::replace(&mut slot.used, Use::Free) {
            Use::Free => {}
            Use::Lent => self.lent -= 1,
            Use::Ahead => self.ahead -= 1,
        }
        slot.room
    }

    /// Whether the receiver has given it back.
    #[inline(always)]
    pub(super) fn is_back(&self, flag: u32) -> bool {
        self.flags.is_released(flag, self.slot(flag).generation)
    }

    /// Takes the oldest loan, if it came back; or the one behind it, where that is kept for long.
    #[inline(always)]
    pub(super) fn take_oldest(&mut self) -> Option<Room> {
        let taken = self.take_if_back();
        if taken.is_none() && self.lent > LOOK_ON {
            self.oldest = (self.oldest + 1) & LAST;
            return self.take_if_back();
        }
        taken
    }

    #[inline(always)]
    fn take_if_back(&mut self) -> Option<Room> {
        if self.slot(self.oldest).used != Use::Lent {
            self.oldest = self.find_lent()?;
        }
        let flag = self.oldest;
        if !self.is_back(flag) {
            return None;
        }
        self.oldest = (flag + 1) & LAST;
        Some(self.end(flag))
    }

    #[cold]
    fn find_lent(&self) -> Option<u32> {
        let mut in_turn = (0..LOAN_FLAGS).map(|step| (self.oldest + step) & LAST);
        in_turn.find(|flag| self.slot(*flag).used == Use::Lent)
    }

    /// Asks for the flag of the oldest loan, off the way of the one that was just sent.
    #[inline(always)]
    pub(super) fn look_ahead(&self) {
        self.flags.expect_return(self.oldest);
    }

    /// Those in use: flag, what for, the room and the peer.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, Use, Room, u32)> + '_ {
        let slots = (0..LOAN_FLAGS).zip(self.slots.iter());
        let used = slots.filter(|(_, slot)| slot.used != Use::Free);
        used.map(|(flag, slot)| (flag, slot.used, slot.room, slot.peer))
    }

    /// The peer that was told.
    pub(super) fn peer(&self, flag: u32) -> u32 {
        self.slot(flag).peer
    }
}

#[cfg(test)]
mod tests {
    use limic_shm::ring::heap;

    use super::*;

    fn slots() -> (Slots, ReleaseFlags<Mapped>) {
        let area = heap(ReleaseFlags::<Mapped>::area_len(LOAN_FLAGS));
        let flags = || ReleaseFlags::new(area.clone(), LOAN_FLAGS).expect("flags");
        (Slots::new(flags()), flags())
    }

    fn room(len: usize) -> Room {
        Room {
            len,
            ..Room::default()
        }
    }

    #[test]
    fn a_loan_that_is_kept_holds_nobody_up() {
        let (mut slots, receiver) = slots();
        slots.enter(room(1), 0, Use::Lent).expect("a flag");
        // Each of the others comes back at once; far more than there are flags.
        let mut back = 0;
        for len in 2..2000 {
            let (flag, generation) = slots.enter(room(len), 0, Use::Lent).expect("a flag");
            assert!(receiver.release(flag, generation));
            back += u32::from(slots.take_oldest().is_some());
        }
        assert!(back > 1900, "{back}");
        assert!(slots.lent() <= LOOK_ON + 1);
        let kept: Vec<usize> = slots.used().map(|(_, _, room, _)| room.len).collect();
        assert!(kept.contains(&1));
    }

    #[test]
    fn all_flags_can_be_in_use_and_each_comes_back_alone() {
        let (mut slots, receiver) = slots();
        let entered: Vec<_> = (0..LOAN_FLAGS)
            .map(|number| slots.enter(room(number as usize), number, Use::Lent))
            .collect();
        assert_eq!(slots.free(), 0);
        assert_eq!(slots.enter(room(0), 0, Use::Ahead), None);
        let (flag, generation) = entered[100].expect("a flag");
        assert!(receiver.release(flag, generation));
        let back: Vec<u32> = (0..LOAN_FLAGS)
            .filter(|flag| slots.is_back(*flag))
            .collect();
        assert_eq!(back, [flag]);
        assert_eq!(slots.end(flag).len, 100);
        // The same flag under another generation: what was released before says nothing of it.
        let again = slots.enter(room(7), 0, Use::Ahead);
        assert_eq!(again, Some((flag, generation + 1)));
        assert!(!slots.is_back(flag));
        assert_eq!(slots.undo().len, 7);
        assert_eq!((slots.free(), slots.next()), (1, flag));
    }
}
