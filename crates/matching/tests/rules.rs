//! One test per rule of matching, as a user of the crate sees it.
#![cfg(feature = "alloc")]

use limic_matching::{Envelope, Full, HeapMatcher, Selector, Source};

const EXACT: u64 = !0;
/// Entries between those that a test is about: none, scanned only, indexed.
const DEPTHS: [u32; 3] = if cfg!(miri) { [0, 1, 4] } else { [0, 1, 20] };
/// What a matcher has room for at first.
const ROOM: usize = if cfg!(miri) { 64 } else { 256 };
/// Bits of the tags of ballast that masks keep or drop.
const HIGH: u64 = 0x5a5a << 32;

fn is(source: u32, tag: u64, mask: u64) -> Selector {
    Selector {
        source: Source::Is(source),
        tag,
        mask,
    }
}

fn any(tag: u64, mask: u64) -> Selector {
    Selector {
        source: Source::Any,
        tag,
        mask,
    }
}

fn message(source: u32, tag: u64) -> Envelope {
    Envelope { source, tag }
}

fn matcher() -> HeapMatcher {
    HeapMatcher::with_capacity(ROOM, ROOM).expect("memory")
}

/// Entries that fit nothing, so that what comes before and after them is in the indexes and not
/// only scanned.
fn ballast(matcher: &mut HeapMatcher, count: u32) {
    for n in 0..count {
        let tag = HIGH | u64::from(n) << 8 | 0xff;
        matcher.post(&is(9, tag, EXACT), 1000 + n).expect("room");
        matcher
            .push_unexpected(&message(8, tag), 1000 + n)
            .expect("room");
    }
}

#[test]
fn a_message_takes_the_oldest_receive_of_any_kind() {
    let kinds = [
        is(1, 5, EXACT),
        any(5, EXACT),
        is(1, 0, 0),
        any(0, 0),
        is(1, 0x105, !0x100),
    ];
    for depth in DEPTHS {
        for first in 0..kinds.len() {
            let mut matcher = matcher();
            for n in 0..kinds.len() {
                ballast(&mut matcher, depth);
                let kind = (first + n) % kinds.len();
                matcher.post(&kinds[kind], kind as u32).expect("room");
            }
            ballast(&mut matcher, depth);
            for n in 0..kinds.len() {
                let kind = (first + n) % kinds.len();
                assert_eq!(matcher.take_posted(&message(1, 5)), Some(kind as u32));
            }
            assert_eq!(matcher.take_posted(&message(1, 5)), None);
        }
    }
}

#[test]
fn a_receive_takes_the_oldest_message_that_fits() {
    for depth in DEPTHS {
        let mut matcher = matcher();
        for (token, (source, tag)) in [(1, 5), (2, 5), (1, 6), (1, 5)].into_iter().enumerate() {
            ballast(&mut matcher, depth);
            matcher
                .push_unexpected(&message(source, tag), token as u32)
                .expect("room");
        }
        ballast(&mut matcher, depth);
        assert_eq!(
            matcher.take_unexpected(&is(1, 6, EXACT)),
            Some((message(1, 6), 2))
        );
        assert_eq!(
            matcher.take_unexpected(&is(2, 0, 0)),
            Some((message(2, 5), 1))
        );
        assert_eq!(
            matcher.take_unexpected(&any(5, EXACT)),
            Some((message(1, 5), 0))
        );
        assert_eq!(
            matcher.take_unexpected(&any(5, 0xff)),
            Some((message(1, 5), 3))
        );
        assert_eq!(matcher.take_unexpected(&any(5, EXACT)), None);
    }
}

#[test]
fn a_probe_leaves_the_message() {
    let mut matcher = matcher();
    assert_eq!(matcher.probe(&any(0, 0)), None);
    matcher.push_unexpected(&message(1, 5), 7).expect("room");
    for _ in 0..3 {
        assert_eq!(matcher.probe(&is(1, 5, EXACT)), Some((message(1, 5), 7)));
        assert_eq!(matcher.probe(&is(1, 6, EXACT)), None);
    }
    assert_eq!(matcher.unexpected_len(), 1);
    assert_eq!(
        matcher.take_unexpected(&any(0, 0)),
        Some((message(1, 5), 7))
    );
}

#[test]
fn ids_are_stale_once_their_entry_is_gone() {
    let mut matcher = matcher();
    let first = matcher.post(&is(1, 5, EXACT), 1).expect("room");
    assert_eq!(matcher.take_posted(&message(1, 5)), Some(1));
    let second = matcher.post(&is(1, 5, EXACT), 2).expect("room");
    assert_eq!(
        matcher.cancel_posted(first),
        None,
        "its slot is in use again"
    );
    assert_eq!(matcher.cancel_posted(second), Some(2));
    assert_eq!(matcher.cancel_posted(second), None);

    let first = matcher.push_unexpected(&message(1, 5), 3).expect("room");
    assert_eq!(matcher.remove_unexpected(first), Some(3));
    let second = matcher.push_unexpected(&message(1, 5), 4).expect("room");
    assert_eq!(matcher.remove_unexpected(first), None);
    assert_eq!(matcher.remove_unexpected(second), Some(4));
    assert_eq!((matcher.posted_len(), matcher.unexpected_len()), (0, 0));

    let mut other = HeapMatcher::new();
    assert_eq!(
        other.cancel_posted(first_id(&mut matcher)),
        None,
        "an id of another matcher"
    );
}

