//! Whoever uses the table makes ids up, in any order.

use std::collections::HashSet;

use limic_shm::bytes::SingleSlice;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::engine::envelope::Envelope;

#[derive(Clone, Copy, Debug)]
enum Call {
    Insert,
    InsertDone(u32),
    Enqueue(Owner),
    /// A message for the first receive in the fifo.
    Deliver,
    /// The operation of a slot ends, if it is under way.
    Complete(u32),
    NextCompleted,
    TakeStatus(u32, u32),
    TakeOutcome(u32, u32),
    TakeAny(u32, u32),
    Watch(u32, u32),
    Abandon(u32, u32),
    OwnedBy(u32),
}

/// Few slots and generations, so that many of the ids mean something, or nearly do.
fn call() -> impl Strategy<Value = Call> {
    let (slot, generation) = (0..6_u32, 0..4_u32);
    let id = (slot.clone(), generation);
    prop_oneof![
        Just(Call::Insert),
        (0..3_u32).prop_map(Call::InsertDone),
        select(&[Owner::Caller, Owner::Scope(1), Owner::List(7)][..]).prop_map(Call::Enqueue),
        Just(Call::Deliver),
        slot.prop_map(Call::Complete),
        Just(Call::NextCompleted),
        id.clone()
            .prop_map(|(slot, ahead)| Call::TakeStatus(slot, ahead)),
        id.clone()
            .prop_map(|(slot, ahead)| Call::TakeOutcome(slot, ahead)),
        id.clone()
            .prop_map(|(slot, ahead)| Call::TakeAny(slot, ahead)),
        id.clone()
            .prop_map(|(slot, ahead)| Call::Watch(slot, ahead)),
        id.prop_map(|(slot, ahead)| Call::Abandon(slot, ahead)),
        (0..3_u32).prop_map(Call::OwnedBy),
    ]
}

/// An id of what is in a slot now, or was shortly before, or will be.
fn made_up(requests: &Requests, slot: u32, ahead: u32) -> RequestId {
    let entry = requests.entries.get(slot as usize);
    let generation = entry.map_or(0, |entry| entry.generation);
    request_id(generation.wrapping_add(ahead).wrapping_sub(1), slot)
}

fn run(requests: &mut Requests, call: Call) {
    match call {
        Call::Insert => drop(requests.insert(Operation::Over)),
        Call::InsertDone(owner) => drop(requests.insert_done(Err(Error::Cancelled), owner)),
        Call::Enqueue(owner) => {
            let any = limic_matching::Selector {
                source: limic_matching::Source::Any,
                tag: 0,
                mask: 0,
            };
            requests.enqueue_posted(&any, SingleSlice::EMPTY, owner);
        }
        Call::Deliver => drop(requests.deliver_to_head(Envelope::new(0, 0), &[][..])),
        Call::Complete(slot) => {
            if requests.under_way_in(slot) {
                requests.complete(slot, Err(Error::Cancelled));
            }
        }
        Call::NextCompleted => drop(requests.next_completed()),
        Call::TakeStatus(slot, ahead) => {
            requests.take_status(made_up(requests, slot, ahead));
        }
        Call::TakeOutcome(slot, ahead) => {
            requests.take_outcome(made_up(requests, slot, ahead));
        }
        Call::TakeAny(slot, ahead) => {
            let ids = [made_up(requests, slot, ahead), made_up(requests, 0, 1)];
            requests.take_any(&ids);
        }
        Call::Watch(slot, ahead) => {
            // A stranger's id is refused.
            let _ = requests.watch(made_up(requests, slot, ahead), 7);
        }
        Call::Abandon(slot, ahead) => {
            if let Some(slot) = requests.find(made_up(requests, slot, ahead)) {
                requests.abandon(slot, Box::new(()));
            }
        }
        Call::OwnedBy(owner) => drop(requests.owned_by(owner)),
    }
}

impl Requests {
    fn under_way_in(&self, slot: Slot) -> bool {
        (slot as usize) < self.entries.len() && self.under_way(slot).is_some()
    }

    /// The slots of a list. It ends, and each is in it once.
    fn slots_from(&self, first: Slot) -> HashSet<Slot> {
        let (mut slots, mut slot) = (HashSet::new(), first);
        while slot != NONE {
            assert!(slots.insert(slot), "slot {slot} is in one list twice");
            slot = self.entries[slot as usize].next;
        }
        slots
    }

    /// No two operations share an id, since a slot is free, or listed, or one operation's.
    fn check(&self) {
        let (free, listed) = (
            self.slots_from(self.free),
            self.slots_from(self.completions.0),
        );
        assert!(free.is_disjoint(&listed), "a slot is free and listed");
        for (slot, entry) in (0..).zip(&self.entries) {
            let states = (free.contains(&slot), listed.contains(&slot));
            assert_eq!(matches!(entry.state, State::Free), states.0);
            assert_eq!(matches!(entry.state, State::Listed(_)), states.1);
            assert!(entry.owner == 0 || entry.is_known(), "owned, and nobody's");
        }
        let owned = self.entries.iter().filter(|entry| entry.owner != 0).count();
        assert_eq!(self.owned, owned);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_id_that_is_made_up_frees_a_slot_that_is_listed(calls in vec(call(), 1..60)) {
        let mut requests = Requests::new();
        for call in calls {
            run(&mut requests, call);
            requests.check();
        }
    }
}
