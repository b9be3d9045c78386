//! Pins that stay for a buffer that comes again: they are found, they give way, and they are never
//! those of memory that is not there any more.

use std::sync::atomic::{AtomicBool, Ordering};

use limic_module_tests::abi::{
    self, COPY_READ, COPY_WRITE, DONE, EXPOSE_KEEP, EXPOSE_READ, EXPOSE_WRITE, PENDING, RECV_KEEP,
    SEND_KEEP,
};
use limic_module_tests::changes::{WAYS, give_back_the_middle, replace};
use limic_module_tests::{
    Child, Errno, Memory, PAGE, Session, To, check, fill, gauge, guest_test, token, wait_for,
};

const LEN: usize = 16 * PAGE;
const BOTH: u32 = EXPOSE_READ | EXPOSE_WRITE | EXPOSE_KEEP;

/// Counts what happens from here on.
fn measure() {
    std::fs::write("/sys/kernel/debug/limic/measure", "1").expect("measure");
}

/// Exposes it once for reading and once for writing, as one message after the other would, and
/// checks the bytes both ways.
fn pass(session: &Session, memory: &mut Memory, seed: u64) {
    let to = To::Session(session.id);
    let len = memory.len();
    let mut other = Memory::new(len);
    fill(memory, seed);
    let read = EXPOSE_READ | EXPOSE_KEEP;
    let handle = session.expose(&[memory.piece()], read, to).expect("expose");
    let copied = session.copy(handle, 0, &[other.piece()], COPY_READ);
    assert_eq!(copied, (len as u64, Ok(())));
    check(&other, seed, 0);
    session.revoke(handle).expect("revoke");
    fill(&mut other, !seed);
    let handle = session.expose(&[memory.piece()], BOTH, to).expect("expose");
    let copied = session.copy(handle, 0, &[other.piece()], COPY_WRITE);
    assert_eq!(copied, (len as u64, Ok(())));
    session.revoke(handle).expect("revoke");
    check(memory, !seed, 0);
}

#[test]
fn a_buffer_that_comes_again_is_found_pinned() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let to = To::Session(session.id);
        let mut memory = Memory::filled(LEN, 1);
        measure();
        pass(&session, &mut memory, 1);
        let kept = gauge("kept");
        assert!(kept > 0, "nothing is kept");
        let before = gauge("reused");
        for seed in 2..20 {
            pass(&session, &mut memory, seed);
        }
        assert_eq!(gauge("reused") - before, 36, "each of 18 times 2 exposures");
        assert_eq!(gauge("kept"), kept);
        // Parts of it too, and both kinds of requests.
        let handle = session
            .expose(&[memory.part(777, 5000)], EXPOSE_READ | EXPOSE_KEEP, to)
            .expect("expose");
        let other = Memory::new(LEN);
        let copied = session.copy(handle, 1000, &[other.part(0, 4000)], COPY_READ);
        assert_eq!(copied, (4000, Ok(())));
        check(&other[..4000], !19, 1777);
        // Only the part was exposed, whatever is pinned around it.
        let beyond = session.copy(handle, 1001, &[other.part(0, 4000)], COPY_READ);
        assert_eq!(beyond, (0, Err(Errno(libc::ERANGE))));
        session.revoke(handle).expect("revoke");
        let gone = session.copy(handle, 0, &[other.part(0, 1)], COPY_READ);
        assert_eq!(gone.1, Err(Errno(libc::ENOENT)), "revoked is revoked");
        fill(&mut memory, 30);
        let sent = session.send_with(&[memory.part(5, 9000)], 0, 1, 0, SEND_KEEP);
        assert_eq!(sent, Ok(PENDING));
        assert_eq!(session.recv(&[other.part(0, 9000)], 0, 1, 1), Ok(DONE));
        check(&other[..9000], 30, 5);
        let source = Memory::filled(LEN, 31);
        let posted = session.recv_with(&[memory.part(9, 9000)], 0, 2, 0, RECV_KEEP);
        assert_eq!(posted, Ok(PENDING));
        assert_eq!(session.send(&[source.part(0, 9000)], 0, 2, 1), Ok(DONE));
        check(&memory[9..9009], 31, 0);
        assert_eq!(gauge("reused") - before, 39);
        // Without the flag it is pinned anew.
        let handle = session.expose(&[memory.piece()], EXPOSE_READ, to);
        session.revoke(handle.expect("expose")).expect("revoke");
        assert_eq!(gauge("reused") - before, 39);
        drop(session);
        assert_eq!(gauge("kept"), 0, "they go with their session");
    });
}

