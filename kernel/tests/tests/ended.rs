//! What its owner ends, though others hold it: a session that another process has a descriptor of,
//! a request that has met its other side, and a buffer that a peer copies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use limic_module_tests::abi::{
    self, CANCEL_FORCE, COPY_READ, DONE, EXPOSE_READ, MEMBER_CLOSED, MEMBER_PRESENT, PENDING,
    PROBE_TAKE,
};
use limic_module_tests::{
    Child, Errno, Fault, Memory, PAGE, Session, To, check, gauge, guest_test, token, wait_for,
};

const LEN: usize = 40 * PAGE;
const STALE: Result<(), Errno> = Err(Errno(libc::ESTALE));
/// What no peer may see.
const SECRET: u8 = 0xee;
const TOO_LATE: Result<(), Errno> = Err(Errno(libc::EALREADY));

/// Memory of which only the first half is there; whoever comes to the second sleeps.
fn half(byte: u8) -> (Memory, Fault) {
    let mut memory = Memory::new(LEN);
    memory[..LEN / 2].fill(byte);
    let fault = Fault::hold(&memory, LEN / 2);
    (memory, fault)
}

fn state_of(session: &Session, rank: u32) -> u32 {
    let mut member = abi::Member {
        rank,
        ..Default::default()
    };
    session.call(abi::MEMBER, &mut member).expect("a rank");
    member.state
}

#[test]
fn a_receive_is_taken_back_by_force_from_a_sender_that_copies() {
    guest_test(|| {
        let token = token();
        let (mine, other) = (Session::member(token, 0), Session::member(token, 1));
        let mut memory = Memory::new(LEN);
        let (source, mut fault) = half(1);
        assert_eq!(mine.recv(&[memory.piece()], 1, 1, 0), Ok(PENDING));
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| other.send(&[source.piece()], 0, 1, 0));
            let page = fault.touched();
            assert_eq!(mine.cancel(0), TOO_LATE);
            assert_eq!(mine.status(0).state, PENDING);
            assert!(memory[..LEN / 2].contains(&1), "it copies");
            assert_eq!(mine.cancel_with(0, CANCEL_FORCE), Ok(()));
            let status = mine.status(0);
            assert_eq!(
                (status.state, status.error, status.len),
                (DONE, -libc::ECANCELED, 0)
            );
            assert_eq!(gauge("pinned_pages"), 0);
            // The memory is the application's, and the slot another request's.
            memory.fill(9);
            let next = Memory::new(PAGE);
            assert_eq!(mine.recv(&[next.piece()], 1, 2, 0), Ok(PENDING));
            fault.release(page);
            drop(fault);
            assert_eq!(sender.join().expect("no panic"), Ok(DONE));
            assert_eq!(other.status(0).error, -libc::EPIPE);
            assert!(memory.iter().all(|&byte| byte == 9));
            assert_eq!(mine.status(0).state, PENDING, "that is another request");
            assert_eq!(other.send(&[source.part(0, PAGE)], 0, 2, 1), Ok(DONE));
            assert_eq!((mine.status(0).state, mine.status(0).error), (DONE, 0));
            assert!(next.iter().all(|&byte| byte == 1));
        });
    });
}

#[test]
fn a_send_is_taken_back_by_force_from_a_receiver_that_copies() {
    guest_test(|| {
        let token = token();
        let (mine, other) = (Session::member(token, 0), Session::member(token, 1));
        let mut memory = Memory::new(LEN);
        memory.fill(1);
        let (target, mut fault) = half(2);
        assert_eq!(mine.send(&[memory.piece()], 1, 1, 0), Ok(PENDING));
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| other.recv(&[target.piece()], 0, 1, 0));
            let page = fault.touched();
            assert_eq!(mine.cancel(0), TOO_LATE);
            assert_eq!(mine.cancel_with(0, CANCEL_FORCE), Ok(()));
            assert_eq!(mine.status(0).error, -libc::ECANCELED);
            assert_eq!(gauge("pinned_pages"), 0);
            memory.fill(SECRET);
            fault.release(page);
            drop(fault);
            assert_eq!(receiver.join().expect("no panic"), Ok(DONE));
        });
        let status = other.status(0);
        assert_eq!(status.error, -libc::EPIPE);
        assert!((status.len as usize) < LEN);
        let there = &target[..status.len as usize];
        assert!(there.iter().all(|&byte| byte == 1));
        assert!(!target[..LEN / 2].contains(&SECRET));
    });
}

