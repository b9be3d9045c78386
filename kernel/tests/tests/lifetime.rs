//! Whatever happens to a process or its memory, the module undoes what it held, and answers the others.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use limic_module_tests::abi::{
    COPY_READ, COPY_WRITE, DONE, EXPOSE_READ, EXPOSE_WRITE, JOIN, PENDING,
};
use limic_module_tests::{
    Child, Errno, Fault, Ledger, Memory, PAGE, Session, To, abi, check, fill, gauge, guest_test,
    in_guest, signal, token, wait_for,
};

const LEN: usize = 40 * PAGE;

/// Unloads the module, without waiting.
fn unload() -> io::Result<()> {
    // SAFETY: a name that ends with zero; the module is not in use by this process but through files.
    let done =
        unsafe { libc::syscall(libc::SYS_delete_module, c"limic".as_ptr(), libc::O_NONBLOCK) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[test]
fn the_module_stays_while_a_file_is_open() {
    guest_test(|| {
        let session = Session::primitives();
        let refused = unload().expect_err("it is in use");
        let number = refused.raw_os_error();
        assert!(
            matches!(number, Some(libc::EAGAIN | libc::EBUSY)),
            "{refused}"
        );
        // A mapping of the status area counts as well.
        let mut mapped = Session::silent().expect("open");
        mapped.hello(8, 0).expect("hello");
        drop(session);
        // SAFETY: the session's descriptor; its file object is leaked below, so it is closed once.
        unsafe { libc::close(mapped.descriptor()) };
        assert!(unload().is_err(), "the mapping keeps it");
        assert_eq!(mapped.header().slots, 8);
        // The number of the closed descriptor becomes valid again for the drop of the session.
        let placeholder = File::open("/dev/null").expect("open");
        // SAFETY: both are descriptors of this test.
        unsafe { libc::dup2(placeholder.as_raw_fd(), mapped.descriptor()) };
    });
}

#[test]
fn a_forked_child_cannot_use_the_session() {
    guest_test(|| {
        let token = token();
        let session = Session::member(token, 0);
        let memory = Memory::filled(LEN, 1);
        let handle = session
            .expose(&[memory.piece()], EXPOSE_READ, To::Group)
            .expect("expose");
        assert_eq!(session.recv(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        Child::fork(|_| {
            let stale = Err(Errno(libc::ESTALE));
            let target = Memory::new(PAGE);
            let pieces = [target.piece()];
            assert_eq!(session.copy(handle, 0, &pieces, COPY_READ).1, stale);
            assert_eq!(session.send(&pieces, 0, 1, 1).err(), stale.err());
            assert_eq!(session.revoke(handle), stale);
            assert_eq!(session.cancel(0), stale);
            assert_eq!(session.map(PAGE, libc::PROT_READ).err(), stale.err());
            let mut join = abi::Join::default();
            assert_eq!(session.call(JOIN, &mut join), stale);
            // SAFETY: no argument.
            assert_eq!(unsafe { session.raw(abi::PING, 0) }, stale);
            // The status area is not inherited: nothing is mapped there.
            let mut found = 0_u8;
            let area = (&raw mut found, session.status_address());
            // SAFETY: mincore looks at the mapping only.
            let inherited = unsafe { libc::mincore(area.1.cast(), PAGE, area.0) };
            assert_eq!((inherited, Errno::last()), (-1, Errno(libc::ENOMEM)));
        })
        .join();
        // The child's end has not touched it.
        assert_eq!(session.status(0).state, PENDING);
        assert_eq!(session.revoke(handle), Ok(()));
    });
}

#[test]
fn what_the_parent_pinned_stays_its_own_over_fork() {
    guest_test(|| {
        let session = Session::primitives();
        let mut memory = Memory::filled(LEN, 1);
        let target = Memory::new(LEN);
        let flags = EXPOSE_READ | EXPOSE_WRITE;
        let handle = session
            .expose(&[memory.piece()], flags, To::Session(session.id))
            .expect("expose");
        let mut child = Child::fork(|line| {
            line.hear();
            check(&memory, 1, 0);
        });
        // Without the kernel's care for pins, this write would move the parent to other pages.
        fill(&mut memory, 2);
        session
            .copy(handle, 0, &[target.piece()], COPY_READ)
            .1
            .expect("copy");
        check(&target, 2, 0);
        let third = Memory::filled(LEN, 3);
        session
            .copy(handle, 0, &[third.piece()], COPY_WRITE)
            .1
            .expect("copy");
        check(&memory, 3, 0);
        child.line.say(0);
        child.join();
    });
}

#[test]
fn exec_ends_the_session_even_if_the_descriptor_stays_open() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 0);
        let mut child = Child::fork(|line| {
            let session = Session::member(token, 1);
            let memory = Memory::filled(LEN, 1);
            let handle = session
                .expose(&[memory.piece()], EXPOSE_READ, To::Group)
                .expect("expose");
            session.send(&[memory.piece()], 0, 1, 0).expect("send");
            // SAFETY: a descriptor of this test, which the new program is to inherit.
            unsafe { libc::fcntl(session.descriptor(), libc::F_SETFD, 0) };
            line.say(handle);
            line.hear();
            let error = exec(&["/bin/sleep", "60"]);
            panic!("exec: {error}");
        });
        let handle = child.line.hear();
        let target = Memory::new(LEN);
        let pieces = [target.piece()];
        assert_eq!(mine.copy(handle, 0, &pieces, COPY_READ).1, Ok(()));
        assert_eq!(mine.recv(&pieces, 1, 9, 0), Ok(PENDING));
        child.line.say(0);
        wait_for("the departure", || mine.header().departures == 1);
        let end = Errno(libc::ENOENT);
        assert_eq!(mine.copy(handle, 0, &pieces, COPY_READ), (0, Err(end)));
        assert_eq!(mine.status(0).error, -libc::EPIPE);
        assert_eq!(mine.recv(&pieces, 1, 1, 1), Err(Errno(libc::EPIPE)));
        wait_for("the unpinning", || gauge("pinned_pages") == 0);
        // The file is open still, in a program that cannot use it.
        assert!(unload().is_err());
        child.kill();
    });
}

