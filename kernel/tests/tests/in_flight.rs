//! Memory that is unmapped or protected, and signals that come, while a call or request is under
//! way.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use limic_module_tests::abi::{COPY_READ, DONE, EXPOSE_READ, EXPOSE_WRITE, PENDING};
use limic_module_tests::{
    Child, Errno, Memory, PAGE, Session, To, check, guest_test, signal, sleeps_in_ioctl, token,
};

const LEN: usize = 40 * PAGE;

#[test]
fn memory_is_unmapped_while_it_is_posted() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let memory = Memory::filled(LEN, 1);
        // A send whose buffer goes: the message is what was there.
        assert_eq!(session.send(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        memory.punch(0, LEN / 2);
        let target = Memory::new(LEN);
        assert_eq!(session.recv(&[target.piece()], 0, 1, 1), Ok(DONE));
        check(&target, 1, 0);
        // A receive whose buffer goes: the bytes go nowhere, and nobody else's memory is hit.
        let lost = Memory::new(LEN);
        assert_eq!(session.recv(&[lost.piece()], 0, 2, 2), Ok(PENDING));
        lost.punch(0, LEN);
        let other = Memory::filled(LEN, 3);
        assert_eq!(session.send(&[target.piece()], 0, 2, 3), Ok(DONE));
        assert_eq!(session.status(2).error, 0);
        check(&other, 3, 0);
        // The second one finds a hole in its own memory.
        let holed = Memory::filled(LEN, 4);
        holed.punch(8 * PAGE, PAGE);
        assert_eq!(session.send(&[target.piece()], 0, 5, 4), Ok(PENDING));
        assert_eq!(session.recv(&[holed.piece()], 0, 5, 5), Ok(DONE));
        let (sender, receiver) = (session.status(4), session.status(5));
        assert_eq!(
            (sender.error, receiver.error),
            (-libc::EPIPE, -libc::EFAULT)
        );
        assert_eq!(
            (sender.len, receiver.len),
            (8 * PAGE as u64, 8 * PAGE as u64)
        );
        check(&holed[..8 * PAGE], 1, 0);
        // The same of a copy.
        let handle = session
            .expose(&[target.piece()], EXPOSE_READ, To::Session(session.id))
            .expect("expose");
        let (copied, result) = session.copy(handle, 0, &[holed.piece()], COPY_READ);
        assert_eq!(
            (copied, result),
            (8 * PAGE as u64, Err(Errno(libc::EFAULT)))
        );
    });
}

#[test]
fn memory_is_protected_before_and_while_it_is_posted() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let memory = Memory::filled(LEN, 1);
        let target = Memory::filled(LEN, 2);
        let read_only = Memory::filled(LEN, 3);
        read_only.protect(libc::PROT_READ);
        let fault = Err(Errno(libc::EFAULT));
        // A receive into memory that may not be written: refused when it is posted ...
        assert_eq!(session.recv(&[read_only.piece()], 0, 1, 0), fault);
        let refused = session.expose(&[read_only.piece()], EXPOSE_WRITE, To::Group);
        assert_eq!(refused.err(), fault.err());
        // ... and an error of the receive if it comes second.
        assert_eq!(session.send(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(session.recv(&[read_only.piece()], 0, 1, 1), Ok(DONE));
        assert_eq!(session.status(1).error, -libc::EFAULT);
        assert_eq!(session.status(0).error, -libc::EPIPE);
        check(&read_only, 3, 0);
        // Sending from it is allowed.
        assert_eq!(session.send(&[read_only.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(session.recv(&[target.piece()], 0, 1, 1), Ok(DONE));
        check(&target, 3, 0);
        // What is protected after it was posted was promised before.
        assert_eq!(session.recv(&[target.piece()], 0, 1, 1), Ok(PENDING));
        target.protect(libc::PROT_READ);
        assert_eq!(session.send(&[memory.piece()], 0, 1, 0), Ok(DONE));
        check(&target, 1, 0);
        memory.protect(libc::PROT_NONE);
        assert_eq!(session.send(&[memory.piece()], 0, 1, 0), fault);
    });
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn heard(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Calls `heard` for SIGUSR1, with or without restarting system calls.
fn handle_signals(flags: libc::c_int) {
    // SAFETY: the handler touches an atomic only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = heard as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
}

#[test]
fn signals_end_a_wait_once_or_let_it_go_on() {
    guest_test(|| {
        for (flags, limit, interrupted) in [
            (0, -1, true),
            (0, 30_000_000_000, true),
            (libc::SA_RESTART, 30_000_000_000, true),
            (libc::SA_RESTART, -1, false),
        ] {
            let mut child = Child::fork(|line| {
                handle_signals(flags);
                let session = Session::member(token(), 0);
                let memory = Memory::filled(LEN, 1);
                assert_eq!(session.recv(&[memory.piece()], 0, 1, 0), Ok(PENDING));
                line.say(0);
                let mut ended = session.wait(&[0], 1, limit);
                if interrupted {
                    assert_eq!(ended.err(), Some(Errno(libc::EINTR)));
                    // The request is as it was; the wait is said again.
                    assert_eq!(session.status(0).state, PENDING);
                    line.say(0);
                    ended = session.wait(&[0], 1, limit);
                }
                // The second signal ends it in any case but a restarted one, where the handler
                // cancels.
                let _ = ended;
                assert!(SIGNALS.load(Ordering::Relaxed) >= 1);
            });
            child.line.hear();
            sleeps_in_ioctl(child.pid());
            signal(child.pid(), libc::SIGUSR1);
            if interrupted {
                child.line.hear();
                sleeps_in_ioctl(child.pid());
                signal(child.pid(), libc::SIGUSR1);
                child.join();
            } else {
                // It sleeps again, in the same call; only a kill gets it out.
                std::thread::sleep(Duration::from_millis(50));
                sleeps_in_ioctl(child.pid());
                child.kill();
            }
        }
    });
}

#[test]
fn a_signal_that_does_not_kill_does_not_cut_a_copy_short() {
    guest_test(|| {
        let mut child = Child::fork(|line| {
            handle_signals(0);
            let session = Session::primitives();
            let memory = Memory::filled(LEN, 1);
            let target = Memory::new(LEN);
            let handle = session
                .expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id))
                .expect("expose");
            line.say(0);
            for _ in 0..2000 {
                let result = session.copy(handle, 0, &[target.piece()], COPY_READ);
                assert_eq!(result, (LEN as u64, Ok(())));
            }
            check(&target, 1, 0);
            assert!(SIGNALS.load(Ordering::Relaxed) > 0);
        });
        child.line.hear();
        for _ in 0..50 {
            signal(child.pid(), libc::SIGUSR1);
            std::thread::sleep(Duration::from_millis(2));
        }
        child.join();
    });
}