fn first_id(matcher: &mut HeapMatcher) -> limic_matching::PostedId {
    matcher.post(&any(0, 0), 1).expect("room")
}

#[test]
fn full_changes_nothing_and_reserve_keeps_order_and_ids() {
    let mut matcher = HeapMatcher::new();
    assert_eq!(
        matcher.post(&any(0, 0), 0),
        Err(Full::Posted { capacity: 0 })
    );
    let full = matcher.push_unexpected(&message(0, 0), 0);
    assert_eq!(full, Err(Full::Unexpected { capacity: 0 }));

    let mut ids = Vec::new();
    for token in 0..200 {
        if matcher.posted_len() == matcher.posted_capacity() {
            let capacity = matcher.posted_capacity();
            assert_eq!(matcher.post(&any(0, 0), 0), Err(Full::Posted { capacity }));
            assert_eq!(matcher.posted_len(), capacity);
            matcher.reserve(1, 1).expect("memory");
        }
        // 100 masks: more than there are classes.
        let selector = is(token % 3, 7, !(u64::from(token % 100) << 8));
        ids.push(matcher.post(&selector, token).expect("room"));
    }
    assert_eq!(matcher.cancel_posted(ids[50]), Some(50));
    for token in (0..200).filter(|token| *token != 50) {
        assert_eq!(matcher.take_posted(&message(token % 3, 7)), Some(token));
    }
}

#[test]
fn receives_of_a_failed_peer_come_out_in_the_order_of_posting() {
    let mut matcher = matcher();
    let posted = [
        is(1, 1, EXACT),
        any(1, EXACT),
        is(2, 1, EXACT),
        is(1, 0, 0),
        any(0, 0),
    ];
    for (token, selector) in posted.iter().enumerate() {
        matcher.post(selector, token as u32).expect("room");
    }
    let mut drained = Vec::new();
    matcher.drain_posted(Source::Is(1), |selector, token| {
        drained.push((selector, token))
    });
    assert_eq!(drained, [(posted[0], 0), (posted[3], 3)]);
    drained.clear();
    matcher.drain_posted(Source::Any, |selector, token| {
        drained.push((selector, token))
    });
    assert_eq!(drained, [(posted[1], 1), (posted[4], 4)]);
    assert_eq!(matcher.take_posted(&message(2, 1)), Some(2));
}

#[test]
fn masks_that_come_and_go_for_ever_stay_correct() {
    let mut matcher = matcher();
    ballast(&mut matcher, 20);
    // Under Miri the classes do not come to be idle, and their receives scan.
    let (rounds, idle) = if cfg!(miri) { (3, 3) } else { (60, 1500) };
    for round in 0..rounds {
        let mask = 0xffff | round << 32;
        // Long enough for the classes of earlier rounds to count as idle, so that their places are
        // taken.
        for _ in 0..idle {
            assert_eq!(matcher.probe(&is(1, 5, mask)), None);
        }
        matcher.push_unexpected(&message(1, 5), 1).expect("room");
        matcher.push_unexpected(&message(1, 5), 2).expect("room");
        assert_eq!(
            matcher.take_unexpected(&any(5, mask)),
            Some((message(1, 5), 1))
        );
        assert_eq!(
            matcher.take_unexpected(&is(1, 5, mask)),
            Some((message(1, 5), 2))
        );
        // Those that stayed in the queue while classes changed are all found, and come back at its
        // end.
        for n in 0..20 {
            let nth = u64::from((n * 7 + round as u32) % 20);
            let waiting = message(8, HIGH | nth << 8 | 0xff);
            let found = matcher.take_unexpected(&is(8, waiting.tag, mask));
            assert_eq!(
                found.map(|(envelope, _)| envelope),
                Some(waiting),
                "round {round}"
            );
            if n % 3 == 0 {
                assert_eq!(matcher.take_unexpected(&is(8, waiting.tag, mask)), None);
            }
            matcher.push_unexpected(&waiting, n).expect("room");
        }
    }
    assert_eq!(matcher.unexpected_len(), 20);
}

#[test]
fn errors_say_what_to_do() {
    let text = Full::Posted { capacity: 64 }.to_string();
    assert_eq!(
        text,
        "the table of posted receives is full at 64 entries: reserve more, or match some"
    );
}

#[test]
fn a_staying_receive_keeps_its_place_until_it_is_cancelled() {
    for depth in DEPTHS {
        let mut matcher = matcher();
        matcher.post(&any(7, EXACT), 1).expect("room");
        ballast(&mut matcher, depth);
        let staying = matcher.post_staying(&any(7, EXACT), 2).expect("room");
        ballast(&mut matcher, depth);
        matcher.post(&is(3, 7, EXACT), 3).expect("room");
        let find = |matcher: &mut HeapMatcher| matcher.take_posted(&message(3, 7));
        assert_eq!(find(&mut matcher), Some(1), "the older one comes first");
        for _ in 0..3 {
            assert_eq!(find(&mut matcher), Some(2));
        }
        // The tables are built anew.
        matcher.reserve(4 * ROOM, 0).expect("memory");
        for _ in 0..3 {
            assert_eq!(find(&mut matcher), Some(2));
        }
        assert_eq!(matcher.cancel_posted(staying), Some(2));
        assert_eq!(find(&mut matcher), Some(3));
        assert_eq!(find(&mut matcher), None);
    }
}