#[test]
fn a_send_is_taken_back_by_force_after_a_probe_has_taken_its_message() {
    guest_test(|| {
        let token = token();
        let (mine, other) = (Session::member(token, 0), Session::member(token, 1));
        let (memory, target) = (Memory::filled(LEN, 1), Memory::new(LEN));
        assert_eq!(mine.send(&[memory.piece()], 1, 1, 0), Ok(PENDING));
        let taken = other.probe(0, 1, PROBE_TAKE).expect("it is there");
        assert_eq!(mine.cancel(0), TOO_LATE);
        assert_eq!(mine.cancel_with(0, CANCEL_FORCE), Ok(()));
        assert_eq!(mine.status(0).error, -libc::ECANCELED);
        assert_eq!(gauge("pinned_pages"), 0);
        // The same slot again, for a message that is nobody's yet.
        assert_eq!(mine.send(&[memory.piece()], 1, 2, 0), Ok(PENDING));
        let received = other.recv_taken(&[target.piece()], taken.message, 0);
        assert_eq!(received, Ok(DONE));
        let status = other.status(0);
        assert_eq!((status.error, status.len), (-libc::EPIPE, 0));
        assert!(target.iter().all(|&byte| byte == 0));
        assert_eq!(mine.status(0).state, PENDING);
        assert_eq!(other.recv(&[target.piece()], 0, 2, 0), Ok(DONE));
        assert_eq!((mine.status(0).state, mine.status(0).error), (DONE, 0));
        check(&target, 1, 0);
    });
}

#[test]
fn what_has_not_matched_or_is_over_is_the_same_with_force() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let memory = Memory::filled(PAGE, 1);
        let force = |slot| session.cancel_with(slot, CANCEL_FORCE);
        assert_eq!(force(0), Err(Errno(libc::EINVAL)), "nothing was posted");
        assert_eq!(
            session.cancel_with(0, 2),
            Err(Errno(libc::EINVAL)),
            "a flag that there is not"
        );
        assert_eq!(session.recv(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(session.send(&[memory.piece()], 0, 2, 1), Ok(PENDING));
        for slot in [0, 1] {
            assert_eq!(force(slot), Ok(()));
            assert_eq!(session.status(slot).error, -libc::ECANCELED);
            assert_eq!(force(slot), TOO_LATE);
        }
        let none = session.probe(0, 2, 0).map(|_| ());
        assert_eq!(none, Err(Errno(libc::EAGAIN)), "the message is gone");
    });
}

#[test]
fn a_session_ends_though_a_child_holds_it() {
    guest_test(|| {
        let token = token();
        let (mine, other) = (Session::member(token, 0), Session::member(token, 1));
        let memory = Memory::filled(LEN, 1);
        let handle = mine
            .expose(&[memory.piece()], EXPOSE_READ, To::Group)
            .expect("expose");
        assert_eq!(mine.send(&[memory.piece()], 1, 1, 0), Ok(PENDING));
        assert_eq!(mine.recv(&[memory.piece()], 1, 2, 1), Ok(PENDING));
        let target = Memory::new(LEN);
        assert_eq!(other.recv(&[target.piece()], 0, 3, 0), Ok(PENDING));
        let mut child = Child::fork(|line| {
            assert_eq!(mine.end(), STALE, "it is its parent's to end");
            line.say(0);
            line.hear();
        });
        child.line.hear();
        assert_eq!(state_of(&other, 0), MEMBER_PRESENT);
        assert_eq!(mine.end(), Ok(()));
        assert_eq!(state_of(&other, 0), MEMBER_CLOSED);
        assert_eq!(other.status(0).error, -libc::EPIPE);
        let copied = other.copy(handle, 0, &[target.piece()], COPY_READ);
        assert_eq!(copied, (0, Err(Errno(libc::ENOENT))));
        let none = other.probe(0, 1, 0).map(|_| ());
        assert_eq!(none, Err(Errno(libc::EPIPE)), "its message is gone");
        assert_eq!(gauge("pinned_pages"), 0);
        assert_ne!(mine.header().ended, 0);
        // Nothing but its end can be asked for again.
        let piece = [memory.piece()];
        assert_eq!(mine.end(), Ok(()));
        assert_eq!(mine.revoke(handle), STALE);
        assert_eq!(mine.send(&piece, 1, 1, 2).err(), STALE.err());
        assert_eq!(mine.wait(&[], 0, 0).err(), STALE.err());
        assert_eq!(mine.map(PAGE, libc::PROT_READ).err(), STALE.err());
        // SAFETY: no argument.
        assert_eq!(unsafe { mine.raw(abi::PING, 0) }, STALE);
        let mut silent = Session::silent().expect("open");
        assert_eq!(silent.end(), Ok(()), "before hello, too");
        assert_eq!(silent.hello(0, 0).err(), STALE.err());
        child.line.say(0);
        child.join();
    });
}

#[test]
fn a_request_that_is_forgotten_stays_as_it_is_though_the_other_side_copies() {
    guest_test(|| {
        let token = token();
        let (mine, other) = (Session::member(token, 0), Session::member(token, 1));
        let memory = Memory::new(LEN);
        let (source, mut fault) = half(1);
        assert_eq!(mine.recv(&[memory.piece()], 1, 1, 0), Ok(PENDING));
        let itself = Memory::filled(LEN, 2);
        assert_eq!(mine.send(&[itself.piece()], 0, 2, 1), Ok(PENDING));
        let completions = mine.header().completions;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| other.send(&[source.piece()], 0, 1, 0));
            let page = fault.touched();
            assert_eq!(mine.end(), Ok(()));
            assert_eq!(gauge("pinned_pages"), 0);
            assert_eq!(mine.status(1).state, PENDING, "one to itself");
            fault.release(page);
            drop(fault);
            assert_eq!(sender.join().expect("no panic"), Ok(DONE));
            assert_eq!(other.status(0).error, -libc::EPIPE);
            assert_eq!(mine.status(0).state, PENDING);
            assert_eq!(mine.header().completions, completions);
        });
    });
}

