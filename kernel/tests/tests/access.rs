//! Who reaches whom: other groups, users and user namespaces get nothing, not even whether a handle
//! exists.

use limic_module_tests::abi::{self, ANY_RANK, COPY_READ, EXPOSE_READ, JOIN, Join, PENDING};
use limic_module_tests::{Child, Errno, Memory, PAGE, Random, Session, To, guest_test, token};

const NOTHING: (u64, Result<(), Errno>) = (0, Err(Errno(libc::ENOENT)));

fn try_join(session: &Session, token: [u64; 2]) -> Option<Errno> {
    let mut join = Join {
        token,
        rank: ANY_RANK,
        ..Default::default()
    };
    session.call(JOIN, &mut join).err()
}

/// In a child: opens the device as another user, and asserts that nothing is there for it.
fn stranger(handles: &[u64], token: [u64; 2], become_other: impl FnOnce()) {
    let handles = handles.to_vec();
    // The stranger may open the device: the test is not about its mode.
    let path = std::ffi::CString::new(abi::DEVICE).expect("a path");
    // SAFETY: a path that ends with zero.
    assert_eq!(unsafe { libc::chmod(path.as_ptr(), 0o666) }, 0);
    Child::fork(|_| {
        become_other();
        let session = Session::primitives();
        let target = Memory::new(PAGE);
        for handle in handles {
            let reached = session.copy(handle, 0, &[target.piece()], COPY_READ);
            assert_eq!(reached, NOTHING);
            assert_eq!(session.revoke(handle), Err(Errno(libc::ENOENT)));
            // Neither does a wrong range or direction tell that it is there.
            let far = session.copy(handle, 1 << 30, &[target.piece()], COPY_READ);
            assert_eq!(far, NOTHING);
            let written = session.copy(handle, 0, &[target.piece()], abi::COPY_WRITE);
            assert_eq!(written, NOTHING);
        }
        assert_eq!(try_join(&session, token), Some(Errno(libc::ENOENT)));
        // The same token makes a group of its own, in which nobody else is.
        let own = session.join(token, ANY_RANK).expect("join");
        assert_eq!(own.rank, 0);
    })
    .join();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::chmod(path.as_ptr(), 0o660) }, 0);
}

/// A member of a group with an exposure of each kind, and their handles.
fn exposing(token: [u64; 2], memory: &Memory) -> (Session, Vec<u64>) {
    let session = Session::member(token, 0);
    let handles = [To::Group, To::Rank(0), To::Rank(1), To::Session(session.id)]
        .map(|to| {
            session
                .expose(&[memory.piece()], EXPOSE_READ, to)
                .expect("expose")
        })
        .to_vec();
    (session, handles)
}

#[test]
fn another_user_finds_nothing() {
    guest_test(|| {
        let (token, memory) = (token(), Memory::filled(PAGE, 1));
        let (_session, handles) = exposing(token, &memory);
        stranger(&handles, token, || {
            // SAFETY: plain system calls in a child with one thread.
            unsafe {
                assert_eq!(libc::setgid(1000), 0);
                assert_eq!(libc::setuid(1000), 0);
            }
        });
    });
}

#[test]
fn the_same_user_in_another_user_namespace_finds_nothing() {
    guest_test(|| {
        let (token, memory) = (token(), Memory::filled(PAGE, 1));
        let (_session, handles) = exposing(token, &memory);
        stranger(&handles, token, || {
            // SAFETY: a plain system call in a child with one thread.
            let done = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
            assert_eq!(done, 0, "unshare: {:?}", Errno::last());
            std::fs::write("/proc/self/uid_map", "0 0 1").expect("the same user, mapped to itself");
        });
    });
}

