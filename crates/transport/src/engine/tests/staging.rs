//! Staging buffers that pass between two endpoints.

use limic_policy::Path;
use limic_policy::select::LONGEST_RECYCLED;
use limic_pools::staging::{IDLE_LOOKS, Lease, MOST_BY_PEER};
use limic_records::{self as frame, ControlRecord};

use super::{is_over, meet, open_fragmenting, open_with, post, post_receive, tags, turn, turns};
use crate::Peer;
use crate::engine::Engine;
use crate::raw::Posted;

/// Two endpoints that have met, and move messages as two processes would; the number of each at the
/// other.
fn pair() -> (Engine, Engine, u32, u32) {
    meet(open_fragmenting(128), open_fragmenting(128))
}

/// One message of so many bytes, received where it was posted.
fn pass(from: &mut Engine, to: u32, other: &mut Engine, source: u32, len: usize, fill: u8) {
    let data = vec![fill; len];
    let mut room = vec![0; len];
    // SAFETY: both are done when this returns, or the test fails.
    let (receive, send) = unsafe {
        let receive = post_receive(other, (Peer(source), 1), &mut room);
        (receive, post(from, to, 1, &data))
    };
    for _ in 0..10_000 {
        turn(&mut [from, other]);
        if is_over(from, &send) && is_over(other, &receive) {
            assert_eq!(room, data);
            return;
        }
    }
    panic!("{len} bytes do not arrive");
}

fn kept(engines: [&Engine; 2]) -> u32 {
    engines
        .map(|engine| engine.cx.staging.recycled.kept().sum::<u32>())
        .iter()
        .sum()
}

#[test]
fn answers_go_in_the_buffers_in_which_messages_came() {
    for (len, pages) in [(1 << 10, 1), (6 << 10, 2), (64 << 10, 16)] {
        let (mut a, mut b, of_b, of_a) = pair();
        for round in 0..50 {
            pass(&mut a, of_b, &mut b, of_a, len, round);
            pass(&mut b, of_a, &mut a, of_b, len, 100 + round);
            // Those of the first messages may stay when a longer buffer is needed.
            let most = if round == 0 { pages } else { 2 * pages };
            assert!(
                (1..=most).contains(&kept([&a, &b])),
                "{len}: {}",
                kept([&a, &b])
            );
        }
    }
}

/// How many messages went without asking.
pub(super) fn eager(engine: &Engine) -> u64 {
    let counters = engine.cx.counters.page().counters;
    let of_path = counters
        .sent_paths
        .iter()
        .find(|(path, _)| *path == Path::EagerFragments);
    of_path.map_or(0, |(_, traffic)| traffic.messages)
}

#[test]
fn answers_do_not_ask_even_if_they_are_long() {
    let len = LONGEST_RECYCLED as usize;
    let (mut a, mut b, of_b, of_a) = pair();
    for round in 0..10 {
        pass(&mut a, of_b, &mut b, of_a, len, round);
    }
    assert_eq!(eager(&a), 0, "nobody answers");
    for round in 0..10 {
        pass(&mut b, of_a, &mut a, of_b, len, 100 + round);
        pass(&mut a, of_b, &mut b, of_a, len, round);
    }
    assert!(
        eager(&a) >= 8 && eager(&b) >= 8,
        "{} {}",
        eager(&a),
        eager(&b)
    );
    let before = eager(&a);
    pass(&mut b, of_a, &mut a, of_b, len + 1, 1);
    pass(&mut a, of_b, &mut b, of_a, len + 1, 1);
    assert_eq!(eager(&a), before);
}

