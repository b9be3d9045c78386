//! A process that is short of descriptors. The limit is the whole process's, so this test has one
//! of its own.

mod side;

use core::time::Duration;
use std::time::Instant;

use limic_fabric::Fabric;
use rustix::process::{Resource, getrlimit, setrlimit};
use side::{Side, meet_after_all, until};

/// A call was turned away, and no descriptor is free when it is made anew: it waits for one, as a
/// first call does.
#[test]
fn a_call_that_is_made_anew_waits_for_a_descriptor() {
    let (mut a, mut b) = (Side::open(1), Side::with(2, Duration::from_millis(200)));
    let there = a.call(&b);
    until("the end of patience", &mut [&mut b], |sides| {
        sides[0].fabric.counts().refused == 1
    });
    let before = getrlimit(Resource::Nofile);
    let mut none = before;
    none.current = Some(0);
    setrlimit(Resource::Nofile, none).expect("less is allowed");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        a.progress();
    }
    setrlimit(Resource::Nofile, before).expect("what was allowed before");
    assert_eq!(a.failed, []);
    meet_after_all(&mut a, &mut b, there);
}
