//! What is under way with peers, and how it ends.

use super::*;

const PEER: Peer = Peer::from_index(3);
const OTHER: Peer = Peer::from_index(4);

fn operation(room: &mut [u8]) -> Operation {
    let pieces = [RawSliceMut::from(room)];
    Operation {
        node: core::ptr::null_mut(),
        room: Room::of(if pieces[0].len > 0 { &pieces } else { &[] }),
    }
}

#[test]
fn an_answer_counts_once_and_from_the_peer_that_was_asked() {
    let mut unanswered = Unanswered::default();
    let first = unanswered.add(PEER, operation(&mut []));
    assert!(unanswered.take(OTHER, first).is_none());
    assert!(unanswered.take(Peer::from_index(2), first).is_none());
    assert!(unanswered.take(PEER, first + 1).is_none());
    assert!(unanswered.take(PEER, 0).is_none());
    assert!(unanswered.take(PEER, first).is_some());
    assert!(unanswered.take(PEER, first).is_none());
    let second = unanswered.add(PEER, operation(&mut []));
    assert!(first != second && unanswered.take(PEER, first).is_none());
    assert_eq!(unanswered.take_all_of(PEER).len(), 1);
    assert!(unanswered.take(PEER, second).is_none());
}

#[test]
fn late_answers_of_a_peer_that_failed_end_nothing_that_was_asked_since() {
    let mut unanswered = Unanswered::default();
    let mut room = [0; 8];
    let mut ask_twice = |unanswered: &mut Unanswered| {
        let fetch = unanswered.add(PEER, operation(&mut room));
        [fetch, unanswered.add(PEER, operation(&mut []))]
    };
    let before = ask_twice(&mut unanswered);
    assert_eq!(unanswered.take_all_of(PEER).len(), 2);
    let [fetch, write] = ask_twice(&mut unanswered);
    for late in before {
        assert!(unanswered.take(PEER, late).is_none());
        assert!(unanswered.take_received(PEER, late).is_none());
    }
    assert!(unanswered.take_received(PEER, write).is_some());
    assert!(unanswered.take(PEER, fetch).is_some());
}

#[test]
fn a_receipt_ends_what_has_no_results_and_was_asked_for() {
    let mut unanswered = Unanswered::default();
    let mut room = [0; 8];
    let receive = |unanswered: &mut Unanswered, number| {
        core::iter::from_fn(|| unanswered.take_received(PEER, number)).count()
    };
    assert_eq!(
        receive(&mut unanswered, u64::MAX),
        0,
        "nothing was asked for"
    );
    let write = unanswered.add(PEER, operation(&mut []));
    let fetch = unanswered.add(PEER, operation(&mut room));
    let last = unanswered.add(PEER, operation(&mut []));
    assert_eq!(receive(&mut unanswered, write), 1);
    assert_eq!(receive(&mut unanswered, write), 0, "not twice");
    assert!(
        unanswered
            .take_received(Peer::from_index(2), last)
            .is_none()
    );
    assert_eq!(receive(&mut unanswered, u64::MAX), 1);
    assert_eq!(receive(&mut unanswered, write), 0, "one goes back");
    assert!(unanswered.take(PEER, last).is_none());
    assert!(unanswered.take(PEER, fetch).is_some());
    // A number that says too much ends nothing that is asked for later.
    assert_eq!(receive(&mut unanswered, u64::MAX), 0);
    let later = unanswered.add(PEER, operation(&mut []));
    assert_eq!(receive(&mut unanswered, last), 0);
    assert_eq!(receive(&mut unanswered, later), 1);
}