#[test]
fn a_long_answer_for_which_nobody_waits_is_not_repeated_at_once() {
    let len = LONGEST_RECYCLED as usize / 2;
    let (mut a, mut b, of_b, of_a) = pair();
    let exchange = |a: &mut Engine, b: &mut Engine, rounds| {
        for round in 0..rounds {
            pass(a, of_b, b, of_a, len, round);
            pass(b, of_a, a, of_b, len, 100 + round);
        }
    };
    exchange(&mut a, &mut b, 10);
    let before = eager(&a);
    assert!(before > 0);
    let data = vec![5; len];
    // SAFETY: it is done when the turns are over, or the test fails.
    let sent = unsafe { post(&mut a, of_b, 7, &data) };
    assert!(matches!(sent, Posted::Done(Ok(_))), "{sent:?}");
    turns(100, &mut [&mut a, &mut b]);
    assert_eq!(tags(&mut b, of_a), [7]);
    assert_eq!(eager(&a), before + 1);
    exchange(&mut a, &mut b, 10);
    assert!(eager(&a) <= before + 2, "{} {before}", eager(&a));
    exchange(&mut a, &mut b, 80);
    assert!(eager(&a) >= before + 20, "{} {before}", eager(&a));
}

#[test]
fn who_wants_long_messages_to_be_asked_for_is_asked() {
    let open = || open_with(|settings| settings.eager_max(32 << 10));
    let (mut a, mut b, of_b, of_a) = meet(open(), open());
    for round in 0..10 {
        pass(&mut a, of_b, &mut b, of_a, 128 << 10, round);
        pass(&mut b, of_a, &mut a, of_b, 128 << 10, round);
    }
    assert_eq!((eager(&a), eager(&b)), (0, 0));
}

#[test]
fn messages_of_several_lengths_keep_each_to_its_own_buffers() {
    let (mut a, mut b, of_b, of_a) = pair();
    let mut exchange = |rounds| {
        for len in (0..rounds).flat_map(|_| [9 << 10, 40 << 10, 1 << 10, 15 << 10]) {
            pass(&mut a, of_b, &mut b, of_a, len, 1);
            pass(&mut b, of_a, &mut a, of_b, len, 2);
        }
        kept([&a, &b])
    };
    let after_some = exchange(10);
    // Pages of one of each, those for the first messages of either side, and halves of a buffer
    // that was too long.
    assert!(after_some <= 2 * (3 + 10 + 1 + 4), "{after_some}");
    assert_eq!(exchange(100), after_some);
}

#[test]
fn a_stream_in_one_direction_keeps_nothing() {
    let (mut a, mut b, of_b, of_a) = pair();
    for round in 0..50 {
        pass(&mut a, of_b, &mut b, of_a, 1 << 10, round);
        pass(&mut a, of_b, &mut b, of_a, 20 << 10, round);
    }
    assert_eq!(kept([&a, &b]), 0);
}

#[test]
fn what_is_not_used_any_more_goes_back() {
    let (mut a, mut b, of_b, of_a) = pair();
    let exchange = |a: &mut Engine, b: &mut Engine| {
        pass(a, of_b, b, of_a, 16 << 10, 1);
        pass(b, of_a, a, of_b, 16 << 10, 2);
    };
    exchange(&mut a, &mut b);
    assert!(kept([&a, &b]) > 0);
    for look in 0..4 * IDLE_LOOKS {
        a.give_back_idle(look);
        b.give_back_idle(look);
        if look < IDLE_LOOKS / 2 {
            exchange(&mut a, &mut b);
            assert!(kept([&a, &b]) > 0, "it is used at look {look}");
        }
    }
    assert_eq!(kept([&a, &b]), 0);
    exchange(&mut a, &mut b);
}

#[test]
fn short_buffers_make_room_for_longer_ones() {
    let (mut a, mut b, of_b, of_a) = pair();
    // As many as a may keep, all of them in its hand: b sends as many as it got, and a does not
    // answer.
    for _ in 0..2 * MOST_BY_PEER {
        pass(&mut a, of_b, &mut b, of_a, 1 << 10, 1);
    }
    for _ in 0..2 * MOST_BY_PEER {
        pass(&mut b, of_a, &mut a, of_b, 1 << 10, 2);
    }
    assert_eq!(b.cx.staging.recycled.kept().max().unwrap_or(0), 1);
    assert!(
        b.cx.staging.recycled.take(of_a, 8 << 10).is_none(),
        "no room"
    );
    // Nor has a any room.
    while a.cx.staging.recycled.take(of_b, 4 << 10).is_some() {}
    for round in 0..200 {
        pass(&mut a, of_b, &mut b, of_a, 32 << 10, round);
        pass(&mut b, of_a, &mut a, of_b, 32 << 10, round);
    }
    assert!(b.cx.staging.recycled.kept().max().unwrap_or(0) > 1);
}

