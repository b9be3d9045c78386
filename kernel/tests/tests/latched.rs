//! Exposures behind a latch: they stay, and are reached only while their owner holds them open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use limic_module_tests::abi::{
    self, COPY_READ, COPY_WRITE, EXPOSE_LATCH, EXPOSE_ONCE, EXPOSE_READ, EXPOSE_WRITE, LATCH_BYTES,
    LATCH_OFFSET, LATCHES,
};
use limic_module_tests::changes::{WAYS, replace};
use limic_module_tests::{
    Child, Errno, Fault, Latches, Memory, PAGE, Random, Session, To, check, fill, gauge,
    guest_test, lock_at_most, wait_for,
};

const LEN: usize = 16 * PAGE;
const READ: u32 = EXPOSE_READ | EXPOSE_LATCH;

/// What a copy says through a latch that is shut.
const SHUT: (u64, Result<(), Errno>) = (0, Err(Errno(libc::ECANCELED)));

fn gone(session: &Session, handle: u64, other: &Memory) -> bool {
    session.copy(handle, 0, &[other.piece()], COPY_READ).1 == Err(Errno(libc::ENOENT))
}

#[test]
fn a_latch_is_opened_and_shut_without_a_call() {
    guest_test(|| {
        let (owner, peer) = (Session::primitives(), Session::primitives());
        let latches = Latches::of(&owner).expect("map");
        let mut memory = Memory::filled(LEN, 1);
        let other = Memory::new(LEN);
        let to = To::Session(peer.id);
        let all = (LEN as u64, Ok(()));
        let handle = owner
            .expose_behind(&[memory.piece()], READ, to, 5)
            .expect("expose");
        let copy = || peer.copy(handle, 0, &[other.piece()], COPY_READ);
        assert_eq!(copy(), SHUT, "it begins shut");
        for seed in 1..50 {
            fill(&mut memory, seed);
            assert!(latches.open(5));
            assert_eq!(copy(), all);
            check(&other, seed, 0);
            // A second message from the same buffer at the same time.
            assert!(latches.open(5));
            assert!(latches.shut(5));
            assert_eq!(copy(), all, "it is open for one of the two");
            assert!(latches.shut(5));
            assert_eq!(copy(), SHUT);
        }
        assert!(latches.open(5));
        let owner_itself = owner.copy(handle, 0, &[other.piece()], COPY_READ);
        assert_eq!(
            owner_itself.1,
            Err(Errno(libc::ENOENT)),
            "open for one peer"
        );
        let write = peer.copy(handle, 0, &[other.piece()], COPY_WRITE);
        assert_eq!(write.1, Err(Errno(libc::EACCES)), "and one direction");
        let beyond = peer.copy(handle, 1, &[other.piece()], COPY_READ);
        assert_eq!(beyond.1, Err(Errno(libc::ERANGE)));
        assert!(!latches.is_struck(5));
        // Revoked while open: gone, and the latch is free.
        owner.revoke(handle).expect("revoke");
        assert!(gone(&peer, handle, &other));
        let room = owner.expose_behind(&[memory.piece()], READ | EXPOSE_WRITE, to, 5);
        let room = room.expect("the latch is free");
        assert_eq!(peer.copy(room, 0, &[other.piece()], COPY_WRITE), SHUT);
        fill(&mut memory, 77);
        assert!(latches.open(5));
        assert_eq!(peer.copy(room, 0, &[other.piece()], COPY_WRITE), all);
        check(&memory, 49, 0);
    });
}

