//! Many sessions of one process: they share what the kernel tells of its memory.

use std::fs::OpenOptions;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use limic_module_tests::abi::{
    COPY_READ, DEVICE, EXPOSE_LATCH, EXPOSE_READ, MAX_SESSIONS, PENDING,
};
use limic_module_tests::changes::{WAYS, replace};
use limic_module_tests::{
    Child, Errno, Latches, Memory, PAGE, Session, To, check, gauge, guest_test, token, wait_for,
};

const LEN: usize = 16 * PAGE;
const READ: u32 = EXPOSE_READ | EXPOSE_LATCH;

/// Exposes memory of the process, which other threads may be changing just now.
fn expose(session: &Session, memory: &Memory, latch: u32) -> u64 {
    let to = To::Session(session.id);
    let mut made = Err(Errno(libc::EBUSY));
    wait_for("a moment without a change", || {
        made = session.expose_behind(&[memory.piece()], READ, to, latch);
        made != Err(Errno(libc::EBUSY))
    });
    made.expect("expose")
}

#[test]
fn a_process_has_64_sessions_and_is_told_when_there_are_more() {
    guest_test(|| {
        let mut sessions: Vec<Session> = (0..MAX_SESSIONS).map(|_| Session::primitives()).collect();
        let full = Some(Errno(libc::EMFILE));
        let mut more: Vec<Session> = (0..40).map(|_| Session::silent().expect("open")).collect();
        for session in &mut more {
            assert_eq!(session.hello(0, 0).err(), full);
        }
        let mut child = Child::fork(|line| {
            // It has its own.
            assert_eq!(
                Session::primitives().hello(0, 0).err(),
                Some(Errno(libc::EALREADY))
            );
            line.say(0);
            line.hear();
        });
        child.line.hear();
        // Ended by its owner, though a child has it; and then the last one of it closed.
        sessions[7].end().expect("end");
        more[0].hello(0, 0).expect("there is room");
        assert_eq!(more[1].hello(0, 0).err(), full);
        child.line.say(0);
        child.join();
        drop(sessions.remove(20));
        more[1].hello(0, 0).expect("there is room");
        assert_eq!(more[2].hello(0, 0).err(), full);
    });
}

#[test]
fn every_session_hears_of_a_change() {
    guest_test(|| {
        for (what, change) in WAYS {
            println!("{what}");
            let sessions: Vec<Session> = (0..10).map(|_| Session::primitives()).collect();
            let latches: Vec<Latches> = sessions
                .iter()
                .map(|session| Latches::of(session).expect("map"))
                .collect();
            let (memory, other) = (Memory::filled(LEN, 1), Memory::new(LEN));
            let handles: Vec<u64> = sessions.iter().map(|it| expose(it, &memory, 3)).collect();
            // Those that go before hear nothing, and keep nobody else from it.
            let (sessions, latches) = (&sessions[..8], &latches[..8]);
            change(&memory);
            for latches in latches {
                assert!(latches.is_struck(3) && !latches.open(3), "{what}");
            }
            for (session, handle) in sessions.iter().zip(handles) {
                wait_for("the end of an exposure", || {
                    let copied = session.copy(handle, 0, &[other.piece()], COPY_READ);
                    copied.1 == Err(Errno(libc::ENOENT))
                });
            }
        }
    });
}