#[test]
fn long_buffers_make_room_for_those_of_another_length() {
    let (mut a, mut b, of_b, of_a) = pair();
    let mut exchange = |rounds, len| {
        for round in 0..rounds {
            pass(&mut a, of_b, &mut b, of_a, len, round);
            pass(&mut b, of_a, &mut a, of_b, len, 100 + round);
        }
        let of_length = |pages| {
            [&a, &b].map(|engine| {
                let kept = engine.cx.staging.recycled.kept();
                kept.filter(|kept| *kept == pages).count()
            })
        };
        [of_length(3), of_length(8)].map(|[of_a, of_b]| of_a + of_b)
    };
    // As much as each may keep, in buffers of four and of eight pages.
    let [short, long] = exchange(20, LONGEST_RECYCLED as usize);
    assert_eq!(short, 0);
    for _ in 0..5 {
        let [short, left] = exchange(20, 3 * 4096);
        assert!(short > 0, "messages of three pages have no buffer");
        assert!(
            left + 4 > long,
            "{left} of {long} are left, more went than were needed"
        );
        exchange(20, LONGEST_RECYCLED as usize);
    }
}

#[test]
fn who_names_buffers_that_are_not_there_fails() {
    let whole = |page: u32, len: u64, lease: u64| {
        let words = [u64::from(page) | 1 << 32, lease | len];
        ControlRecord::new(frame::EAGER_STAGED, 1, words)
    };
    let lent = (Lease::Borrowed as u64) << 32;
    let back = (Lease::Returned as u64) << 32;
    let keep = |pages: u64| (Lease::Transferred as u64) << 32 | pages << 40;
    let next = ControlRecord::new(frame::FRAGMENT_STAGED, 0, [1 << 32, keep(1) | 64]);
    for (what, control) in [
        ("a way that there is not", whole(0, 64, 3 << 32)),
        ("a buffer that it does not keep", whole(0, 64, back)),
        ("a page beyond all", whole(u32::MAX, 64, back)),
        ("no pages", whole(0, 64, keep(0))),
        ("more bytes than the pages have", whole(0, 4097, keep(1))),
        ("more pages than the pool has", whole(0, 64, keep(1 << 20))),
        (
            "as many as a number names",
            whole(0, 64, keep((1 << 24) - 1)),
        ),
        ("a page beyond the pool", whole(1 << 30, 64, keep(1))),
        ("a buffer of no message", next),
        ("bytes of no length", whole(0, u32::MAX.into(), lent)),
    ] {
        let (mut victim, mut peer, of_peer, of_victim) = pair();
        let pair = peer.cx.peers.pair(of_victim).expect("attached");
        assert!(pair.out.push_control(&control));
        turns(10, &mut [&mut victim]);
        assert!(!victim.cx.peers.is_alive(of_peer), "{what}");
    }
}

#[test]
fn a_buffer_comes_back_once() {
    let (mut a, mut b, of_b, of_a) = pair();
    pass(&mut a, of_b, &mut b, of_a, 1 << 10, 1);
    pass(&mut b, of_a, &mut a, of_b, 1 << 10, 2);
    // It is b's, and in a's hand.
    assert_eq!(b.cx.staging.recycled.kept().sum::<u32>(), 1);
    let pair = a.cx.peers.pair(of_b).expect("attached");
    let (pool, out) = (&mut a.cx.staging, &mut pair.out);
    let target = pair.staging.recycled_target(pool, out, of_b, 64);
    let descriptor = target.expect("a buffer").descriptor(64);
    assert_eq!(descriptor.lease(), Some(Lease::Returned));
    for tag in [7, 8] {
        let control = ControlRecord::new(frame::EAGER_STAGED, tag, descriptor.words());
        assert!(pair.out.push_control(&control));
    }
    turns(10, &mut [&mut b]);
    assert_eq!(tags(&mut b, of_a), [7]);
    assert!(!b.cx.peers.is_alive(of_a));
    b.cx.staging.forget_peer(of_a);
    assert_eq!(b.cx.staging.recycled.kept().sum::<u32>(), 0);
}
