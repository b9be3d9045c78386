//! Loans by slot: each has its room, and a release flag.
//!
//! A slot keeps its room when its loan comes back, for the next loan of the same length. So from
//! one loan to the next, nothing changes but what the slot is in use for.
//!
//! The owner looks at flags only when it has no slot to use again, and then takes back all that is
//! back. Sixteen flags share a line; while the owner does not look, the lines stay with the one who
//! sets them. Between two peers that pass loans to and fro, a line of flags then moves there and
//! back once for eight loans.

use std::collections::VecDeque;

use limic_shm::ring::{Mapped, PackedFlags};
use limic_shm::segment::LOAN_FLAGS;
use limic_shm::system::FIRST_GENERATION;

use super::ArenaRange;

/// Loans with receivers from which on the owner passes over one that is not back, since that may be
/// kept for long.
const ROTATE_AT: usize = 16;

/// Slots with a flag that are left to loans which are sent, and to messages that go ahead, whatever
/// the application holds.
const RESERVED_FLAGS: usize = LOAN_FLAGS as usize / 4;

/// What a slot is in use for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SlotUse {
    /// It has no room, or room that waits for the next loan.
    #[default]
    Nothing,
    /// The application holds the loan.
    Held,
    /// A loan, or a message that went ahead, is with its receiver.
    Sent,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    range: ArenaRange,
    peer: u32,
    /// Of the use: names the loan to the application, and its return.
    generation: u32,
    used: SlotUse,
}