#[test]
fn memory_that_changes_strikes_its_latch() {
    guest_test(|| {
        let session = Session::primitives();
        let latches = Latches::of(&session).expect("map");
        let to = To::Session(session.id);
        let other = Memory::new(LEN);
        let far = Memory::filled(LEN, 3);
        let untouched = session
            .expose_behind(&[far.piece()], READ, to, 1)
            .expect("expose");
        let mut forked = false;
        for (round, (what, change)) in WAYS.iter().cycle().take(60).enumerate() {
            println!("{what}");
            let seed = 10 * round as u64;
            let mut memory = Memory::filled(LEN, seed);
            let expose = || session.expose_behind(&[memory.piece()], READ, to, 0);
            let copy = |handle| session.copy(handle, 0, &[other.piece()], COPY_READ);
            // Shut when it changes: the module ends the exposure by itself.
            let handle = expose().expect("expose");
            change(&memory);
            assert!(latches.is_struck(0) && !latches.open(0));
            wait_for("the end of an exposure", || gone(&session, handle, &other));
            fill(&mut memory, seed + 1);
            // Open: the message goes on with the pages of then.
            let handle = session
                .expose_behind(&[memory.piece()], READ, to, 0)
                .expect("the latch is free");
            assert!(latches.open(0));
            change(&memory);
            assert!(latches.is_struck(0) && !latches.open(0));
            assert_eq!(copy(handle), (LEN as u64, Ok(())));
            if matches!(*what, "mapped over" | "given back" | "protected" | "forked") {
                check(&other, seed + 1, 0);
            }
            assert!(latches.shut(0));
            assert_eq!(copy(handle), SHUT);
            session.revoke(handle).expect("revoke");
            // A fork changes all memory; nothing else changes that of others.
            forked |= *what == "forked";
            assert_eq!(latches.is_struck(1), forked);
        }
        wait_for("the end", || gone(&session, untouched, &other));
    });
}

#[test]
fn a_latch_that_its_owner_struck_stays_so_when_its_memory_changes() {
    guest_test(|| {
        let session = Session::primitives();
        let latches = Latches::of(&session).expect("map");
        let to = To::Session(session.id);
        let other = Memory::new(LEN);
        for (what, change) in WAYS {
            println!("{what}");
            let memory = Memory::filled(LEN, 1);
            let expose = || session.expose_behind(&[memory.piece()], READ, to, 0);
            let handle = expose().expect("the latch is free");
            // Between this and the revoking, which an owner does next, memory changes.
            assert!(latches.strike(0));
            change(&memory);
            assert!(latches.is_struck(0) && !latches.open(0), "{what}");
            wait_for("the end of an exposure", || gone(&session, handle, &other));
            let mut again = Err(Errno(libc::EBUSY));
            wait_for("the latch", || {
                again = expose();
                again != Err(Errno(libc::EBUSY))
            });
            let handle = again.expect("expose");
            assert!(!latches.is_struck(0), "taken anew, it can be opened");
            assert!(latches.open(0) && latches.shut(0));
            session.revoke(handle).expect("revoke");
        }
    });
}

#[test]
fn a_latch_is_free_once_its_exposure_is_revoked_whatever_the_peer_does() {
    guest_test(|| {
        let (owner, peer) = (Session::primitives(), Session::primitives());
        let latches = Latches::of(&owner).expect("map");
        let memory = Memory::filled(LEN, 1);
        let other = Memory::new(LEN);
        let to = To::Session(peer.id);
        let expose = || owner.expose_behind(&[memory.piece()], READ, to, 3);
        let pinned = gauge("pinned_pages");
        let handle = expose().expect("expose");
        assert!(latches.open(3));
        let mut fault = Fault::hold(&other, 0);
        std::thread::scope(|scope| {
            let copier = scope.spawn(|| peer.copy(handle, 0, &[other.piece()], COPY_READ));
            // The peer sleeps in a page fault until the very end.
            let first = fault.touched();
            owner.revoke(handle).expect("revoke");
            assert_eq!(gauge("pinned_pages"), pinned);
            let mut again = Err(Errno(libc::EBUSY));
            wait_for("the latch", || {
                again = expose();
                again != Err(Errno(libc::EBUSY))
            });
            assert!(again.is_ok());
            fault.release(first);
            drop(fault);
            assert_eq!(copier.join().expect("no panic"), SHUT);
        });
    });
}

/// What the hostile peer must never see.
const SECRET: u8 = 0xee;

