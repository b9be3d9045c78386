use limic_shm::ring::heap;

use super::*;

const PAGE: u64 = POOL_PAGE as u64;
const ALL: u64 = u64::MAX;

/// A pool of which so many pages go round, and the flags as those who return pieces see them.
fn pool(round: u32) -> (Pool, ReleaseFlags<Mapped>) {
    let pages = round * 5 / 3;
    let flags = heap(ReleaseFlags::<Mapped>::area_len(pages));
    let of = |memory: &Mapped| ReleaseFlags::new(memory.clone(), pages).expect("flags");
    let memory = heap((pages * POOL_PAGE) as usize);
    (Pool::new(memory, of(&flags), 4 * POOL_PAGE), of(&flags))
}

fn give_back(flags: &ReleaseFlags<Mapped>, piece: Piece) {
    assert!(flags.release(piece.page, piece.generation));
}

#[test]
fn the_page_that_was_used_longest_ago_is_used_next() {
    let (mut pool, flags) = pool(8);
    for turn in 0..20 {
        let piece = pool.take(0, 2 * PAGE, ALL).expect("there is room");
        assert_eq!(piece.page, turn % 4 * 2);
        give_back(&flags, piece);
    }
    // A piece does not lie partly at the end and partly at the beginning.
    let pages: Vec<u32> = (0..4)
        .filter_map(|_| {
            let piece = pool.take(0, 3 * PAGE, ALL)?;
            give_back(&flags, piece);
            Some(piece.page)
        })
        .collect();
    assert_eq!(pages, [0, 3, 0, 3]);
}

#[test]
fn pieces_that_are_held_are_gone_round() {
    let (mut pool, flags) = pool(8);
    let held = pool.take(1, PAGE, ALL).expect("there is room");
    for _ in 0..20 {
        let piece = pool.take(0, 2 * PAGE, ALL).expect("there is room");
        assert_ne!(piece.page, held.page);
        give_back(&flags, piece);
    }
    give_back(&flags, held);
    let all: Vec<Piece> = (0..2).filter_map(|_| pool.take(2, 3 * PAGE, ALL)).collect();
    assert_eq!(
        all.len(),
        2,
        "six of eight pages are what one peer may hold"
    );
    assert!(pool.take(2, PAGE, ALL).is_none());
    assert!(pool.take(3, PAGE, ALL).is_some(), "others still get some");
}

#[test]
fn a_peer_holds_no_more_than_it_may() {
    let (mut pool, flags) = pool(16);
    let first = pool.take(0, 2 * PAGE, 4 * PAGE).expect("there is room");
    let second = pool.take(0, 2 * PAGE, 4 * PAGE).expect("there is room");
    assert!(pool.take(0, PAGE, 4 * PAGE).is_none());
    assert!(
        pool.take(1, 4 * PAGE, 2 * PAGE).is_some(),
        "who holds nothing gets one"
    );
    give_back(&flags, first);
    let third = pool.take(0, 2 * PAGE, 4 * PAGE).expect("one came back");
    assert!(pool.take(0, PAGE, 4 * PAGE).is_none());
    give_back(&flags, second);
    give_back(&flags, third);
    assert!(pool.take(0, 4 * PAGE, 4 * PAGE).is_some());
    assert!(
        pool.take(0, 5 * PAGE, ALL).is_none(),
        "longer than a piece may be"
    );
}

#[test]
fn a_piece_is_as_long_as_what_is_free_side_by_side() {
    let (mut pool, flags) = pool(8);
    let pieces: Vec<Piece> = (0..8)
        .filter_map(|peer| pool.take(peer, PAGE, ALL))
        .collect();
    for at in [1, 3, 5, 6] {
        give_back(&flags, pieces[at]);
    }
    assert!(pool.take(8, 3 * PAGE, ALL).is_none());
    let (piece, len) = pool.take_some(8, 4 * PAGE, ALL).expect("some are free");
    assert_eq!((piece.page, len), (5, 2 * PAGE));
    let (_, len) = pool.take_some(9, 2 * PAGE - 1, ALL).expect("some are free");
    assert_eq!(len, PAGE);
}

#[test]
fn peers_that_return_nothing_leave_some_to_others() {
    let (mut pool, _) = pool(64);
    for peer in 0..2 {
        while pool.take(peer, 4 * PAGE, ALL).is_some() {}
        assert!(pool.pages.free() > 0, "peer {peer} has taken the last page");
    }
    assert!(pool.take(2, 4 * PAGE, ALL).is_some());
}

#[test]
fn what_was_put_back_or_belonged_to_the_dead_is_free() {
    let (mut pool, flags) = pool(4);
    let piece = pool.take(0, PAGE, ALL).expect("there is room");
    pool.put_back(piece);
    let again = pool.take(0, PAGE, ALL).expect("there is room");
    assert_eq!(again.page, piece.page);
    assert_ne!(again.generation, piece.generation);
    assert!(pool.take(1, 3 * PAGE, ALL).is_some());
    assert!(pool.take(2, 2 * PAGE, ALL).is_none(), "all is lent");
    pool.forget_peer(1);
    assert!(pool.take(2, 2 * PAGE, ALL).is_some());
    // An old generation, or a flag that no piece begins with, is not taken for a return.
    give_back(&flags, piece);
    flags.release(3, 1);
    assert!(pool.take(3, 2 * PAGE, ALL).is_none());
}

#[test]
fn numbers_of_a_peer_stay_within_the_pool() {
    let memory = heap(2 * POOL_PAGE as usize);
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
            piece_of(&memory, page, len).is_some(),
            inside,
            "{page} {len}"
        );
    }
}

#[test]
fn what_peers_keep_is_apart_from_what_goes_round() {
    let (mut pool, _) = pool(64);
    let kept: Vec<Piece> = (0..100)
        .filter_map(|peer| pool.kept.take(peer, PAGE))
        .collect();
    assert_eq!(kept.len(), 42);
    assert!(kept.iter().all(|piece| piece.page >= 64));
    assert!(pool.holds_nothing(3), "it has nothing to return");
    assert_eq!(pool.pages.free(), 64);
    assert!(pool.take(3, 4 * PAGE, ALL).is_some());
    pool.forget_peer(3);
    assert_eq!((pool.kept.pages(), pool.pages.free()), (41, 64));
}