#[test]
fn sessions_that_come_and_go_while_memory_changes_are_told_right() {
    guest_test(|| {
        const ROUNDS: u64 = 300;
        let stop = AtomicBool::new(false);
        // So that what the kernel tells is told all the time.
        let lasting = Session::primitives();
        let lasting_latches = Latches::of(&lasting).expect("map");
        let (memory, other) = (Memory::new(LEN), Memory::new(LEN));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // So much that each change takes a while: sessions begin in the middle of one.
                let noise = Memory::filled(64 * LEN, 2);
                while !stop.load(SeqCst) {
                    noise.protect(libc::PROT_READ);
                    noise.protect(libc::PROT_READ | libc::PROT_WRITE);
                }
            });
            for seed in 0..ROUNDS {
                let session = Session::primitives();
                let latches = Latches::of(&session).expect("map");
                replace(&memory);
                // SAFETY: the test's own memory, mapped just now.
                unsafe { memory.pointer().write_bytes(seed as u8, LEN) };
                let handle = expose(&session, &memory, 0);
                assert!(latches.open(0));
                let copied = session.copy(handle, 0, &[other.piece()], COPY_READ);
                assert_eq!(copied, (LEN as u64, Ok(())));
                assert!(other.iter().all(|&byte| byte == seed as u8));
                assert!(latches.shut(0));
                replace(&memory);
                assert!(latches.is_struck(0));
            }
            stop.store(true, SeqCst);
        });
        // Nothing is under way any more, so nobody has to wait for it.
        let to = To::Session(lasting.id);
        let memory = Memory::filled(LEN, 5);
        let handle = lasting.expose_behind(&[memory.piece()], READ, to, 1);
        let handle = handle.expect("no change is under way");
        assert!(lasting_latches.open(1));
        let copied = lasting.copy(handle, 0, &[other.piece()], COPY_READ);
        assert_eq!(copied, (LEN as u64, Ok(())));
        check(&other, 5, 0);
    });
}

#[test]
fn all_sessions_of_a_process_end_with_it_though_another_has_them() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 0);
        let mut owner = Child::fork(|line| {
            let memory = Memory::filled(LEN, 1);
            let sessions: Vec<Session> = (1..=MAX_SESSIONS)
                .map(|rank| Session::member(token, rank))
                .collect();
            for session in &sessions {
                assert_eq!(session.send(&[memory.piece()], 0, 1, 0), Ok(PENDING));
            }
            // SAFETY: it goes on in this thread alone, and only sleeps.
            let heir = unsafe { libc::fork() };
            if heir == 0 {
                // SAFETY: plain system calls.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                    libc::pause();
                    libc::_exit(0)
                }
            }
            line.say(heir as u64);
            line.hear();
        });
        let heir = owner.line.hear() as libc::pid_t;
        owner.kill();
        wait_for("the departures", || {
            mine.header().departures == MAX_SESSIONS
        });
        assert_eq!(gauge("pinned_pages"), 0);
        assert_eq!(
            gauge("sessions"),
            1 + i64::from(MAX_SESSIONS),
            "they are held"
        );
        limic_module_tests::signal(heir, libc::SIGKILL);
    });
}

/// Whoever opens a misc device holds a lock that the opens of all others wait for, so nothing may
/// be done there that waits for a process's own memory.
#[test]
fn the_device_is_opened_while_the_process_changes_its_memory_for_long() {
    guest_test(|| {
        const MAPPINGS: usize = 20_000;
        const OPENS: u32 = 10;
        let many = Memory::new(2 * MAPPINGS * PAGE);
        for at in 0..MAPPINGS {
            // SAFETY: within the test's own memory, to which nothing refers.
            let done = unsafe {
                let page = many.pointer().add(2 * at * PAGE);
                libc::mprotect(page.cast(), PAGE, libc::PROT_NONE)
            };
            assert_eq!(done, 0, "{:?}", Errno::last());
        }
        let (forking, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let opened = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    let before = forking.load(SeqCst);
                    let file = OpenOptions::new().read(true).write(true).open(DEVICE);
                    drop(file.expect("open"));
                    if before && forking.load(SeqCst) {
                        opened.fetch_add(1, SeqCst);
                    }
                }
            });
            // A fork holds the lock of the address space until it has copied all mappings.
            wait_for("a fork during which the device was opened", || {
                opened.store(0, SeqCst);
                forking.store(true, SeqCst);
                // SAFETY: the child leaves at once.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(0) };
                }
                forking.store(false, SeqCst);
                // SAFETY: an own child.
                let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                assert_eq!(ended, child);
                println!("{} opens", opened.load(SeqCst));
                opened.load(SeqCst) >= OPENS
            });
            stop.store(true, SeqCst);
        });
    });
}