fn exec(words: &[&str]) -> io::Error {
    use std::os::unix::process::CommandExt;
    Command::new(words[0]).args(&words[1..]).exec()
}

#[test]
fn the_end_of_the_owner_counts_and_not_the_last_descriptor() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 0);
        let mut owner = Child::fork(|line| {
            let session = Session::member(token, 1);
            let memory = Memory::filled(LEN, 1);
            let handle = session
                .expose(&[memory.piece()], EXPOSE_READ, To::Group)
                .expect("expose");
            // A grandchild inherits the descriptor and lives on.
            // SAFETY: it goes on in this thread alone, and only sleeps.
            if unsafe { libc::fork() } == 0 {
                // SAFETY: plain system calls.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                    libc::sleep(5);
                    libc::_exit(0)
                }
            }
            line.say(handle);
            line.hear();
        });
        let handle = owner.line.hear();
        let target = Memory::new(LEN);
        assert_eq!(mine.copy(handle, 0, &[target.piece()], COPY_READ).1, Ok(()));
        owner.kill();
        wait_for("the departure", || mine.header().departures == 1);
        let gone = mine.copy(handle, 0, &[target.piece()], COPY_READ);
        assert_eq!(gone, (0, Err(Errno(libc::ENOENT))));
        wait_for("the unpinning", || gauge("pinned_pages") == 0);
    });
}

/// Where a process is when it is killed.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It has a session.
    Open,
    /// It is a member of the group.
    Joined,
    /// It exposed memory.
    Exposed,
    /// It posted a send, and a receive.
    Posted,
    /// Its send was taken by a probe.
    Probed,
    /// It sleeps in LIMIC_IOC_WAIT.
    Waiting,
    /// It sleeps in a page fault while it copies out of an exposure.
    Copying,
    /// It sleeps in a page fault while it receives a message of the survivor.
    Receiving,
    /// It sleeps in a page fault while it sends into a receive of the survivor.
    Sending,
}

