//! Ids, the completion list, abandoned operations, and the posted fifo.

use limic_shm::bytes::SingleSlice;

use super::*;
use crate::engine::envelope::Envelope;
use crate::{Peer, Tag};

#[test]
fn stale_ids_mean_nothing() {
    let mut requests = Requests::<Operation>::new();
    let slot = requests.take_slot();
    requests.complete(slot, Err(Error::Cancelled));
    let id = requests.id(slot);
    assert_eq!(requests.find(id), Some(slot));
    assert_eq!(requests.take_done(slot), Some(Err(Error::Cancelled)));
    assert_eq!(requests.find(id), None);
    assert_eq!(requests.take_slot(), slot);
    assert_eq!(requests.find(id), None);
    assert_eq!(requests.find(RequestId(u64::MAX)), None);
}

#[test]
fn watched_operations_are_listed_in_the_order_of_their_ends() {
    let mut requests = Requests::<Operation>::new();
    let slots: Vec<Slot> = (0..4).map(|_| requests.insert(Operation::Over)).collect();
    requests.complete(slots[3], Err(Error::Cancelled));
    for slot in &slots {
        let id = requests.id(*slot);
        requests.watch(id, u64::from(*slot) + 10).expect("known");
    }
    for slot in [2, 0, 1] {
        requests.complete(slots[slot], Err(Error::Cancelled));
    }
    let names: Vec<u64> =
        core::iter::from_fn(|| requests.next_completed().map(|(name, _)| name)).collect();
    assert_eq!(names, [13, 12, 10, 11]);
    assert!(requests.next_completed().is_none());
    assert_eq!(requests.live(), 0);
}

#[test]
fn abandoned_operations_free_themselves() {
    let mut requests = Requests::<Operation>::new();
    let slot = requests.take_slot();
    let buffer = std::sync::Arc::new(());
    requests.abandon(slot, Box::new(buffer.clone()));
    assert_eq!(std::sync::Arc::strong_count(&buffer), 2);
    requests.complete(slot, Err(Error::Cancelled));
    drop(requests.take_freed());
    assert_eq!(std::sync::Arc::strong_count(&buffer), 1);
    assert_eq!(requests.live(), 0);
}

#[test]
fn an_operation_that_is_abandoned_twice_keeps_both_buffers() {
    let mut requests = Requests::<Operation>::new();
    let slot = requests.take_slot();
    let buffer = std::sync::Arc::new(());
    requests.abandon(slot, Box::new(buffer.clone()));
    requests.abandon(slot, Box::new(()));
    assert_eq!(std::sync::Arc::strong_count(&buffer), 2);
    requests.complete(slot, Err(Error::Cancelled));
    drop(requests.take_freed());
    assert_eq!(std::sync::Arc::strong_count(&buffer), 1);
    assert_eq!(requests.live(), 0);
}

#[test]
fn an_operation_may_be_abandoned_any_number_of_times() {
    let mut requests = Requests::<Operation>::new();
    let slot = requests.take_slot();
    for _ in 0..if cfg!(miri) { 200 } else { 200_000 } {
        requests.abandon(slot, Box::new(()));
    }
    requests.complete(slot, Err(Error::Cancelled));
    drop(requests.take_freed());
    assert_eq!(requests.live(), 0);
}

#[test]
fn a_buffer_that_panics_takes_no_other_one_of_its_operation_along() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a buffer of the user");
        }
    }
    let mut requests = Requests::<Operation>::new();
    let slot = requests.take_slot();
    let buffer = std::sync::Arc::new(());
    requests.abandon(slot, Box::new(PanicsOnDrop));
    requests.abandon(slot, Box::new(PanicsOnDrop));
    requests.abandon(slot, Box::new(buffer.clone()));
    requests.complete(slot, Err(Error::Cancelled));
    drop(requests.take_freed());
    assert_eq!(std::sync::Arc::strong_count(&buffer), 1);
}

#[test]
fn an_abandoned_operation_that_is_watched_still_frees_its_buffer() {
    let mut requests = Requests::<Operation>::new();
    let slot = requests.take_slot();
    let buffer = std::sync::Arc::new(());
    requests.abandon(slot, Box::new(buffer.clone()));
    let watched = requests.watch(requests.id(slot), 7);
    assert_eq!(watched, Err(Error::UnknownRequest));
    requests.complete(slot, Err(Error::Cancelled));
    assert_eq!(requests.next_completed(), None);
    drop(requests.take_freed());
    assert_eq!(std::sync::Arc::strong_count(&buffer), 1);
}

fn selector(source: Option<u32>, tag: u64, mask: u64) -> limic_matching::Selector {
    let source = source.map_or(limic_matching::Source::Any, limic_matching::Source::Is);
    limic_matching::Selector { source, tag, mask }
}

/// Three receives in the fifo: of tag 5 from 1, of tag 5 from anybody, of any tag from 2.
fn three_in_fifo() -> (Requests<Operation>, [RequestId; 3]) {
    let mut requests = Requests::new();
    let ids = [(Some(1), !0), (None, !0), (Some(2), 0)].map(|(source, mask)| {
        requests.enqueue_posted(
            &selector(source, 5, mask),
            SingleSlice::EMPTY,
            Owner::Caller,
        )
    });
    assert_eq!(requests.fifo_len(), 3);
    (requests, ids)
}