#[test]
fn nobody_is_inside_of_what_was_shut() {
    guest_test(|| {
        const LONG: usize = 64 * PAGE;
        let rounds = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let (owner, peer) = (Session::primitives(), Session::primitives());
        let latches = Latches::of(&owner).expect("map");
        let mut memory = Memory::new(LONG);
        let to = To::Session(peer.id);
        let expose = |memory: &Memory| {
            let handle = owner.expose_behind(&[memory.piece()], READ, to, 0);
            handle.expect("expose")
        };
        memory.fill(1);
        let handle = AtomicU64::new(expose(&memory));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                // Copies all the time, whether a message is there or not.
                scope.spawn(|| {
                    let other = Memory::new(LONG);
                    while !stop.load(Relaxed) {
                        let piece = [other.piece()];
                        let (_, result) = peer.copy(handle.load(Relaxed), 0, &piece, COPY_READ);
                        assert!(!other.contains(&SECRET), "a peer saw what was not sent");
                        if result.is_ok() {
                            rounds.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
            let (mut opened, mut waited) = (0, 0);
            // Until somebody was inside once, under the test's watchdog: else nothing was shown.
            while opened < 2000 || waited == 0 {
                opened += 1;
                assert!(latches.open(0));
                let before = rounds.load(Relaxed);
                if before < 200 {
                    wait_for("a copy", || rounds.load(Relaxed) > before);
                }
                if latches.shut(0) {
                    memory.fill(SECRET);
                    memory.fill(1);
                } else {
                    // Somebody is inside: only a call is sure.
                    waited += 1;
                    owner.revoke(handle.load(Relaxed)).expect("revoke");
                    memory.fill(SECRET);
                    memory.fill(1);
                    // The latch is free, but memory of the process may be changing just now.
                    let mut made = Err(Errno(libc::EBUSY));
                    wait_for("the latch", || {
                        made = owner.expose_behind(&[memory.piece()], READ, to, 0);
                        made != Err(Errno(libc::EBUSY))
                    });
                    handle.store(made.expect("expose"), Relaxed);
                }
            }
            stop.store(true, Relaxed);
            println!("{waited} times of {opened} a copier was inside");
        });
        assert!(rounds.load(Relaxed) >= 200);
    });
}

#[test]
fn whatever_the_owner_writes_harms_only_itself() {
    guest_test(|| {
        let stop = AtomicBool::new(false);
        let (owner, peer) = (Session::primitives(), Session::primitives());
        let latches = Latches::of(&owner).expect("map");
        let to = To::Session(peer.id);
        let handle = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = Memory::new(LEN);
                while !stop.load(Relaxed) {
                    let _ = peer.copy(handle.load(Relaxed), 0, &[other.piece()], COPY_READ);
                }
            });
            scope.spawn(|| {
                let mut random = Random::new(7);
                while !stop.load(Relaxed) {
                    latches.scribble(0, random.next() as u32, random.next() as u32);
                }
            });
            for seed in 0..500 {
                let memory = Memory::filled(LEN, seed);
                if let Ok(made) = owner.expose_behind(&[memory.piece()], READ, to, 0) {
                    handle.store(made, Relaxed);
                }
                if seed % 3 == 0 {
                    let _ = owner.revoke(handle.load(Relaxed));
                }
            }
            stop.store(true, Relaxed);
        });
        // What could not be ended because the words said that it is open.
        drop(latches);
        let _ = owner.revoke(handle.load(Relaxed));
    });
}

#[test]
fn latches_end_with_their_process() {
    guest_test(|| {
        let peer = Session::primitives();
        for round in 0..20 {
            let mut child = Child::fork(|line| {
                let owner = Session::primitives();
                let latches = Latches::of(&owner).expect("map");
                let memory = Memory::filled(LEN, 4);
                let to = To::Session(peer.id);
                for latch in 0..LATCHES {
                    let made = owner.expose_behind(&[memory.piece()], READ, to, latch);
                    if latch == 0 {
                        line.say(made.expect("expose"));
                    }
                    assert!(latches.open(latch));
                }
                line.say(0);
                line.hear();
            });
            let handle = child.line.hear();
            let other = Memory::new(LEN);
            child.line.hear();
            let copied = peer.copy(handle, 0, &[other.piece()], COPY_READ);
            assert_eq!(copied, (LEN as u64, Ok(())));
            check(&other, 4, 0);
            if round % 2 == 0 {
                child.kill();
            } else {
                child.line.say(0);
                child.join();
            }
            wait_for("the end of the exposure", || gone(&peer, handle, &other));
        }
        // A forked child has neither the mapping nor the session.
        let owner = Session::primitives();
        let latches = Latches::of(&owner).expect("map");
        let own = Memory::new(PAGE);
        Child::fork(|_| {
            assert_eq!(Latches::of(&owner).err(), Some(Errno(libc::ESTALE)));
            let refused = owner.expose_behind(&[own.piece()], READ, To::Session(peer.id), 0);
            assert_eq!(refused, Err(Errno(libc::ESTALE)));
            std::mem::forget(latches);
        })
        .join();
    });
}

