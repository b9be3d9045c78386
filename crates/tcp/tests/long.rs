//! Long messages go part by part, and who reads nothing costs its sender nothing.

mod side;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use limic_fabric::{Fabric, SendRefused};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use side::{met, until};

/// The longest message of the network.
const LEN: usize = 1 << 20;
/// How long a message may be on its way.
const WATCHDOG: Duration = Duration::from_secs(60);

fn content(number: u64) -> Vec<u8> {
    (0..LEN as u64 / 8)
        .flat_map(|at| (at ^ number << 32).to_le_bytes())
        .collect()
}

/// The receiver does not read until its sender cannot go on.
#[test]
fn long_messages_wait_where_they_are_and_nothing_overtakes_them() {
    let (mut a, mut b, there) = met();
    let mut sent = 0;
    let mut at = loop {
        let begun = a.begin(there, (sent, LEN), &content(sent));
        sent += 1;
        match begun.expect("the one before is gone") {
            LEN => {}
            part => break part,
        }
    };
    assert_eq!(a.begin(there, (sent, LEN), &[]), Err(SendRefused::Later));
    assert_eq!(a.send(there, sent, b"short"), Err(SendRefused::Later));
    let last = content(sent - 1);
    let start = Instant::now();
    while at < LEN {
        assert!(start.elapsed() < WATCHDOG, "the rest never went");
        a.progress();
        b.progress();
        at += a.go_on(there, &last[at..]);
    }
    a.send(there, sent, b"short").expect("nothing is before it");
    until("everything", &mut [&mut a, &mut b], |sides| {
        sides[1].came.len() as u64 == sent + 1
    });
    let (_, _, tag, bytes) = b.came.pop().expect("one");
    assert_eq!((tag, &bytes[..]), (sent, &b"short"[..]));
    for (number, (_, _, tag, bytes)) in (0..).zip(&b.came) {
        assert!(*tag == number && *bytes == content(number), "{number}");
    }
}

/// What is held back and let go meanwhile is no reason to take a full socket for one with room.
#[test]
fn a_full_socket_stays_full_until_the_kernel_says_otherwise() {
    let (mut a, mut b, there) = met();
    let (mut sent, mut at) = (0, LEN);
    while at == LEN {
        at = a.begin(there, (sent, LEN), &content(sent)).expect("ready");
        sent += 1;
    }
    let last = content(sent - 1);
    let packets = a.fabric.counts().packets;
    for _ in 0..10 {
        a.fabric.cork(there);
        a.fabric.uncork(there);
        assert_eq!(a.go_on(there, &last[at..]), 0, "the peer reads nothing");
    }
    assert_eq!(a.fabric.counts().packets, packets, "the socket was written");
    a.fabric.arm().expect("armed");
    while a.progress() {}
    // The sender sleeps until its peer has read enough.
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < WATCHDOG, "nobody is woken");
        b.progress();
        let fds = a.fabric.wake_fds();
        let mut fds = [PollFd::from_borrowed_fd(fds[0].as_fd(), PollFlags::IN)];
        let moment = Timespec::try_from(Duration::ZERO).expect("none");
        if poll(&mut fds, Some(&moment)) == Ok(1) {
            break;
        }
    }
    a.fabric.notice();
    while at < LEN {
        assert!(start.elapsed() < WATCHDOG, "the rest never went");
        a.progress();
        b.progress();
        at += a.go_on(there, &last[at..]);
    }
    until("everything", &mut [&mut a, &mut b], |sides| {
        sides[1].came.len() as u64 == sent
    });
}

/// The same connection brings messages all the time, and then none.
#[test]
fn who_has_polled_for_long_and_sleeps_is_woken() {
    let (mut a, mut b, there) = met();
    for number in 1..=200 {
        a.send(there, number, b"again").expect("ready");
        until("a message", &mut [&mut b], |sides| {
            sides[0].came.len() as u64 == number
        });
    }
    b.fabric.arm().expect("armed");
    while b.progress() {}
    a.send(there, 201, b"at last").expect("ready");
    let fds = b.fabric.wake_fds();
    let mut fds = [PollFd::from_borrowed_fd(fds[0].as_fd(), PollFlags::IN)];
    let watchdog = Timespec::try_from(WATCHDOG).expect("a minute");
    assert_eq!(poll(&mut fds, Some(&watchdog)), Ok(1));
    b.fabric.notice();
    until("the last message", &mut [&mut b], |sides| {
        sides[0].came.len() == 201
    });
}