#[test]
fn an_end_waits_for_no_thread_of_the_process_and_lets_none_begin_a_call() {
    guest_test(|| {
        let (mine, peer) = (Session::member(token(), 0), Session::primitives());
        let memory = Memory::filled(LEN, 1);
        let handle = peer
            .expose(&[memory.piece()], EXPOSE_READ, To::Session(mine.id))
            .expect("expose");
        let (target, mut fault) = half(2);
        assert_eq!(mine.recv(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| mine.wait(&[0], 1, -1).map(|_| ()));
            let copier = scope.spawn(|| mine.copy(handle, 0, &[target.piece()], COPY_READ));
            let page = fault.touched();
            assert_eq!(mine.end(), Err(Errno(libc::EBUSY)));
            assert_eq!(mine.cancel(0), STALE);
            // It may have come before it slept, or just now.
            let waited = waiter.join().expect("no panic");
            assert!(waited.is_ok() || waited == STALE, "{waited:?}");
            assert_eq!(mine.end(), Err(Errno(libc::EBUSY)), "the copy is there");
            fault.release(page);
            drop(fault);
            let (copied, result) = copier.join().expect("no panic");
            assert_eq!((copied, result), (LEN as u64, Ok(())), "it went on");
            wait_for("the end", || mine.end() == Ok(()));
        });
        check(&target, 1, 0);
        assert_eq!(state_after(&mine), STALE);
    });
}

fn state_after(session: &Session) -> Result<(), Errno> {
    session.call(abi::MEMBER, &mut abi::Member::default())
}

/// Sets what it names when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A buffer that a peer copies all the time.
struct Copied {
    memory: Memory,
    handle: AtomicU64,
    copies: AtomicU64,
    stop: AtomicBool,
}

impl Copied {
    /// Has the peer copy while `rounds` exposes the buffer and ends that, many times.
    fn beside(peer: &Session, rounds: impl FnOnce(&Self)) {
        // Each copy is of more than one piece that nobody interrupts.
        let mut memory = Memory::new(64 * PAGE);
        memory.fill(1);
        let copied = Self {
            memory,
            handle: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| copied.copy(peer));
            // The scope ends only when the copier has, also if `rounds` panics.
            let _stop = Stop(&copied.stop);
            rounds(&copied);
        });
    }

    fn copy(&self, peer: &Session) {
        let other = Memory::new(self.memory.len());
        while !self.stop.load(Relaxed) {
            let handle = self.handle.load(Relaxed);
            let (_, copied) = peer.copy(handle, 0, &[other.piece()], COPY_READ);
            let mut first = other.iter().step_by(PAGE);
            assert!(first.all(|byte| *byte != SECRET), "it was over");
            self.copies.fetch_add(u64::from(copied.is_ok()), Relaxed);
        }
    }

    /// It is exposed under this handle: waits until it was copied.
    fn is_exposed(&self, handle: u64) {
        let before = self.copies.load(Relaxed);
        self.handle.store(handle, Relaxed);
        wait_for("a copy", || self.copies.load(Relaxed) > before);
    }

    /// Writes into each page.
    fn write(&self, byte: u8) {
        for at in (0..self.memory.len()).step_by(PAGE) {
            // SAFETY: within the memory, to which no reference is in use.
            unsafe { self.memory.pointer().add(at).write_volatile(byte) };
        }
    }
}

#[test]
fn an_exposure_that_two_threads_end_is_over_for_either() {
    guest_test(|| {
        let (owner, peer) = (Session::primitives(), Session::primitives());
        Copied::beside(&peer, |copied| {
            for _ in 0..200 {
                let piece = [copied.memory.piece()];
                let handle = owner.expose(&piece, EXPOSE_READ, To::Session(peer.id));
                let handle = handle.expect("expose");
                copied.is_exposed(handle);
                let begun = AtomicBool::new(false);
                let revoke = || {
                    begun.store(true, Relaxed);
                    let revoked = owner.revoke(handle);
                    copied.write(SECRET);
                    revoked
                };
                let both = std::thread::scope(|scope| {
                    let second = scope.spawn(|| {
                        while !begun.load(Relaxed) {
                            std::hint::spin_loop();
                        }
                        revoke()
                    });
                    [revoke(), second.join().expect("no panic")]
                });
                assert_eq!(both.iter().filter(|revoked| revoked.is_ok()).count(), 1);
                copied.write(1);
            }
        });
    });
}
