//! Whatever happens to a process or its memory, the module undoes what it held, and answers the
//! others.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;

use limic_module_tests::abi::{COPY_READ, COPY_WRITE, EXPOSE_READ, EXPOSE_WRITE, JOIN, PENDING};
use limic_module_tests::{
    Child, Errno, Memory, PAGE, Session, To, abi, check, fill, gauge, guest_test, in_guest, token,
    wait_for,
};

const LEN: usize = 40 * PAGE;

/// Unloads the module, without waiting.
fn unload() -> io::Result<()> {
    // SAFETY: a name that ends with zero; the module is not in use by this process but through
    // files.
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
