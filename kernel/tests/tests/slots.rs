//! Slots that several threads of a process use.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use limic_module_tests::abi::{self, DONE, PENDING, PROBE_TAKE};
use limic_module_tests::{Errno, Fault, Memory, PAGE, Session, guest_test, token};

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