/// What the application knows the loan of a slot by.
#[inline(always)]
fn name(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

/// Generations of a slot begin anew, and one that came back long ago is forgotten: the first one.
/// 0 is what a flag begins with.
#[cold]
#[inline(never)]
fn begin_anew(flags: &PackedFlags<Mapped>, slot: u32) -> u32 {
    flags.forget(slot);
    1
}

/// All slots. The first [`LOAN_FLAGS`] are named by the number of their flag; those beyond have
/// none, and are made when an application holds many loans.
#[derive(Debug)]
pub(crate) struct Slots {
    flags: PackedFlags<Mapped>,
    slots: Vec<Slot>,
    /// Empty ones that have a flag, and that have none.
    free: Vec<u32>,
    free_beyond: Vec<u32>,
    /// Those whose rooms wait for the next loan, the longest kept first.
    kept: VecDeque<u32>,
    /// Those of loans with receivers, mostly the oldest first; the first [`back`](Self::back) of
    /// them are known to have come back.
    lent: VecDeque<u32>,
    back: usize,
}

impl Slots {
    pub(crate) fn new(flags: PackedFlags<Mapped>) -> Self {
        let unused = Slot {
            generation: FIRST_GENERATION - 1,
            ..Slot::default()
        };
        Self {
            flags,
            slots: vec![unused; LOAN_FLAGS as usize],
            // The first one comes first.
            free: (0..LOAN_FLAGS).rev().collect(),
            free_beyond: Vec::new(),
            kept: VecDeque::new(),
            lent: VecDeque::with_capacity(LOAN_FLAGS as usize),
            back: 0,
        }
    }

    /// Loans with receivers, as far as is known.
    #[inline(always)]
    pub(crate) fn lent(&self) -> usize {
        self.lent.len() - self.back
    }

    /// Flags that nobody has: of empty slots, and of those that only keep room.
    pub(crate) fn unused_flags(&self) -> usize {
        let kept = self.kept.iter().filter(|slot| **slot < LOAN_FLAGS);
        self.free.len() + kept.count()
    }

    #[inline(always)]
    pub(crate) fn range(&self, slot: u32) -> ArenaRange {
        self.slots[slot as usize].range
    }

    /// The peer that was told.
    pub(crate) fn peer(&self, slot: u32) -> u32 {
        self.slots[slot as usize].peer
    }

    /// What a receiver gives back.
    #[inline(always)]
    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.slots[slot as usize].generation
    }

    /// The slot of the loan that came back first, if its room has this length; it is nobody's then.
    #[inline(always)]
    pub(crate) fn take_first_back(&mut self, len: usize) -> Option<u32> {
        let first = *self.lent.front()?;
        if self.range(first).len != len {
            return None;
        }
        self.take_back()
    }

    /// The slot of the loan that came back first, whatever its room.
    #[inline(always)]
    pub(crate) fn take_back(&mut self) -> Option<u32> {
        self.back = self.back.checked_sub(1)?;
        self.lent.pop_front()
    }

    /// A slot whose room was kept, and has this length; it is nobody's then.
    pub(crate) fn take_kept(&mut self, len: usize) -> Option<u32> {
        // The last one's lines are most likely still in the cache.
        let mut kept = self.kept.iter();
        let at = kept.rposition(|slot| self.range(*slot).len == len)?;
        self.kept.remove(at)
    }

    /// Keeps a slot's room for the next loan.
    pub(crate) fn keep(&mut self, slot: u32) {
        self.slots[slot as usize].used = SlotUse::Nothing;
        self.kept.push_back(slot);
    }

    /// Rooms that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Keeps the room no longer that was kept longest.
    pub(crate) fn forget_kept(&mut self) -> Option<ArenaRange> {
        let slot = self.kept.pop_front()?;
        Some(self.end(slot))
    }

    /// A slot for room of a loan; it is nobody's.
    pub(crate) fn add(&mut self, range: ArenaRange) -> u32 {
        let slot = if self.free.len() > RESERVED_FLAGS {
            self.free.pop()
        } else {
            self.free_beyond.pop()
        };
        let slot = slot.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize].range = range;
        slot
    }

    /// Another use of a slot that is nobody's: its generation.
    #[inline(always)]
    fn begin(&mut self, slot: u32, used: SlotUse) -> u32 {
        let place = &mut self.slots[slot as usize];
        let next = place.generation.checked_add(1);
        let generation = next.unwrap_or_else(|| begin_anew(&self.flags, slot));
        place.generation = generation;
        place.used = used;
        generation
    }

    /// The application has the loan from now on: its name.
    #[inline(always)]
    pub(crate) fn hold(&mut self, slot: u32) -> u64 {
        name(slot, self.begin(slot, SlotUse::Held))
    }

    /// The slot of a loan that the application has.
    #[inline(always)]
    pub(crate) fn held(&self, name: u64) -> Option<u32> {
        let slot = name as u32;
        let place = self.slots.get(slot as usize)?;
        let is_it = place.used == SlotUse::Held && place.generation == (name >> 32) as u32;
        is_it.then_some(slot)
    }

    /// A peer is told of a loan that the application had. The slot has a flag; see
    /// [`move_to_flag`](Self::move_to_flag).
    #[inline(always)]
    pub(crate) fn lend(&mut self, slot: u32, peer: u32) {
        debug_assert!(slot < LOAN_FLAGS, "no receiver can give it back");
        let place = &mut self.slots[slot as usize];
        place.used = SlotUse::Sent;
        place.peer = peer;
        self.lent.push_back(slot);
    }

    /// The peer was not told after all: the last one that was lent is the application's again.
    pub(crate) fn unlend(&mut self) {
        if let Some(slot) = self.lent.pop_back() {
            self.slots[slot as usize].used = SlotUse::Held;
        }
    }

    /// What the application knows the loan by.
    #[inline(always)]
    pub(crate) fn name(&self, slot: u32) -> u64 {
        name(slot, self.generation(slot))
    }

    /// Whether an empty slot has a flag.
    pub(crate) fn has_free_flag(&self) -> bool {
        !self.free.is_empty()
    }

    /// Gives a loan that the application holds another slot, which has a flag. `None` if there is
    /// none.
    pub(crate) fn move_to_flag(&mut self, slot: u32) -> Option<u32> {
        let other = self.free.pop()?;
        self.slots[other as usize].range = self.end(slot);
        self.begin(other, SlotUse::Held);
        Some(other)
    }

    /// Enters a message that goes ahead. `None` if no flag is left.
    pub(crate) fn lend_send_ahead(&mut self, range: ArenaRange, peer: u32) -> Option<u32> {
        let slot = self.free.pop()?;
        let place = &mut self.slots[slot as usize];
        (place.range, place.peer) = (range, peer);
        self.begin(slot, SlotUse::Sent);
        Some(slot)
    }

    /// A slot has no room any more; it is in none of the queues. Gives the room.
    pub(crate) fn end(&mut self, slot: u32) -> ArenaRange {
        let place = &mut self.slots[slot as usize];
        place.used = SlotUse::Nothing;
        let free = if slot < LOAN_FLAGS {
            &mut self.free
        } else {
            &mut self.free_beyond
        };
        free.push(slot);
        core::mem::take(&mut place.range)
    }

    /// Whether the receiver has given it back.
    #[inline(always)]
    pub(crate) fn is_back(&self, slot: u32) -> bool {
        self.flags.is_released(slot, self.generation(slot))
    }

    /// Looks which loans came back, from the oldest one on up to the first that did not. If none
    /// did and there are many, the oldest one is passed over.
    pub(crate) fn reclaim(&mut self) {
        let lent = self.lent.iter().skip(self.back);
        self.back += lent.take_while(|slot| self.is_back(**slot)).count();
        if self.back == 0 && self.lent.len() > ROTATE_AT {
            self.lent.rotate_left(1);
        }
    }

    /// Asks for the line of the flag that is looked at next, if that is soon.
    #[inline(always)]
    pub(crate) fn expect_return(&self) {
        if self.back == 0 {
            if let Some(oldest) = self.lent.front() {
                self.flags.expect_return(*oldest);
            }
        }
    }

    /// Takes the loans from their receivers of which this is said; they are nobody's then.
    pub(crate) fn take_lent_if(&mut self, is_over: impl Fn(&Self, u32) -> bool) -> Vec<u32> {
        let lent = core::mem::take(&mut self.lent);
        self.back = 0;
        let (over, lent): (Vec<u32>, Vec<u32>) =
            lent.into_iter().partition(|slot| is_over(self, *slot));
        self.lent = lent.into();
        over
    }

    /// Whether a peer has something that is not back.
    pub(crate) fn holds_some(&self, peer: u32) -> bool {
        self.sent()
            .any(|slot| self.peer(slot) == peer && !self.is_back(slot))
    }

    /// Those that are with receivers.
    fn sent(&self) -> impl Iterator<Item = u32> + '_ {
        (0..LOAN_FLAGS).filter(|slot| self.slots[*slot as usize].used == SlotUse::Sent)
    }

    /// Bytes of the loans that are with receivers.
    pub(crate) fn lent_bytes(&self) -> usize {
        let lent = self.lent.iter().skip(self.back);
        lent.map(|slot| self.range(*slot).len).sum()
    }
}

