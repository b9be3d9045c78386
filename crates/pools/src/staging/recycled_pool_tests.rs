use limic_shm::ring::heap;
use limic_shm::segment::STAGING_PAGE;

use super::*;

const PAGE: u64 = STAGING_PAGE as u64;
const FIRST: u32 = 8;

/// So many pages, and the flags as those who return buffers see them.
fn kept(pages: u32) -> (RecycledPool, ReleaseFlags<Mapped>) {
    let flags = heap(ReleaseFlags::<Mapped>::area_len(FIRST + pages));
    let of = |memory: &Mapped| ReleaseFlags::new(memory.clone(), FIRST + pages).expect("flags");
    (RecycledPool::new(of(&flags), FIRST, pages), of(&flags))
}

#[test]
fn a_peer_keeps_what_it_was_given_until_it_goes_or_gives_it_back() {
    let (mut kept, flags) = kept(8);
    let buffer = kept.take(1, 2 * PAGE).expect("there is room");
    assert_eq!(buffer.page, FIRST);
    let (page, generation) = (buffer.page, buffer.generation);
    for (from, page, generation) in [
        (2, page, generation),
        (1, page + 1, generation),
        (1, 0, generation),
        (1, u32::MAX, generation),
        (1, page, generation + 1),
        (1, page, generation | 1 << 31),
    ] {
        assert_eq!(kept.returned(from, page, generation), None);
    }
    assert_eq!(kept.returned(1, page, generation), Some(2));
    assert_eq!(kept.returned(1, page, generation), None, "once");
    // A flag says nothing while the buffer is here, nor under an older generation.
    assert!(flags.release(buffer.page, buffer.generation));
    kept.reclaim();
    let again = kept.transfer(buffer.page);
    kept.reclaim();
    assert_eq!(kept.kept().sum::<u32>(), 2);
    assert!(flags.release(buffer.page, again));
    kept.reclaim();
    assert_eq!(kept.kept().sum::<u32>(), 0);
    for peer in [1, 2] {
        kept.take(peer, PAGE).expect("there is room");
    }
    kept.forget_peer(1);
    assert_eq!(kept.kept().sum::<u32>(), 1);
}

#[test]
fn buffers_lie_side_by_side_where_there_is_room() {
    let (mut kept, _) = kept(8);
    let buffers: Vec<StagingBuffer> = (0..8).filter_map(|peer| kept.take(peer, PAGE)).collect();
    assert_eq!(buffers.len(), 8);
    assert!(kept.take(9, PAGE).is_none());
    for at in [1, 3, 4, 5] {
        kept.end(buffers[at].page);
    }
    assert!(kept.take(9, 4 * PAGE).is_none(), "not side by side");
    let three = kept.take(9, 3 * PAGE).expect("there is room");
    assert_eq!(three.page, buffers[3].page);
    assert!(kept.take(9, u64::MAX).is_none());
}

#[test]
fn a_peer_keeps_no_more_than_it_may() {
    let (mut kept, _) = kept(2 * MOST_BY_PEER);
    let one = (0..=MOST_BY_PEER)
        .filter_map(|_| kept.take(5, PAGE))
        .count();
    assert_eq!(one, MOST_BY_PEER as usize);
    assert!(kept.take(6, PAGE).is_some());
    let (mut few, _) = self::kept(16);
    let one = (0..20).filter_map(|_| few.take(5, PAGE)).count();
    assert_eq!(one, 14, "some are left to others");
    assert!(few.take(6, PAGE).is_some());
}

#[test]
fn what_came_back_by_flags_is_there_again_after_a_while() {
    let (mut kept, flags) = kept(8);
    let buffers: Vec<StagingBuffer> = (0..8).filter_map(|peer| kept.take(peer, PAGE)).collect();
    for buffer in buffers {
        assert!(flags.release(buffer.page, buffer.generation));
    }
    let tries = (0..100)
        .take_while(|_| kept.take(9, 4 * PAGE).is_none())
        .count();
    assert!(tries < 100);
}
