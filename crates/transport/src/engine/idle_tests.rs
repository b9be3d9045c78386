use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::test_peers::{accessed_region, meet, open, send};
use super::*;

/// Whether the descriptor of a poll loop becomes readable within so many seconds.
fn becomes_readable(engine: &Engine, seconds: i64) -> bool {
    let mut fds = [PollFd::new(&engine.core.events, PollFlags::IN)];
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&time)).expect("poll") > 0
}

#[test]
fn who_polls_the_descriptor_is_rung() {
    let (mut a, mut b) = (open(1), open(1));
    let (of_b, _) = meet(&mut a, &mut b);
    while !b.arm_for_poll() {}
    // Its own look around would make it readable too.
    b.core
        .set_timer(Duration::from_secs(3600))
        .expect("a timer");
    assert!(!becomes_readable(&b, 0), "nothing has happened");
    send(&mut a, of_b, 1);
    assert!(becomes_readable(&b, 0), "nobody has rung");
}

#[test]
fn who_polls_the_descriptor_looks_around_though_nobody_rings() {
    let mut engine = open(1);
    while !engine.arm_for_poll() {}
    assert!(becomes_readable(&engine, 60), "it sleeps for ever");
}

#[test]
fn who_takes_a_region_back_looks_soon_whether_an_access_is_over() {
    let (mut owner, mut peer) = (open(1), open(1));
    let (of_peer, _) = meet(&mut owner, &mut peer);
    let (region, end_access) = accessed_region(&mut owner, of_peer);
    assert_eq!(owner.core.must_look_after(), None);
    owner.core.start_revoke(region).expect("a region");
    assert_eq!(owner.core.revoked(region), Ok(None));
    assert_eq!(owner.core.must_look_after(), Some(BLOCKED));
    end_access();
    assert!(owner.core.revoked(region).expect("a region").is_some());
    assert_eq!(owner.core.must_look_after(), None);
}