const STEPS: [Step; 9] = [
    Step::Open,
    Step::Joined,
    Step::Exposed,
    Step::Posted,
    Step::Probed,
    Step::Waiting,
    Step::Copying,
    Step::Receiving,
    Step::Sending,
];

/// What the process that will be killed does, up to `step`.
fn up_to(step: Step, token: [u64; 2], handle: u64, line: &mut limic_module_tests::Line) {
    let mut session = Session::silent().expect("open");
    session.hello(16, 0).expect("hello");
    let memory = Memory::filled(LEN, 1);
    let held_back = Memory::new(LEN);
    if matches!(step, Step::Open) {
        line.say(0);
        line.hear();
    }
    session.join(token, 1).expect("join");
    let to_group = || session.expose(&[memory.piece()], EXPOSE_READ | EXPOSE_WRITE, To::Group);
    let mut in_fault = |act: &(dyn Fn() + Sync)| {
        let mut fault = Fault::hold(&held_back, 4 * PAGE);
        std::thread::scope(|scope| {
            scope.spawn(act);
            let _ = fault.touched();
            line.say(0);
            line.hear();
        });
    };
    match step {
        Step::Open | Step::Joined => (),
        Step::Exposed => {
            to_group().expect("expose");
        }
        Step::Posted | Step::Probed | Step::Waiting => {
            to_group().expect("expose");
            session.send(&[memory.piece()], 0, 1, 0).expect("send");
            session.recv(&[memory.piece()], 0, 2, 1).expect("recv");
            session
                .recv(&[held_back.piece()], abi::ANY_RANK, 3, 2)
                .expect("recv");
            if matches!(step, Step::Waiting) {
                line.say(0);
                session.wait(&[0, 1, 2], 1, -1).expect("killed before");
            }
        }
        Step::Copying => in_fault(&|| {
            let _ = session.copy(handle, 0, &[held_back.piece()], COPY_READ);
        }),
        Step::Receiving => in_fault(&|| {
            let _ = session.recv(&[held_back.piece()], 0, 7, 0);
        }),
        Step::Sending => in_fault(&|| {
            let _ = session.send(&[held_back.piece()], 0, 8, 0);
        }),
    }
    line.say(0);
    line.hear();
}

#[test]
fn a_process_is_killed_at_every_step() {
    guest_test(|| {
        for step in STEPS {
            let ledger = Ledger::open();
            let token = token();
            let mine = Session::member(token, 0);
            let own = Memory::filled(LEN, 5);
            let target = Memory::new(LEN);
            let handle = mine
                .expose(&[own.piece()], EXPOSE_READ | EXPOSE_WRITE, To::Group)
                .expect("expose");
            assert_eq!(
                mine.recv(&[target.piece()], abi::ANY_RANK, 99, 5),
                Ok(PENDING)
            );
            let early = matches!(step, Step::Receiving | Step::Sending);
            let mut child = Child::fork(|line| {
                line.hear();
                up_to(step, token, handle, line);
            });
            if matches!(step, Step::Sending) {
                assert_eq!(
                    mine.recv(&[target.piece()], abi::ANY_RANK, 8, 1),
                    Ok(PENDING)
                );
            }
            if matches!(step, Step::Receiving) {
                // The receiver's rank is not there yet: a third member keeps its place.
                child.line.say(0);
                let sent = || mine.send(&[own.piece()], 1, 7, 1);
                wait_for("the receiver", || sent() != Err(Errno(libc::ESRCH)));
            } else {
                child.line.say(0);
            }
            child.line.hear();
            if matches!(step, Step::Probed) {
                let seen = mine.probe(1, 1, abi::PROBE_TAKE).expect("it is there");
                assert_eq!(seen.len, LEN as u64);
            }
            child.kill();
            if early {
                let status = mine.finish(1);
                assert_eq!(status.error, -libc::EPIPE, "{step:?}");
                assert!(status.len <= 4 * PAGE as u64, "{step:?}: {}", status.len);
            }
            if !matches!(step, Step::Open) {
                wait_for("the departure", || mine.header().departures == 1);
                let gone = mine.send(&[own.piece()], 1, 1, 0);
                assert_eq!(gone, Err(Errno(libc::EPIPE)), "{step:?}");
                let none = mine.recv(&[target.piece()], 1, 1, 0);
                assert_eq!(none, Err(Errno(libc::EPIPE)), "{step:?}");
            }
            assert_eq!(
                mine.status(5).state,
                PENDING,
                "a receive from anybody stays"
            );
            assert_eq!(mine.cancel(5), Ok(()));
            drop(mine);
            ledger.close();
        }
    });
}