#[test]
fn what_a_latch_refuses() {
    guest_test(|| {
        let silent = Session::silent().expect("open");
        assert_eq!(Latches::of(&silent).err(), Some(Errno(libc::EPROTO)));
        let session = Session::primitives();
        let to = To::Session(session.id);
        let memory = Memory::filled(LEN, 1);
        let expose = |flags, latch| session.expose_behind(&[memory.piece()], flags, to, latch);
        let invalid = Err(Errno(libc::EINVAL));
        assert_eq!(expose(READ, 0), invalid, "latches that were not mapped");
        let latches = Latches::of(&session).expect("map");
        let again = Latches::of(&session).expect("the same once more");
        assert_eq!(expose(READ, LATCHES), invalid);
        assert_eq!(expose(READ, !0), invalid);
        assert_eq!(expose(EXPOSE_READ, 1), invalid, "a latch without the flag");
        assert_eq!(expose(READ | EXPOSE_ONCE, 0), invalid);
        assert_eq!(expose(EXPOSE_LATCH, 0), invalid, "no direction");
        let two = [memory.part(0, PAGE), memory.part(PAGE, PAGE)];
        assert_eq!(session.expose_behind(&two, READ, to, 0), invalid);
        let handle = expose(READ, 0).expect("expose");
        assert_eq!(expose(READ, 0), Err(Errno(libc::EBUSY)));
        assert!(latches.open(0) && again.shut(0), "one and the same");
        session.revoke(handle).expect("revoke");
        for (word, value) in [(7, 1_u64), (6, 1 << 32)] {
            let mut words = [0_u64; 8];
            words[word] = value;
            let piece = memory.piece();
            words[0] = std::ptr::from_ref(&piece) as u64;
            (words[1], words[2], words[3]) = (1 | u64::from(READ) << 32, 2, session.id);
            // SAFETY: a structure on this frame.
            let refused = unsafe { session.raw(abi::EXPOSE, words.as_mut_ptr() as usize) };
            assert_eq!(refused, Err(Errno(libc::EINVAL)), "reserved fields");
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        for (len, access, offset) in [
            (2 * LATCH_BYTES, both, LATCH_OFFSET),
            (LATCH_BYTES, both | libc::PROT_EXEC, LATCH_OFFSET),
            (LATCH_BYTES, both, LATCH_OFFSET + PAGE as libc::off_t),
            (LATCH_BYTES, both, PAGE as libc::off_t),
        ] {
            assert!(session.map_at(len, access, offset).is_err());
        }
        // Memory that is gone, and more of it than may stay pinned.
        let refused = {
            let lost = Memory::new(PAGE);
            lost.protect(libc::PROT_NONE);
            session.expose_behind(&[lost.piece()], READ, to, 0)
        };
        assert_eq!(refused, Err(Errno(libc::EFAULT)));
        // Written to: pinning pages that were only read changes them, which would strike the latch
        // at once.
        let mut large = Memory::new(48 << 20);
        large.fill(1);
        let first = session.expose_behind(&[large.piece()], READ, to, 0);
        assert!(first.is_ok(), "{first:?}");
        let second = session.expose_behind(&[large.piece()], READ, to, 1);
        assert_eq!(second, Err(Errno(libc::ENOSPC)));
        session.revoke(first.expect("above")).expect("revoke");
        let second = session.expose_behind(&[large.piece()], READ, to, 1);
        assert!(second.is_ok(), "{second:?}");
        replace(&large);
        wait_for("the end of the pins", || gauge("pinned_pages") == 0);
        Child::fork(|_| {
            let session = Session::primitives();
            let _latches = Latches::of(&session).expect("map");
            lock_at_most(4 * PAGE as u64);
            // Its own: what it shares with its parent changes when it is pinned.
            let memory = Memory::filled(LEN, 1);
            let refused = session.expose_behind(&[memory.piece()], READ, to, 0);
            assert_eq!(refused, Err(Errno(libc::EAGAIN)));
            let part = session.expose_behind(&[memory.part(0, PAGE)], READ, to, 0);
            assert!(part.is_ok(), "the latch was not lost: {part:?}");
        })
        .join();
    });
}
