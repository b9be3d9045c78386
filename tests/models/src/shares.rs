//! Who keeps an arena mapped, and who still has a share of it: the value ends once, after all that
//! was done with it.

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::thread_rc::ThreadRc;

/// Loom reports a look at it that is not ordered before its end.
struct Value {
    used: UnsafeCell<()>,
    /// Not loom's: how often it has ended is no part of what is ordered.
    ended: std::sync::Arc<AtomicUsize>,
}

impl Value {
    fn look(&self) {
        self.used.with(|_| ());
    }
}

// SAFETY: it is changed at its end alone, and loom reports who looks at the same time.
unsafe impl Sync for Value {}

impl Drop for Value {
    fn drop(&mut self) {
        self.used.with_mut(|_| ());
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is kept, and how often it has ended.
fn keeper() -> (ThreadRc<Value>, impl Fn() -> usize) {
    let ended = std::sync::Arc::new(AtomicUsize::new(0));
    let value = Value {
        used: UnsafeCell::new(()),
        ended: std::sync::Arc::clone(&ended),
    };
    (ThreadRc::new(value), move || ended.load(Ordering::Relaxed))
}

/// The next thread ends what two others have left to each other.
fn come_next() {
    drop(ThreadRc::new(Box::new(())));
}

#[test]
fn a_share_is_returned_elsewhere_while_its_keeper_goes() {
    loom::model(|| {
        let (mut keeper, ended) = keeper();
        let (here, there) = (keeper.share(), keeper.share());
        let other = thread::spawn(move || {
            there.look();
            drop(there);
        });
        here.look();
        drop(here);
        drop(keeper);
        other.join().expect("it returns a share");
        come_next();
        assert_eq!(ended(), 1);
    });
}

#[test]
fn two_shares_are_returned_on_two_threads_while_their_keeper_goes() {
    loom::model(|| {
        let (mut keeper, ended) = keeper();
        let others = [keeper.share(), keeper.share()].map(|share| {
            thread::spawn(move || {
                share.look();
                drop(share);
            })
        });
        drop(keeper);
        for other in others {
            other.join().expect("it returns a share");
        }
        come_next();
        assert_eq!(ended(), 1);
    });
}

#[test]
fn a_keeper_moves_while_a_share_is_returned_where_it_was() {
    loom::model(|| {
        let (mut keeper, ended) = keeper();
        let left = keeper.share();
        let other = thread::spawn(move || {
            // This thread counts if the share is back already, and the other one if not.
            let here = keeper.share();
            here.look();
            drop(here);
            drop(keeper);
        });
        left.look();
        drop(left);
        other.join().expect("it ends the keeper");
        come_next();
        assert_eq!(ended(), 1);
    });
}

#[test]
fn two_keepers_go_at_once_and_each_value_ends_once() {
    loom::model(|| {
        let ((mut one, of_one), (mut two, of_two)) = (keeper(), keeper());
        let share = Arc::new(one.share());
        let of_both = Arc::clone(&share);
        let other = thread::spawn(move || {
            drop(two.share());
            drop(two);
            of_both.look();
            drop(of_both);
        });
        drop(one);
        share.look();
        drop(share);
        other.join().expect("it ends its own");
        come_next();
        assert_eq!((of_one(), of_two()), (1, 1));
    });
}