#[test]
fn both_sides_are_killed_at_once() {
    guest_test(|| {
        for round in 0..20_u64 {
            let ledger = Ledger::open();
            let token = token();
            let run = |rank: u32| {
                move |line: &mut limic_module_tests::Line| {
                    let session = Session::member(token, rank);
                    let (out, back) = (Memory::filled(LEN, 1), Memory::new(LEN));
                    line.say(0);
                    line.hear();
                    for tag in 0.. {
                        let slot = (tag % 30) as u32;
                        let _ = session.send(&[out.piece()], 1 - rank, tag % 3, slot);
                        let _ = session.recv(&[back.piece()], 1 - rank, tag % 3, 30 + slot);
                    }
                }
            };
            let mut both = [Child::fork(run(0)), Child::fork(run(1))];
            for child in &mut both {
                child.line.hear();
            }
            for child in &mut both {
                child.line.say(0);
            }
            std::thread::sleep(Duration::from_millis(1 + round * 3));
            let [first, second] = both;
            signal(second.pid(), libc::SIGKILL);
            first.kill();
            second.kill();
            ledger.close();
        }
    });
}

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
                // The second signal ends it in any case but a restarted one, where the handler cancels.
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

/// Waits until a thread of the process sleeps in an ioctl.
fn sleeps_in_ioctl(pid: libc::pid_t) {
    wait_for("a process asleep in ioctl", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let asleep = stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" S"));
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        // Without /proc/PID/syscall in the kernel, being asleep has to do.
        asleep && call.map_or(true, |call| call.starts_with("16 "))
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

#[test]
fn closing_undoes_everything_in_any_order() {
    if !in_guest() {
        return;
    }
    for order in 0..6 {
        guest_test(|| {
            let token = token();
            let memory = Memory::filled(LEN, 1);
            let sessions: Vec<_> = (0..3).map(|rank| Session::member(token, rank)).collect();
            for (rank, session) in sessions.iter().enumerate() {
                let next = (rank as u32 + 1) % 3;
                session.send(&[memory.piece()], next, 1, 0).expect("send");
                session.recv(&[memory.piece()], next, 2, 1).expect("recv");
                session
                    .recv(&[memory.piece()], abi::ANY_RANK, 3, 2)
                    .expect("recv");
                let taken = session.probe(abi::ANY_RANK, 1, abi::PROBE_TAKE);
                let _ = taken.map(|seen| assert_eq!(seen.len, LEN as u64));
                for to in [To::Group, To::Rank(next), To::Session(session.id)] {
                    session
                        .expose(&[memory.piece()], EXPOSE_READ, to)
                        .expect("expose");
                }
            }
            let mut sessions: Vec<_> = sessions.into_iter().map(Some).collect();
            for place in [
                [0, 1, 2],
                [0, 2, 1],
                [1, 0, 2],
                [1, 2, 0],
                [2, 0, 1],
                [2, 1, 0],
            ][order]
            {
                sessions[place] = None;
            }
        });
    }
}
