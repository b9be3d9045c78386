//! Turns of threads that take them at once, and in forked children.

use core::cell::Cell;

use super::*;
use crate::alone::Alone;
use crate::child::{beside, holds_in_child};

/// A number that only turns protect.
struct Shared {
    turns: Turns,
    number: Cell<u64>,
}

// SAFETY: the number is touched in turns alone.
unsafe impl Sync for Shared {}

fn add(number: &Cell<u64>) {
    let before = number.get();
    std::hint::black_box(&number);
    number.set(before + 1);
}

#[test]
fn control_calls_of_any_thread_and_data_calls_exclude_each_other() {
    const EACH: u64 = 20_000;
    for serial in [true, false] {
        let shared = Shared {
            turns: Turns::new(serial),
            number: Cell::new(0),
        };
        // What threads share.
        let shared = &shared;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let _turn = shared.turns.control();
                        add(&shared.number);
                    }
                });
            }
            // Data calls of one thread alone, which is what serialised ones are like.
            for _ in 0..100 * EACH {
                let _turn = shared.turns.data();
                add(&shared.number);
            }
        });
        assert_eq!(shared.number.get(), 102 * EACH);
    }
}

/// Data calls of several threads that take the lock, each its own turns until they are joined.
#[test]
fn data_calls_of_joined_turns_exclude_each_other() {
    const EACH: u64 = 20_000;
    let domain = Turns::new(false);
    let all: Vec<_> = (0..3).map(|_| Arc::new(Turns::new(false))).collect();
    let shared = Shared {
        turns: Turns::new(false),
        number: Cell::new(0),
    };
    // What threads share.
    let (shared, start) = (&shared, &std::sync::Barrier::new(all.len() + 1));
    std::thread::scope(|scope| {
        for turns in &all {
            scope.spawn(move || {
                for _ in 0..EACH {
                    drop(turns.data());
                }
                start.wait();
                for _ in 0..EACH {
                    let _turn = turns.data();
                    add(&shared.number);
                }
            });
        }
        // While they take them.
        for two in all.windows(2) {
            let alone = Alone::new(domain.control(), all.iter().map(Arc::clone));
            two[0].join(&two[1]);
            drop(alone);
        }
        start.wait();
        for _ in 0..EACH {
            let _turn = all[2].control();
            add(&shared.number);
        }
    });
    assert_eq!(shared.number.get(), 4 * EACH);
}

/// A queue that stays, while endpoints with another queue each come and go.
#[test]
fn ways_to_joined_turns_stay_short() {
    let new = || Arc::new(Turns::new(false));
    let stays = new();
    for round in 0..1000 {
        let (endpoint, goes) = (new(), new());
        let order = if round % 2 == 0 {
            [&stays, &goes]
        } else {
            [&goes, &stays]
        };
        order.into_iter().for_each(|queue| queue.join(&endpoint));
        assert!(Arc::ptr_eq(endpoint.root(), stays.root()));
        assert!(Arc::ptr_eq(endpoint.root(), goes.root()));
    }
    let steps = core::iter::successors(Some(&stays), |turns| turns.joined.get()).count();
    assert!(steps <= 3, "{steps}");
}

/// In each of them the call ends, and not by waiting.
#[test]
fn a_forked_child_waits_for_no_call_of_another_thread() {
    let ends = |call: &dyn Fn()| limic_ffi::guard(call).is_err();
    for serial in [true, false] {
        let turns = &Turns::new(serial);
        let data = || drop(turns.data());
        let control = || drop(turns.control());
        let in_data = |stay: &dyn Fn()| {
            let _turn = turns.data();
            stay();
        };
        let in_control = |stay: &dyn Fn()| {
            let _turn = turns.control();
            stay();
        };
        assert!(beside(in_data, || holds_in_child(|| ends(&control))));
        assert!(beside(in_control, || {
            holds_in_child(|| ends(&control) && ends(&data))
        }));
        assert!(holds_in_child(|| !ends(&control) && !ends(&data)));
    }
}

#[test]
fn a_call_that_stays_is_not_waited_for() {
    const PATIENCE: Duration = Duration::from_millis(10);
    for serial in [true, false] {
        let turns = Turns::new(serial);
        let inside = turns.data();
        assert!(turns.control_soon(PATIENCE).is_none());
        drop(inside);
        let alone = turns.control_soon(PATIENCE).expect("nobody is inside");
        assert!(turns.control_soon(PATIENCE).is_none());
        drop(alone);
        drop(turns.data());
    }
}