#[test]
fn another_group_of_the_same_user_finds_nothing() {
    guest_test(|| {
        let (token_here, memory) = (token(), Memory::filled(PAGE, 1));
        let (_session, handles) = exposing(token_here, &memory);
        let target = Memory::new(PAGE);
        let other = Session::member([token_here[0] ^ 4, token_here[1]], 1);
        for &handle in &handles {
            assert_eq!(other.copy(handle, 0, &[target.piece()], COPY_READ), NOTHING);
        }
        // A session in no group is no member either.
        let loner = Session::primitives();
        for &handle in &handles {
            assert_eq!(loner.copy(handle, 0, &[target.piece()], COPY_READ), NOTHING);
        }
        // The right group, but another rank than the one that was named.
        let second = Session::member(token_here, 2);
        let reached = |handle| second.copy(handle, 0, &[target.piece()], COPY_READ);
        assert_eq!(reached(handles[0]), (PAGE as u64, Ok(())));
        for &handle in &handles[1..] {
            assert_eq!(reached(handle), NOTHING);
        }
        let third = Session::member(token_here, 1);
        let reached = third.copy(handles[2], 0, &[target.piece()], COPY_READ);
        assert_eq!(reached, (PAGE as u64, Ok(())));
    });
}

#[test]
fn handles_and_tokens_cannot_be_guessed_from_others() {
    guest_test(|| {
        let session = Session::primitives();
        let memory = Memory::filled(PAGE, 1);
        let mut handles: Vec<u64> = (0..500)
            .map(|_| {
                session
                    .expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id))
                    .expect("expose")
            })
            .collect();
        // Neighbours of what one holds, and random numbers.
        let target = Memory::new(PAGE);
        let mut random = Random::new(5);
        for &handle in &handles {
            for guess in [handle + 1, handle - 1, handle ^ (1 << 63), random.next()] {
                let reached = session.copy(guess, 0, &[target.piece()], COPY_READ);
                assert_eq!(reached, NOTHING);
            }
        }
        handles.sort_unstable();
        // All bits move: no two share their upper 32, which 500 random ones do once in 30000 runs.
        let halves = handles.windows(2).filter(|it| it[0] >> 32 == it[1] >> 32);
        assert_eq!(halves.count(), 0);
        let mut made = Join {
            flags: abi::JOIN_CREATE,
            ..Default::default()
        };
        session.call(JOIN, &mut made).expect("join");
        assert_ne!(made.token, [0, 0]);
        let other = Session::primitives();
        let near = [made.token[0], made.token[1] + 1];
        assert_eq!(try_join(&other, near), Some(Errno(libc::ENOENT)));
        assert_eq!(try_join(&other, [0, 0]), Some(Errno(libc::ENOENT)));
        assert_eq!(try_join(&other, made.token), None);
    });
}

#[test]
fn a_descriptor_that_is_passed_on_gives_no_access() {
    guest_test(|| {
        let token = token();
        let (session, handles) = exposing(token, &Memory::filled(PAGE, 1));
        // Through fork, which passes it as SCM_RIGHTS would; the child keeps its user.
        Child::fork(|_| {
            let target = Memory::new(PAGE);
            let reached = session.copy(handles[0], 0, &[target.piece()], COPY_READ);
            assert_eq!(reached, (0, Err(Errno(libc::ESTALE))));
        })
        .join();
    });
}

#[test]
fn messages_do_not_cross_groups() {
    guest_test(|| {
        let (first, second) = (token(), [token()[0] ^ 4, 9]);
        let here = Session::member(first, 0);
        let there = Session::member(second, 0);
        let memory = Memory::new(PAGE);
        assert_eq!(here.recv(&[memory.piece()], ANY_RANK, 1, 0), Ok(PENDING));
        assert_eq!(
            there.send(&[memory.piece()], 0, 1, 0),
            Ok(PENDING),
            "to itself"
        );
        assert_eq!(here.status(0).state, PENDING);
        assert_eq!(here.probe(ANY_RANK, 1, 0).err(), Some(Errno(libc::EAGAIN)));
    });
}

#[test]
fn the_device_is_for_its_group_only() {
    guest_test(|| {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(abi::DEVICE)
            .expect("the device")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o660);
        Child::fork(|_| {
            // SAFETY: plain system calls in a child with one thread.
            unsafe {
                assert_eq!(libc::setgid(1000), 0);
                assert_eq!(libc::setuid(1000), 0);
            }
            let refused = Session::silent().expect_err("no permission");
            assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        })
        .join();
    });
}
