//! Names, lists and abandoned operations.

use super::*;

#[test]
fn stale_names_mean_nothing() {
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
    let slots: Vec<Slot> = (0..4).map(|_| requests.take_slot()).collect();
    requests.complete(slots[3], Err(Error::Cancelled));
    for slot in &slots {
        requests.watch(*slot, u64::from(*slot) + 10);
    }
    for slot in [2, 0, 1] {
        requests.complete(slots[slot], Err(Error::Cancelled));
    }
    let names: Vec<u64> =
        core::iter::from_fn(|| requests.next_finished().map(|(name, _)| name)).collect();
    assert_eq!(names, [13, 12, 10, 11]);
    assert!(requests.next_finished().is_none());
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
    assert_eq!(std::sync::Arc::strong_count(&buffer), 1);
    assert_eq!(requests.live(), 0);
}