#[test]
fn what_is_kept_is_never_found_for_other_memory() {
    guest_test(|| {
        let session = Session::primitives();
        for round in 0..20 {
            for (number, (what, change)) in WAYS.iter().enumerate() {
                let mut memory = Memory::filled(LEN, 1);
                let seed = 100 * round + 10 * number as u64;
                // Twice, so that it is kept for sure.
                pass(&session, &mut memory, seed);
                pass(&session, &mut memory, seed + 1);
                change(&memory);
                println!("{what}");
                pass(&session, &mut memory, seed + 2);
                pass(&session, &mut memory, seed + 3);
            }
        }
        // A mapping that goes, and another one that comes to the same place.
        let mut places = std::collections::HashSet::new();
        for seed in 0..100 {
            let mut memory = Memory::new(LEN);
            places.insert(memory.address());
            pass(&session, &mut memory, seed);
        }
        assert!(places.len() < 100, "no address came again");
    });
}

#[test]
fn protection_counts_for_kept_memory() {
    guest_test(|| {
        let session = Session::primitives();
        let to = To::Session(session.id);
        let mut memory = Memory::filled(LEN, 1);
        for seed in 0..3 {
            pass(&session, &mut memory, seed);
        }
        memory.protect(libc::PROT_READ);
        let refused = Err(Errno(libc::EFAULT));
        assert_eq!(session.expose(&[memory.piece()], BOTH, to), refused);
        let read = EXPOSE_READ | EXPOSE_KEEP;
        let handle = session.expose(&[memory.piece()], read, to).expect("read");
        session.revoke(handle).expect("revoke");
        // It was pinned for reading, which does not serve for writing.
        assert_eq!(session.expose(&[memory.piece()], BOTH, to), refused);
        memory.protect(libc::PROT_NONE);
        assert_eq!(session.expose(&[memory.piece()], read, to), refused);
        memory.protect(libc::PROT_READ | libc::PROT_WRITE);
        pass(&session, &mut memory, 4);
    });
}

#[test]
fn memory_that_is_given_back_does_not_stay_pinned() {
    guest_test(|| {
        let session = Session::primitives();
        let before = gauge("pinned_pages");
        for len in [PAGE, LEN, 8 << 20] {
            let mut memory = Memory::new(len);
            pass(&session, &mut memory, 1);
            pass(&session, &mut memory, 2);
            assert!(gauge("pinned_pages") >= before + (len / PAGE) as i64);
            drop(memory);
            // Nobody calls the module any more.
            wait_for("the end of the pins", || gauge("pinned_pages") == before);
        }
        // More buffers than are kept, and more memory than is kept.
        let mut all: Vec<Memory> = (0..100).map(|_| Memory::new(LEN)).collect();
        for memory in &mut all {
            pass(&session, memory, 1);
            pass(&session, memory, 2);
        }
        assert!(gauge("kept") <= 32, "{} buffers", gauge("kept"));
        let mut large = Memory::new(96 << 20);
        pass(&session, &mut large, 1);
        let most = (64 << 20) / PAGE as i64;
        assert!(gauge("pinned_pages") <= before + most);
        drop(session);
        assert_eq!(gauge("pinned_pages"), before);
    });
}

#[test]
fn what_is_kept_makes_way_for_what_is_needed() {
    guest_test(|| {
        Child::fork(|_| {
            let session = Session::primitives();
            let to = To::Session(session.id);
            limic_module_tests::lock_at_most(16 * PAGE as u64);
            let memory = Memory::filled(64 * PAGE, 1);
            for at in 0..4 {
                let piece = [memory.part(at * 16 * PAGE, 16 * PAGE)];
                for flags in [BOTH, BOTH, EXPOSE_READ] {
                    let handle = session.expose(&piece, flags, to).expect("it makes way");
                    session.revoke(handle).expect("revoke");
                }
            }
            let refused = session.expose(&[memory.part(0, 17 * PAGE)], BOTH, to);
            assert_eq!(refused, Err(Errno(libc::EAGAIN)));
        })
        .join();
    });
}

#[test]
fn threads_that_change_their_memory_get_their_own_bytes() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // One that only makes noise: changes of other memory, all the time.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(Memory::filled(PAGE, 1));
                }
            });
            let threads: Vec<_> = (0..3_u64)
                .map(|thread| {
                    let session = &session;
                    scope.spawn(move || {
                        let mut memory = Memory::new(LEN);
                        for round in 0..300_u64 {
                            let seed = thread << 32 | round;
                            pass(session, &mut memory, seed);
                            match round % 4 {
                                0 => memory.throw_away(),
                                1 => replace(&memory),
                                2 => give_back_the_middle(&memory),
                                _ => {}
                            }
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("a thread");
            }
            stop.store(true, Ordering::Relaxed);
        });
        // An arg of the interface that is not checked elsewhere: the flag alone is no direction.
        let mut arg = abi::Expose {
            flags: EXPOSE_KEEP,
            ..Default::default()
        };
        assert_eq!(
            session.call(abi::EXPOSE, &mut arg),
            Err(Errno(libc::EINVAL))
        );
    });
}
