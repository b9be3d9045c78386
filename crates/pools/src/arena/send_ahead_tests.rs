use limic_shm::ring::{Mapped, PackedFlags, heap};
use limic_shm::segment::Placement;

use super::*;

const PACED: u32 = 1;
const SLOW: u32 = 2;
/// So many before a message are as if there were more.
const LONG: u32 = 4;

/// Sends a message ahead: where its receiver finds it, and how many it is told to have before it.
fn send(arenas: &mut Arenas, peer: u32) -> (ArenaMessage, u32) {
    let room = arenas
        .reserve_send_ahead(1024, 1 << 20)
        .expect("there is room");
    let message = arenas.lend_send_ahead(room, peer, 1024, LONG);
    let message = message.expect("there are flags");
    (message, message.send_ahead.expect("it is ahead"))
}

#[test]
fn a_receiver_that_keeps_pace_has_nothing_before_it_though_others_have() {
    let area = heap(PackedFlags::<Mapped>::area_len(LOAN_FLAGS));
    let flags = || PackedFlags::new(area.clone(), LOAN_FLAGS).expect("flags");
    let mut arenas = Arenas::new(flags(), Placement::default(), 16 << 20);
    assert_eq!(send(&mut arenas, SLOW).1, 0);
    for _ in 0..20 {
        let (record, before) = send(&mut arenas, PACED);
        assert_eq!(before, 0);
        assert!(flags().release(record.flag, record.generation));
    }
    let before: Vec<u32> = (0..8).map(|_| send(&mut arenas, SLOW).1).collect();
    assert_eq!(before, [1, 2, 3, LONG, LONG, LONG, LONG, LONG]);
}

#[test]
fn flags_are_left_to_loans_whatever_the_application_holds() {
    let area = heap(PackedFlags::<Mapped>::area_len(LOAN_FLAGS));
    let flags = PackedFlags::new(area, LOAN_FLAGS).expect("flags");
    let mut arenas = Arenas::new(flags, Placement::default(), 16 << 20);
    let held: Vec<u64> = (0..2 * LOAN_FLAGS)
        .map(|_| arenas.borrow(8).expect("there is room").id)
        .collect();
    assert!(arenas.reserve_send_ahead(1024, 1 << 20).is_none());

    // Each of those that are sent then has a flag, as long as there are any; one for which the ring
    // has no room keeps it.
    let mut sent = 0;
    for id in &held {
        let mut slot = arenas.held(*id).expect("it is the application's");
        if slot >= LOAN_FLAGS {
            match arenas.find_flag(slot) {
                Some(flagged) => slot = flagged,
                None => continue,
            }
        }
        let id = arenas.id(slot);
        arenas.lend(slot, PACED, 1);
        arenas.unlend();
        assert_eq!(arenas.held(id), Some(slot));
        let record = arenas.lend(slot, PACED, 1);
        assert_eq!(record.flag, slot);
        sent += 1;
    }
    assert_eq!(sent, LOAN_FLAGS);

    // What a peer held that is gone comes back, known to be or not.
    arenas.slots.reclaim();
    arenas.forget_peer(PACED);
    assert!(arenas.reserve_send_ahead(1024, 1 << 20).is_some());
}
