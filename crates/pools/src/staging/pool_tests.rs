use limic_shm::ring::heap;

use super::*;

const PAGE: u64 = STAGING_PAGE as u64;
const ALL: u64 = u64::MAX;

/// A pool of which so many pages go round, and the flags as those who return buffers see them.
fn staging(round: u32) -> (StagingPool, ReleaseFlags<Mapped>) {
    let pages = round * 5 / 3;
    let flags = heap(ReleaseFlags::<Mapped>::area_len(pages));
    let of = |memory: &Mapped| ReleaseFlags::new(memory.clone(), pages).expect("flags");
    let memory = heap((pages * STAGING_PAGE) as usize);
    (
        StagingPool::new(memory, of(&flags), 4 * STAGING_PAGE, 8 * PAGE),
        of(&flags),
    )
}

fn give_back(flags: &ReleaseFlags<Mapped>, buffer: StagingBuffer) {
    assert!(flags.release(buffer.page, buffer.generation));
}

#[test]
fn the_page_that_was_used_longest_ago_is_used_next() {
    let (mut staging, flags) = staging(8);
    for turn in 0..20 {
        let buffer = staging.take(0, 2 * PAGE, ALL).expect("there is room");
        assert_eq!(buffer.page, turn % 4 * 2);
        give_back(&flags, buffer);
    }
    // A buffer does not lie partly at the end and partly at the beginning.
    let pages: Vec<u32> = (0..4)
        .filter_map(|_| {
            let buffer = staging.take(0, 3 * PAGE, ALL)?;
            give_back(&flags, buffer);
            Some(buffer.page)
        })
        .collect();
    assert_eq!(pages, [0, 3, 0, 3]);
}

#[test]
fn buffers_that_are_held_are_gone_round() {
    let (mut staging, flags) = staging(8);
    let held = staging.take(1, PAGE, ALL).expect("there is room");
    for _ in 0..20 {
        let buffer = staging.take(0, 2 * PAGE, ALL).expect("there is room");
        assert_ne!(buffer.page, held.page);
        give_back(&flags, buffer);
    }
    give_back(&flags, held);
    let all: Vec<StagingBuffer> = (0..2)
        .filter_map(|_| staging.take(2, 3 * PAGE, ALL))
        .collect();
    assert_eq!(
        all.len(),
        2,
        "six of eight pages are what one peer may hold"
    );
    assert!(staging.take(2, PAGE, ALL).is_none());
    assert!(
        staging.take(3, PAGE, ALL).is_some(),
        "others still get some"
    );
}

#[test]
fn a_peer_holds_no_more_than_it_may() {
    let (mut staging, flags) = staging(16);
    let first = staging.take(0, 2 * PAGE, 4 * PAGE).expect("there is room");
    let second = staging.take(0, 2 * PAGE, 4 * PAGE).expect("there is room");
    assert!(staging.take(0, PAGE, 4 * PAGE).is_none());
    assert!(
        staging.take(1, 4 * PAGE, 2 * PAGE).is_some(),
        "who holds nothing gets one"
    );
    give_back(&flags, first);
    let third = staging.take(0, 2 * PAGE, 4 * PAGE).expect("one came back");
    assert!(staging.take(0, PAGE, 4 * PAGE).is_none());
    give_back(&flags, second);
    give_back(&flags, third);
    assert!(staging.take(0, 4 * PAGE, 4 * PAGE).is_some());
    assert!(
        staging.take(0, 5 * PAGE, ALL).is_none(),
        "longer than a buffer may be"
    );
}

#[test]
fn a_buffer_is_as_long_as_what_is_free_side_by_side() {
    let (mut staging, flags) = staging(8);
    let buffers: Vec<StagingBuffer> = (0..8)
        .filter_map(|peer| staging.take(peer, PAGE, ALL))
        .collect();
    for at in [1, 3, 5, 6] {
        give_back(&flags, buffers[at]);
    }
    assert!(staging.take(8, 3 * PAGE, ALL).is_none());
    let (buffer, len) = staging.take_some(8, 4 * PAGE, ALL).expect("some are free");
    assert_eq!((buffer.page, len), (5, 2 * PAGE));
    let (_, len) = staging
        .take_some(9, 2 * PAGE - 1, ALL)
        .expect("some are free");
    assert_eq!(len, PAGE);
}

#[test]
fn peers_that_return_nothing_leave_some_to_others() {
    let (mut staging, _) = staging(64);
    for peer in 0..2 {
        while staging.take(peer, 4 * PAGE, ALL).is_some() {}
        assert!(
            staging.pages.free() > 0,
            "peer {peer} has taken the last page"
        );
    }
    assert!(staging.take(2, 4 * PAGE, ALL).is_some());
}

#[test]
fn what_was_put_back_or_belonged_to_the_dead_is_free() {
    let (mut staging, flags) = staging(4);
    let buffer = staging.take(0, PAGE, ALL).expect("there is room");
    staging.put_back(buffer);
    let again = staging.take(0, PAGE, ALL).expect("there is room");
    assert_eq!(again.page, buffer.page);
    assert_ne!(again.generation, buffer.generation);
    assert!(staging.take(1, 3 * PAGE, ALL).is_some());
    assert!(staging.take(2, 2 * PAGE, ALL).is_none(), "all is lent");
    staging.forget_peer(1);
    assert!(staging.take(2, 2 * PAGE, ALL).is_some());
    // An old generation, or a flag that no buffer begins with, is not taken for a return.
    give_back(&flags, buffer);
    flags.release(3, 1);
    assert!(staging.take(3, 2 * PAGE, ALL).is_none());
}

/// Pages are taken and put back without being named to a peer, as often as its ring is full.
#[test]
fn a_flag_says_nothing_of_a_buffer_whose_generation_comes_again() {
    let (mut staging, flags) = staging(4);
    let buffer = staging.take(0, PAGE, ALL).expect("there is room");
    give_back(&flags, buffer);
    staging.reclaim();
    staging.pages.use_up(buffer.page);
    staging.next = buffer.page;
    let again = staging.take(0, PAGE, ALL).expect("there is room");
    assert_eq!(
        (again.page, again.generation),
        (buffer.page, buffer.generation)
    );
    staging.reclaim();
    assert_eq!(staging.held_by(0), 1);
}

#[test]
fn numbers_of_a_peer_stay_within_the_pool() {
    let memory = heap(2 * STAGING_PAGE as usize);
    for (page, len, inside) in [
        (0, 2 * PAGE, true),
        (1, PAGE, true),
        (2, 0, true),
        (1, PAGE + 1, false),
        (2, 1, false),
        (u32::MAX, 1, false),
        (0, u64::MAX, false),
        (u32::MAX, u64::MAX, false),
    ] {
        assert_eq!(
            buffer_window(&memory, page, len).is_ok(),
            inside,
            "{page} {len}"
        );
    }
}

#[test]
fn what_peers_keep_is_apart_from_what_goes_round() {
    let (mut staging, _) = staging(64);
    let kept: Vec<StagingBuffer> = (0..100)
        .filter_map(|peer| staging.recycled.take(peer, PAGE))
        .collect();
    assert_eq!(kept.len(), 42);
    assert!(kept.iter().all(|buffer| buffer.page >= 64));
    assert!(staging.holds_nothing(3), "it has nothing to return");
    assert_eq!(staging.pages.free(), 64);
    assert!(staging.take(3, 4 * PAGE, ALL).is_some());
    staging.forget_peer(3);
    assert_eq!(
        (staging.recycled.kept().sum::<u32>(), staging.pages.free()),
        (41, 64)
    );
}
