//! The event set and the doorbell.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limic_shm::control::{
    Doorbell, Event, EventSet, Listener, PeerDoorbell, Received, Sent, Socket, Timer, Trigger,
};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

const NOW: Option<Duration> = Some(Duration::ZERO);
const WATCHDOG: Option<Duration> = Some(Duration::from_secs(60));

fn wait(events: &EventSet, timeout: Option<Duration>) -> Vec<Event> {
    let mut found = [Event::default(); 8];
    let count = events.wait(timeout, &mut found).unwrap();
    found[..count].to_vec()
}

fn watched_doorbell() -> (Doorbell, EventSet) {
    let (doorbell, events) = (Doorbell::new().unwrap(), EventSet::new().unwrap());
    doorbell.watch(&events, 5).unwrap();
    assert_eq!(wait(&events, NOW), []);
    (doorbell, events)
}

/// What a peer gets.
fn handed_over(doorbell: &Doorbell) -> PeerDoorbell {
    PeerDoorbell::from_fd(doorbell.for_peers().try_clone_to_owned().unwrap()).unwrap()
}

#[test]
fn rings_are_reported_until_they_are_silenced() {
    let (doorbell, events) = watched_doorbell();
    let peer = handed_over(&doorbell);
    for rings in [1, 3, 100_000] {
        for _ in 0..rings {
            peer.ring();
        }
        for _ in 0..2 {
            let found = wait(&events, WATCHDOG);
            assert_eq!(found.len(), 1);
            assert_eq!(
                (found[0].token, found[0].readable, found[0].hang_up),
                (5, true, false)
            );
        }
        doorbell.silence();
        assert_eq!(wait(&events, NOW), [], "after {rings} rings");
    }
}

#[test]
fn a_ring_wakes_a_thread_that_sleeps() {
    let (doorbell, events) = watched_doorbell();
    let peer = handed_over(&doorbell);
    let thread = std::thread::spawn(move || peer.ring());
    assert_eq!(wait(&events, WATCHDOG).len(), 1);
    thread.join().unwrap();
}

#[test]
fn a_full_queue_that_may_block_neither_blocks_nor_mutes() {
    let (doorbell, events) = watched_doorbell();
    let hostile = handed_over(&doorbell);
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    for _ in 0..3 {
        // As full as a holder can make it, and blocking for all who hold it.
        while send(&hostile, &[1; 10_000], flags).is_ok() {}
        while send(&hostile, &[1], flags).is_ok() {}
        rustix::io::ioctl_fionbio(hostile.as_fd(), false).unwrap();
        let (done, rung) = std::sync::mpsc::channel();
        let honest = handed_over(&doorbell);
        std::thread::spawn(move || {
            honest.ring();
            done.send(()).unwrap();
        });
        rung.recv_timeout(WATCHDOG.unwrap())
            .expect("the ring does not block");
        assert_eq!(wait(&events, WATCHDOG).len(), 1, "it rings");
        let mut looks = 0;
        while !wait(&events, NOW).is_empty() {
            doorbell.silence();
            looks += 1;
            assert!(looks < 100_000, "it comes to an end");
        }
    }
}

#[test]
fn no_peer_takes_the_rings_of_others_away() {
    let (doorbell, events) = watched_doorbell();
    let hostile = handed_over(&doorbell);
    handed_over(&doorbell).ring();
    let mut buffer = [0; 64];
    assert!(recv(&hostile, &mut buffer, RecvFlags::DONTWAIT).is_err());
    assert_eq!(wait(&events, WATCHDOG).len(), 1);
}

#[test]
fn a_doorbell_that_a_peer_shuts_down_rings_until_its_owner_watches_it_no_longer() {
    let (doorbell, events) = watched_doorbell();
    shutdown(handed_over(&doorbell), Shutdown::Both).unwrap();
    for _ in 0..3 {
        handed_over(&doorbell).ring();
        assert_eq!(wait(&events, WATCHDOG).len(), 1);
        assert!(!doorbell.silence(), "nobody can ring");
    }
    doorbell.unwatch(&events).unwrap();
    assert_eq!(wait(&events, NOW), []);
}

#[test]
fn the_set_itself_can_be_polled() {
    let (doorbell, inner) = watched_doorbell();
    let outer = EventSet::new().unwrap();
    outer.add(inner.as_fd(), 9, Trigger::Level).unwrap();
    assert_eq!(wait(&outer, NOW), []);
    doorbell.ring();
    assert_eq!(wait(&outer, WATCHDOG)[0].token, 9);
    assert_eq!(wait(&inner, NOW)[0].token, 5);
    doorbell.silence();
    assert_eq!(wait(&outer, NOW), []);
}

#[test]
fn levels_and_edges() {
    let listener = Listener::bind(getrandom::u64().unwrap()).unwrap();
    let near = Socket::connect(listener.id()).unwrap();
    let far = listener.accept().unwrap().unwrap();
    let events = EventSet::new().unwrap();
    events.add(far.as_fd(), 1, Trigger::Level).unwrap();
    assert_eq!(near.send(b"a", &[]).unwrap(), Sent::Done);
    for _ in 0..2 {
        assert_eq!(wait(&events, WATCHDOG).len(), 1);
    }
    events.remove(far.as_fd()).unwrap();
    events.add(far.as_fd(), 2, Trigger::Edge).unwrap();
    assert_eq!(wait(&events, WATCHDOG)[0].token, 2);
    assert_eq!(wait(&events, NOW), []);
    assert!(matches!(
        far.receive(&mut [0; 8]).unwrap(),
        Received::Message { .. }
    ));
    events.remove(far.as_fd()).unwrap();
    assert_eq!(wait(&events, NOW), []);
    assert!(events.remove(far.as_fd()).is_err());
    assert!(events.wait(NOW, &mut []).is_err());
}

#[test]
fn a_time_limit_ends_the_wait() {
    let (_doorbell, events) = watched_doorbell();
    assert_eq!(wait(&events, Some(Duration::from_micros(300))), []);
    assert_eq!(wait(&events, Some(Duration::from_millis(1))), []);
}

#[test]
fn a_signal_ends_the_wait_with_no_event() {
    extern "C" fn ignore(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = ignore;
    // SAFETY: a handler that does nothing, installed without SA_RESTART; the
    // structure is all zeroes but for it, which is a valid one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    // SAFETY: always succeeds.
    let waiter = unsafe { libc::pthread_self() };
    let done = Arc::new(AtomicBool::new(false));
    let thread = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            // Again and again, as the first may come before the wait.
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the waiter joins this thread, so it still exists.
                unsafe { libc::pthread_kill(waiter, libc::SIGUSR1) };
                std::thread::yield_now();
            }
        }
    });
    let events = EventSet::new().unwrap();
    let begun = std::time::Instant::now();
    let found = wait(&events, WATCHDOG);
    let took = begun.elapsed();
    done.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert_eq!(found, []);
    assert!(
        took < Duration::from_secs(60),
        "the time limit ended the wait, not the signal"
    );
}

#[test]
fn a_timer_ends_one_sleep_at_each_setting() {
    let (timer, events) = (Timer::new().unwrap(), EventSet::new().unwrap());
    timer.watch(&events, 7).unwrap();
    assert_eq!(wait(&events, NOW), []);
    for after in [0, 1, 5] {
        timer.set(Duration::from_millis(after)).unwrap();
        let found = wait(&events, WATCHDOG);
        assert_eq!(
            found.iter().map(|event| event.token).collect::<Vec<_>>(),
            [7]
        );
        // Nothing was read, and it is not reported again.
        assert_eq!(wait(&events, NOW), []);
    }
}