#[test]
fn a_watched_operation_has_its_name_until_it_is_done() {
    let (mut requests, ids) = three_in_fifo();
    let slot = requests.find(ids[1]).expect("in the fifo");
    requests.watch(ids[1], 7).expect("known");
    assert_eq!(requests.watched(7), Some(ids[1]));
    assert_eq!(requests.watched(0), None);
    requests.complete(slot, Err(Error::Cancelled));
    assert_eq!(requests.watched(7), None);
    assert_eq!(requests.next_completed(), Some((7, Err(Error::Cancelled))));
    // The slot is free, with what was in it.
    assert_eq!(requests.watched(7), None);
}

#[test]
fn a_message_goes_to_the_first_receive_if_it_fits() {
    let (mut requests, ids) = three_in_fifo();
    let (nothing, byte) = (&[0_u8; 0][..], &[1_u8][..]);
    // For the second, for the third, and for the first but too long.
    assert!(!requests.deliver_to_head(Envelope::new(7, 5), nothing));
    assert!(!requests.deliver_to_head(Envelope::new(2, 9), nothing));
    assert!(!requests.deliver_to_head(Envelope::new(1, 5), byte));
    for (id, (from, tag)) in ids.into_iter().zip([(1, 5), (7, 5), (2, 9)]) {
        assert!(requests.take_status(id).is_none());
        assert!(requests.deliver_to_head(
            Envelope {
                from,
                tag,
                immediate: Some(8)
            },
            nothing
        ));
        let status = requests.take_status(id).expect("a status");
        assert_eq!((status.peer, status.tag), (Peer(from), Tag(tag)));
        assert_eq!((status.len, status.immediate), (0, Some(8)));
    }
    assert!(!requests.has_fifo());
    assert!(!requests.deliver_to_head(Envelope::new(1, 5), nothing));
    assert_eq!(requests.live(), 0);
}

#[test]
fn receives_leave_the_fifo_from_any_position() {
    for (at, (from, tag)) in [(1, 5), (7, 5), (2, 9)].into_iter().enumerate() {
        let (mut requests, ids) = three_in_fifo();
        assert_eq!(requests.take_from_fifo(from, tag, at), None);
        let slot = requests.find(ids[at]);
        assert_eq!(requests.take_from_fifo(from, tag, at + 1), slot);
        assert_eq!(requests.fifo_len(), 2);
        // Another one stands behind those that are left.
        let last =
            requests.enqueue_posted(&selector(None, 0, 0), SingleSlice::EMPTY, Owner::Caller);
        let left = core::iter::from_fn(|| Some(requests.pop_fifo()?.0));
        let left: Vec<Slot> = left.collect();
        let expected = ids.iter().filter(|id| **id != ids[at]).chain([&last]);
        let expected: Vec<Slot> = expected.filter_map(|id| requests.find(*id)).collect();
        assert_eq!(left, expected);
        assert!(!requests.has_fifo());
    }
}

#[test]
fn a_part_of_the_fifo_is_drained_in_its_order() {
    let (mut requests, ids) = three_in_fifo();
    let fourth = requests.enqueue_posted(&selector(None, 6, !0), SingleSlice::EMPTY, Owner::Caller);
    let drained = requests.drain_fifo(|_, selector| selector.source == limic_matching::Source::Any);
    assert_eq!(drained, [ids[1], fourth].map(|id| id.0 as Slot));
    assert_eq!(requests.fifo_len(), 2);
    let (slot, first) = requests.pop_fifo().expect("the first");
    assert_eq!(
        (Some(slot), first),
        (requests.find(ids[0]), selector(Some(1), 5, !0))
    );
    // Out of the fifo it is a receive as others are.
    assert!(matches!(requests.get(slot), Operation::Receive(_)));
}

/// Both of two watched receives completed, and somebody waited for one of them nevertheless.
#[test]
fn a_listed_operation_is_unknown_to_whoever_has_its_id() {
    let (mut requests, ids) = three_in_fifo();
    for (id, (from, tag)) in ids.into_iter().zip([(1, 5), (7, 5), (2, 9)]) {
        requests.watch(id, id.0).expect("known");
        assert!(requests.deliver_to_head(Envelope::new(from, tag), &[][..]));
        assert_eq!(requests.find(id), None);
        assert_eq!(requests.take_status(id), None);
    }
    // Slots that are taken meanwhile are others.
    let taken: Vec<Slot> = (0..3).map(|_| requests.take_slot()).collect();
    assert!(
        taken
            .iter()
            .all(|slot| !ids.iter().any(|id| id.0 as Slot == *slot))
    );
    let names: Vec<u64> =
        core::iter::from_fn(|| requests.next_completed().map(|(name, _)| name)).collect();
    assert_eq!(names, ids.map(|id| id.0));
}

#[test]
fn no_scope_owns_what_is_listed() {
    let mut requests = Requests::<Operation>::new();
    let owner = requests.new_owner();
    requests.insert_done(Err(Error::Cancelled), owner);
    let listed = requests.insert_done(Err(Error::Cancelled), 0);
    requests.watch(listed, 7).expect("it is there");
    assert_eq!(requests.owned_by(0), None);
    assert_eq!(requests.find(listed), None);
}

#[test]
fn a_new_scope_has_no_operation_of_an_older_one() {
    let mut requests = Requests::<Operation>::new();
    let first = requests.new_owner();
    requests.insert_done(Err(Error::Cancelled), first);
    // As after as many scopes as there are numbers.
    requests.last_owner = first - 1;
    assert_eq!(requests.new_owner(), first + 1);
}
