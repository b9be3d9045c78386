//! The event set and the bell.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limic_shm::control::{
    Channel, Doorbell, Event, EventSet, Listener, Received, Sent, Timer, Trigger,
};
use rustix::io::write;

const NOW: Option<Duration> = Some(Duration::ZERO);
const WATCHDOG: Option<Duration> = Some(Duration::from_secs(60));

fn wait(events: &EventSet, timeout: Option<Duration>) -> Vec<Event> {
    let mut found = [Event::default(); 8];
    let count = events.wait(timeout, &mut found).unwrap();
    found[..count].to_vec()
}

fn watched_bell() -> (Doorbell, EventSet) {
    let (doorbell, events) = (Doorbell::new().unwrap(), EventSet::new().unwrap());
    doorbell.watch(&events, 5).unwrap();
    // The report at the start, that may come.
    wait(&events, NOW);
    assert_eq!(wait(&events, NOW), []);
    (doorbell, events)
}

#[test]
fn each_ring_is_one_new_edge_without_a_read() {
    let (doorbell, events) = watched_bell();
    let far = Doorbell::from_fd(doorbell.as_fd().try_clone_to_owned().unwrap()).unwrap();
    for _ in 0..1000 {
        far.ring();
        let found = wait(&events, WATCHDOG);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].token, found[0].readable), (5, true));
        assert_eq!(wait(&events, NOW), []);
    }
    for _ in 0..3 {
        far.ring();
    }
    assert_eq!(wait(&events, WATCHDOG).len(), 1);
    assert_eq!(wait(&events, NOW), []);
}

#[test]
fn a_ring_wakes_a_thread_that_sleeps() {
    let (doorbell, events) = watched_bell();
    let ringer = Doorbell::from_fd(doorbell.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let thread = std::thread::spawn(move || ringer.ring());
    assert_eq!(wait(&events, WATCHDOG).len(), 1);
    thread.join().unwrap();
}

#[test]
fn a_full_counter_neither_blocks_nor_mutes() {
    let (doorbell, events) = watched_bell();
    let hostile = doorbell.as_fd().try_clone_to_owned().unwrap();
    // As full as a writer can make it (it is 1 already), and blocking for all who hold it.
    write(&hostile, &(u64::MAX - 2).to_ne_bytes()).unwrap();
    rustix::io::ioctl_fionbio(&hostile, false).unwrap();
    wait(&events, WATCHDOG);
    assert_eq!(wait(&events, NOW), []);
    for _ in 0..3 {
        doorbell.ring();
        assert_eq!(wait(&events, WATCHDOG).len(), 1);
    }
}

#[test]
fn the_set_itself_can_be_polled() {
    let (doorbell, inner) = watched_bell();
    let outer = EventSet::new().unwrap();
    outer.add(inner.as_fd(), 9, Trigger::Level).unwrap();
    assert_eq!(wait(&outer, NOW), []);
    doorbell.ring();
    assert_eq!(wait(&outer, WATCHDOG)[0].token, 9);
    assert_eq!(wait(&inner, NOW)[0].token, 5);
    assert_eq!(wait(&outer, NOW), []);
}

#[test]
fn levels_and_edges() {
    let listener = Listener::bind(getrandom::u64().unwrap()).unwrap();
    let near = Channel::connect(listener.id()).unwrap();
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
    let (_bell, events) = watched_bell();
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