#[test]
fn a_peer_is_listed_while_it_has_something_to_answer() {
    let mut unanswered = Unanswered::default();
    assert_eq!(unanswered.listed(0), None);
    let first = unanswered.add(PEER, operation(&mut []));
    let second = unanswered.add(PEER, operation(&mut []));
    assert_eq!(
        (unanswered.listed(0), unanswered.listed(1)),
        (Some(PEER), None)
    );
    assert!(unanswered.take(PEER, first).is_some() && !unanswered.unlist(0));
    assert!(unanswered.take(PEER, second).is_some() && unanswered.unlist(0));
    assert_eq!(unanswered.listed(0), None);
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let mut unanswered = Unanswered::default();
    for _ in 0..MOST {
        assert!(!unanswered.is_full(OTHER));
        unanswered.add(PEER, operation(&mut []));
    }
    assert!(unanswered.is_full(OTHER) && unanswered.is_full(PEER));
    // What is over leaves room for other peers, and for this one once all before it is over.
    assert!(unanswered.take(PEER, 2).is_some());
    assert!(!unanswered.is_full(OTHER) && unanswered.is_full(PEER));
    assert!(unanswered.take(PEER, 1).is_some() && !unanswered.is_full(PEER));
    assert_eq!(unanswered.take_all_of(PEER).len(), MOST - 2);
    assert!(
        unanswered
            .lines
            .iter()
            .all(|line| line.operations.is_empty())
    );
    assert_eq!(unanswered.count, 0);
}

#[test]
fn a_burst_leaves_no_memory_behind() {
    let mut unanswered = Unanswered::default();
    let capacity = |unanswered: &Unanswered| {
        let lines = &unanswered.lines;
        lines[PEER.index() as usize].operations.capacity()
    };
    let ask = |unanswered: &mut Unanswered, count| {
        for _ in 0..count {
            unanswered.add(PEER, operation(&mut []));
        }
    };
    ask(&mut unanswered, 10_000);
    while unanswered.take_received(PEER, u64::MAX).is_some() {}
    assert!(capacity(&unanswered) < 1000);
    // What comes again and again finds its memory there.
    ask(&mut unanswered, 64);
    let before = capacity(&unanswered);
    while unanswered.take_received(PEER, u64::MAX).is_some() {}
    assert_eq!(capacity(&unanswered), before);
    ask(&mut unanswered, 64);
    assert_eq!(unanswered.take_all_of(PEER).len(), 64);
    assert_eq!(capacity(&unanswered), 0, "it has failed");
}

#[test]
fn a_peer_that_can_give_no_receipt_is_not_listed() {
    let mut unanswered = Unanswered::default();
    let mut room = [0; 8];
    let fetch = unanswered.add(PEER, operation(&mut room));
    assert_eq!(unanswered.listed(0), None);
    let write = unanswered.add(PEER, operation(&mut []));
    assert_eq!(unanswered.listed(0), Some(PEER));
    assert!(unanswered.take_received(PEER, write).is_some() && unanswered.unlist(0));
    assert_eq!(unanswered.listed(0), None);
    assert!(unanswered.take(PEER, fetch).is_some());
}

#[test]
fn a_peer_that_leaves_one_unanswered_holds_up_no_other() {
    let mut unanswered = Unanswered::default();
    let mut room = [0; 8];
    unanswered.add(PEER, operation(&mut room));
    for _ in 1..MOST {
        assert!(!unanswered.is_full(OTHER));
        let write = unanswered.add(PEER, operation(&mut []));
        assert!(unanswered.take_received(PEER, write).is_some());
    }
    // Its own line ends at the same number, so its memory is bounded too.
    assert!(unanswered.is_full(PEER) && !unanswered.is_full(OTHER));
}

#[test]
fn results_fill_the_pieces_in_their_order() {
    let (mut first, mut second) = ([0; 2], [0; 3]);
    let pieces = [
        RawSliceMut::from(&mut first[..]),
        RawSliceMut::from(&mut [][..]),
        RawSliceMut::from(&mut second[..]),
    ];
    let room = Room::of(&pieces);
    // SAFETY: the arrays live; so below.
    assert!(unsafe { room.fill(&[1, 2, 3, 4, 5]) });
    assert_eq!((first, second), ([1, 2], [3, 4, 5]));
    let one = Room::of(&[RawSliceMut::from(&mut first[..])]);
    for room in [&room, &one, &Room::None] {
        // SAFETY: as above.
        assert!(!unsafe { room.fill(&[7; 6]) }, "they are too many");
    }
    // SAFETY: as above.
    assert!(unsafe { one.fill(&[8, 9]) && Room::None.fill(&[]) });
    assert_eq!((first, second), ([8, 9], [3, 4, 5]));
}
