//! An endpoint sleeps, and is woken up.

use core::time::Duration;

use limic_policy::{Path, PathSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

use super::{
    accessed_region, attach_both, meet, met, open, open_with, send, tags, wait_for,
    with_private_ring,
};
use crate::engine::Engine;
use crate::engine::control::autotune::autotuned;
use crate::engine::control::spins;
use crate::engine::peer::sockets::TIMER;
use crate::engine::progress::work;
use crate::engine::protocol::regions;
use crate::settings::{Spin, is_oversubscribed};

/// Whether the descriptor of a poll loop becomes readable within so many seconds.
fn becomes_readable(engine: &Engine, seconds: i64) -> bool {
    let mut fds = [PollFd::new(engine.cx.sockets.events(), PollFlags::IN)];
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&time)).expect("poll") > 0
}

#[test]
fn who_polls_the_descriptor_is_rung() {
    let (mut a, mut b, of_b, _) = met(1);
    wait_for(|| b.arm_for_poll());
    // Its own look around would make it readable too.
    let (wakeup, events) = (&mut b.cx.wakeup, b.cx.sockets.events());
    let hour = Duration::from_secs(3600);
    wakeup.set_timer(events, TIMER, hour).expect("a timer");
    assert!(!becomes_readable(&b, 0), "nothing has happened");
    send(&mut a, of_b, 1);
    assert!(becomes_readable(&b, 0), "nobody has rung");
}

#[test]
fn who_waits_for_a_receipt_is_rung() {
    let (mut a, mut b, of_b, of_a) = met(1);
    with_private_ring(&mut b, of_a, &mut a);
    wait_for(|| b.arm_for_poll());
    let (wakeup, events) = (&mut b.cx.wakeup, b.cx.sockets.events());
    let hour = Duration::from_secs(3600);
    wakeup.set_timer(events, TIMER, hour).expect("a timer");
    assert!(!becomes_readable(&b, 0), "nothing has happened");
    a.give_receipt(of_b, 1);
    assert!(becomes_readable(&b, 0), "nobody has rung");
    assert_eq!(b.receipt_of(of_a), 1);
}

#[test]
fn who_polls_the_descriptor_looks_around_though_nobody_rings() {
    let mut engine = open(1);
    wait_for(|| engine.arm_for_poll());
    assert!(becomes_readable(&engine, 60), "it sleeps for ever");
}

#[test]
fn an_endpoint_whose_bell_a_peer_has_shut_down_sleeps_and_misses_nothing() {
    let (mut a, mut b, of_b, at_b) = met(1);
    shutdown(b.cx.sockets.doorbell().for_peers(), Shutdown::Both).expect("a socket");
    b.poll_sockets();
    wait_for(|| b.arm_for_poll());
    let (wakeup, events) = (&mut b.cx.wakeup, b.cx.sockets.events());
    let hour = Duration::from_secs(3600);
    wakeup.set_timer(events, TIMER, hour).expect("a timer");
    assert!(!becomes_readable(&b, 0), "it is awake for ever");
    assert_eq!(work::longest_sleep(&b.cx), Some(work::BLOCKED));
    send(&mut a, of_b, 1);
    b.sleep(None);
    b.progress();
    assert_eq!(tags(&mut b, at_b), [1]);
}

#[test]
fn who_takes_a_region_back_looks_soon_whether_an_access_is_over() {
    let (mut owner, mut peer) = (open(1), open(1));
    attach_both(&mut owner, &mut peer);
    let (region, end_access) = accessed_region(&mut owner, &peer);
    assert_eq!(work::longest_sleep(&owner.cx), None);
    let segment = &owner.cx.memory.segment;
    let revoked = owner.cx.regions.start_revoke(segment, region);
    revoked.expect("a region");
    assert_eq!(regions::revoked(&mut owner.cx, region), Ok(None));
    assert_eq!(work::longest_sleep(&owner.cx), Some(work::BLOCKED));
    end_access();
    let memory = regions::revoked(&mut owner.cx, region).expect("a region");
    assert!(memory.is_some());
    assert_eq!(work::longest_sleep(&owner.cx), None);
}

#[test]
fn an_endpoint_that_hardly_polls_has_a_processor_all_the_same() {
    let hardly = open_with(|settings| settings.spin(Spin::For(Duration::ZERO)));
    let (mut one, ..) = meet(hardly, open(1));
    spins::update_spins(&mut one.cx);
    assert_eq!(one.cx.wakeup.spins(), 0);
    // They have, unless the machine has one processor.
    assert_eq!(one.cx.wakeup.is_oversubscribed(), is_oversubscribed(2));
}

/// Whatever the machine has beside that.
#[test]
fn endpoints_that_have_fewer_processors_than_they_are_give_way() {
    let (mut one, _other, other, _) = met(1);
    let few = |cpus: &str| cpus.parse().expect("a list of CPUs");
    let neighbours = &mut one.cx.peers.neighbours;
    neighbours.confine(few("3"));
    assert!(!neighbours.is_crowded(), "two endpoints of one process");
    neighbours.runs_on(i32::MAX, Some(&few("3")));
    for (cpus, crowded) in [("3", true), ("3-4", false), ("3", true)] {
        neighbours.confine(few(cpus));
        assert_eq!(neighbours.is_crowded(), crowded, "{cpus}");
    }
    let is_measured = |one: &mut Engine| {
        let paths = PathSet::from_iter([Path::Pipeline, Path::Cma]);
        let (_, sample) = autotuned(&mut one.cx, other, 1 << 20, Path::Pipeline, paths);
        sample.is_some()
    };
    assert!(is_measured(&mut one));
    spins::update_spins(&mut one.cx);
    assert!(one.cx.wakeup.is_oversubscribed());
    assert!(!is_measured(&mut one), "it would measure who runs when");
}
