//! Data calls and control calls of a domain, which are never inside at the same time.

use std::sync::Arc;

use limic_shm::sync::modelled::prepare;
use loom::cell::UnsafeCell;
use loom::thread;

use crate::alone::Alone;
use crate::turns::Turns;

/// What turns alone protect: loom reports two who change it at once.
struct Number(UnsafeCell<u32>);

// SAFETY: it is changed in turns alone, and loom reports it where that does not hold.
unsafe impl Sync for Number {}

impl Number {
    fn add(&self) {
        // SAFETY: nobody else has a turn.
        self.0.with_mut(|number| unsafe { *number += 1 });
    }
}

struct Shared {
    turns: Turns,
    number: Number,
}

impl Shared {
    fn data(&self) {
        let _turn = self.turns.data();
        self.number.add();
    }

    fn control(&self) {
        let _turn = self.turns.control();
        self.number.add();
    }
}

/// So many data calls of one thread, beside a control call of each of so many others.
fn model(serial: bool, data: u32, controls: u32) {
    loom::model(move || {
        prepare();
        let shared = Arc::new(Shared {
            turns: Turns::new(serial),
            number: Number(UnsafeCell::new(0)),
        });
        let others: Vec<_> = (0..controls)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.control())
            })
            .collect();
        (0..data).for_each(|_| shared.data());
        for other in others {
            other.join().expect("it has had its turn");
        }
        let number = shared.number.0.with(|number| {
            // SAFETY: all others are done.
            unsafe { *number }
        });
        assert_eq!(number, data + controls);
    });
}

#[test]
fn serialised_data_calls_keep_a_control_call_out() {
    model(true, 2, 1);
}

#[test]
fn two_control_calls_and_a_serialised_data_call_exclude_each_other() {
    model(true, 1, 2);
}

#[test]
fn data_calls_that_take_the_lock_keep_a_control_call_out() {
    model(false, 2, 1);
}

/// A data call of one object, while that is bound to another one and a call about that follows.
#[test]
fn joined_turns_are_one() {
    loom::model(|| {
        prepare();
        let new = || Arc::new(Turns::new(false));
        let (domain, queue, endpoint) = (Turns::new(false), new(), new());
        let number = Arc::new(Number(UnsafeCell::new(0)));
        let other = {
            let (endpoint, number) = (Arc::clone(&endpoint), Arc::clone(&number));
            thread::spawn(move || {
                let _turn = endpoint.data();
                number.add();
            })
        };
        let objects = [Arc::clone(&queue), Arc::clone(&endpoint)];
        let alone = Alone::new(domain.control(), objects.into_iter());
        queue.join(&endpoint);
        number.add();
        drop(alone);
        let turn = queue.data();
        number.add();
        drop(turn);
        other.join().expect("it has had its turn");
    });
}