#[cfg(test)]
mod tests {
    use limic_shm::ring::heap;

    use super::*;

    fn slots() -> (Slots, PackedFlags<Mapped>) {
        let area = heap(PackedFlags::<Mapped>::area_len(LOAN_FLAGS));
        let flags = || PackedFlags::new(area.clone(), LOAN_FLAGS).expect("flags");
        (Slots::new(flags()), flags())
    }

    fn range(len: usize) -> ArenaRange {
        ArenaRange {
            len,
            ..ArenaRange::default()
        }
    }

    /// Lends room; gives what the receiver would be told.
    fn lend(slots: &mut Slots, len: usize) -> (u32, u32) {
        let slot = slots.add(range(len));
        slots.hold(slot);
        slots.lend(slot, 0);
        (slot, slots.generation(slot))
    }

    #[test]
    fn a_loan_that_is_kept_holds_nobody_up() {
        let (mut slots, receiver) = slots();
        lend(&mut slots, 1);
        // Each of the others comes back at once; far more than there are flags.
        let mut back = 0;
        let rounds = if cfg!(miri) { 400 } else { 2000 };
        for len in 2..rounds {
            let (flag, generation) = lend(&mut slots, len);
            assert!(receiver.release(flag, generation));
            slots.reclaim();
            while let Some(slot) = slots.take_back() {
                slots.end(slot);
                back += 1;
            }
        }
        assert!(back > rounds - 100, "{back}");
        assert!(slots.lent() <= ROTATE_AT + 1);
        let with_receivers: Vec<usize> = slots.sent().map(|slot| slots.range(slot).len).collect();
        assert!(with_receivers.contains(&1));
    }

    #[test]
    fn all_flags_can_be_in_use_and_each_comes_back_alone() {
        let (mut slots, receiver) = slots();
        let ahead: Vec<_> = (0..LOAN_FLAGS)
            .map(|number| slots.lend_send_ahead(range(number as usize), number))
            .collect();
        assert_eq!(slots.unused_flags(), 0);
        assert_eq!(slots.lend_send_ahead(range(0), 0), None);
        let slot = ahead[100].expect("a flag");
        let generation = slots.generation(slot);
        assert!(receiver.release(slot, generation));
        let back: Vec<u32> = slots.sent().filter(|slot| slots.is_back(*slot)).collect();
        assert_eq!(back, [slot]);
        assert_eq!(slots.end(slot).len, 100);
        // The same flag under another generation: what was released before says nothing of it.
        assert_eq!(slots.lend_send_ahead(range(7), 0), Some(slot));
        assert!(slots.generation(slot) != generation && !slots.is_back(slot));
        assert_eq!(slots.end(slot).len, 7);
        assert_eq!(slots.unused_flags(), 1);
    }

    /// An application may borrow and return a loan without sending it, as often as it likes.
    #[test]
    fn a_flag_says_nothing_of_a_loan_whose_generation_comes_again() {
        let (mut slots, receiver) = slots();
        let (slot, generation) = lend(&mut slots, 1);
        assert!(receiver.release(slot, generation) && slots.is_back(slot));
        // All generations up to the same one again, most of them at one go.
        slots.slots[slot as usize].generation = u32::MAX;
        while slots.hold(slot) != u64::from(generation) << 32 | u64::from(slot) {}
        assert!(!slots.is_back(slot));
    }

    #[test]
    fn an_application_may_hold_more_loans_than_there_are_flags() {
        let (mut slots, receiver) = slots();
        let held: Vec<u64> = (0..2 * LOAN_FLAGS as usize)
            .map(|len| {
                let slot = slots.add(range(len));
                slots.hold(slot)
            })
            .collect();
        // Those without a flag get one when they are sent, as long as there are some.
        let mut sent = 0;
        for (len, name) in held.iter().enumerate() {
            let slot = slots.held(*name).expect("it is the application's");
            assert_eq!(slots.range(slot).len, len);
            if slot < LOAN_FLAGS {
                slots.lend(slot, 0);
                continue;
            }
            let Some(flagged) = slots.move_to_flag(slot) else {
                break;
            };
            assert_eq!(slots.held(*name), None, "it has another name now");
            slots.lend(flagged, 0);
            assert!(receiver.release(flagged, slots.generation(flagged)));
            sent += 1;
        }
        assert_eq!(sent, RESERVED_FLAGS);
        assert_eq!(slots.lent(), LOAN_FLAGS as usize);
        assert_eq!(slots.take_lent_if(Slots::is_back).len(), RESERVED_FLAGS);
    }
}
