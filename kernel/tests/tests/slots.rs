//! Slots that several threads of a process use.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use limic_module_tests::abi::{self, CANCEL_FORCE, DONE, PENDING, PROBE_TAKE};
use limic_module_tests::{
    Errno, Fault, Memory, PAGE, Session, guest_test, sleeps_in_ioctl, token, wait_for,
};

/// Threads that wait for messages: whoever queues one wakes them all, in its own call.
const WAITERS: usize = 64;
const ROUNDS: usize = 60;

#[test]
fn a_slot_that_is_taken_again_at_once_belongs_to_who_took_it() {
    guest_test(|| {
        let session = &Session::member(token(), 0);
        let (memory, target) = (Memory::filled(PAGE, 1), Memory::new(PAGE));
        let stop = AtomicBool::new(false);
        // What the second and the third one got.
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    let mut arg = abi::Wait {
                        flags: abi::WAIT_ARRIVAL,
                        timeout_ns: 50_000_000,
                        ..Default::default()
                    };
                    while !stop.load(Relaxed) {
                        session.call(abi::WAIT, &mut arg).expect("wait");
                    }
                });
            }
            for _ in 0..ROUNDS {
                let held_back = Memory::new(PAGE);
                let mut fault = Fault::hold(&held_back, 0);
                assert_eq!(session.recv(&[target.piece()], 0, 2, 1), Ok(PENDING));
                // The first one queues a message from slot 0, and wakes the sleepers before its
                // call is over.
                let first = scope.spawn(|| session.send(&[memory.piece()], 0, 1, 0));
                // Meanwhile the second one receives that message, so that the slot is free, and
                // takes it for a message of its own, in whose middle it sleeps.
                let second = scope.spawn(move || {
                    let message = loop {
                        match session.probe(0, 1, PROBE_TAKE) {
                            Ok(seen) => break seen.message,
                            Err(none) => assert_eq!(none, Errno(libc::EAGAIN)),
                        }
                    };
                    let other = Memory::new(PAGE);
                    let taken = session.recv_taken(&[other.piece()], message, 2);
                    assert_eq!((taken, session.status(0).state), (Ok(DONE), DONE));
                    session.send(&[held_back.piece()], 0, 2, 0)
                });
                let page = fault.touched();
                assert_eq!(first.join().expect("no panic"), Ok(PENDING));
                let third = session.send(&[memory.piece()], 0, 3, 0);
                fault.release(page);
                let second = second.join().expect("no panic");
                got.push((second, third, session.status(1).error));
                if third.is_ok() {
                    break;
                }
            }
            stop.store(true, Relaxed);
        });
        for round in got {
            assert_eq!(round, (Ok(DONE), Err(Errno(libc::EBUSY)), 0));
        }
    });
}

/// Has a thread sleep until slot 0 is not pending, which it is now, while `end` ends what is there.
fn hears_of(session: &Session, end: impl FnOnce()) {
    let thread = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            // SAFETY: it takes no argument.
            thread.store(unsafe { libc::gettid() }, Relaxed);
            // Without a limit: if nobody wakes it, the watchdog ends the test.
            session.wait(&[0], 1, -1).map(|seen| seen.done)
        });
        wait_for("a thread", || thread.load(Relaxed) != 0);
        sleeps_in_ioctl(thread.load(Relaxed));
        end();
        assert_eq!(waiter.join().expect("no panic"), Ok(1));
    });
}

#[test]
fn a_thread_hears_of_what_another_one_of_its_process_ends() {
    guest_test(|| {
        let token = token();
        let (session, peer) = (&Session::member(token, 0), &Session::member(token, 1));
        let (memory, target) = (&Memory::filled(PAGE, 1), &Memory::new(PAGE));
        let held_back = || {
            let memory = Memory::new(2 * PAGE);
            // Who comes to the first page sleeps, and who comes to the second one is refused.
            memory.punch(PAGE, PAGE);
            let fault = Fault::hold(&memory, 0);
            (memory, fault)
        };
        // A receive that is taken back.
        assert_eq!(session.recv(&[memory.piece()], 1, 1, 0), Ok(PENDING));
        hears_of(session, || assert_eq!(session.cancel(0), Ok(())));
        std::thread::scope(|scope| {
            // The same, by force.
            assert_eq!(session.recv(&[memory.piece()], 1, 2, 0), Ok(PENDING));
            let (source, mut fault) = held_back();
            let first = scope.spawn(move || peer.send(&[source.part(0, PAGE)], 0, 2, 0));
            let page = fault.touched();
            hears_of(session, || {
                assert_eq!(session.cancel_with(0, CANCEL_FORCE), Ok(()));
            });
            fault.release(page);
            assert_eq!(first.join().expect("no panic"), Ok(DONE));
            // A send that copies, and is over when its call is.
            assert_eq!(session.recv(&[target.piece()], 0, 3, 1), Ok(PENDING));
            let (source, mut fault) = held_back();
            let second = scope.spawn(move || session.send(&[source.part(0, PAGE)], 0, 3, 0));
            let page = fault.touched();
            hears_of(session, || fault.release(page));
            assert_eq!(second.join().expect("no panic"), Ok(DONE));
            // One that fails, so that nothing comes into the slot.
            let (source, mut fault) = held_back();
            let third = scope.spawn(move || session.send(&[source.piece()], 0, 4, 0));
            let page = fault.touched();
            hears_of(session, || fault.release(page));
            assert_eq!(third.join().expect("no panic"), Err(Errno(libc::EFAULT)));
        });
    });
}
