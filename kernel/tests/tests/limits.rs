//! Limits: absurd lengths, RLIMIT_MEMLOCK, and being killed while much is pinned.

use limic_module_tests::abi::{self, COPY_READ, DONE, EXPOSE_READ, EXPOSE_WRITE, Iov};
use limic_module_tests::{
    Child, Errno, Memory, PAGE, Session, To, guest_test, lock_at_most, token,
};

#[test]
fn lengths_of_2_to_the_63_and_addresses_that_wrap() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let memory = Memory::new(PAGE);
        let base = memory.address();
        let (einval, efault) = (Errno(libc::EINVAL), Errno(libc::EFAULT));
        for (pieces, error) in [
            (vec![Iov { base, len: 1 << 63 }], einval),
            (
                vec![Iov {
                    base,
                    len: u64::MAX,
                }],
                einval,
            ),
            (
                vec![Iov {
                    base,
                    len: abi::MAX_LEN + 1,
                }],
                einval,
            ),
            (vec![Iov { base, len: 1 << 63 }; 2], einval),
            (
                vec![
                    Iov {
                        base,
                        len: u64::MAX,
                    },
                    Iov { base, len: 2 },
                ],
                einval,
            ),
            (
                vec![
                    Iov {
                        base,
                        len: abi::MAX_LEN
                    };
                    2
                ],
                einval,
            ),
            (
                vec![Iov {
                    base: u64::MAX - 4,
                    len: 16,
                }],
                efault,
            ),
            (
                vec![Iov {
                    base: 1 << 63,
                    len: 16,
                }],
                efault,
            ),
            (
                vec![Iov {
                    base: 0xffff_8880_0000_0000,
                    len: 16,
                }],
                efault,
            ),
            (
                vec![Iov {
                    base: (1 << 47) - 8,
                    len: 64,
                }],
                efault,
            ),
            (
                vec![Iov {
                    base,
                    len: abi::MAX_LEN,
                }],
                efault,
            ),
        ] {
            let to = To::Session(session.id);
            for flags in [EXPOSE_READ, EXPOSE_WRITE] {
                assert_eq!(session.expose(&pieces, flags, to), Err(error), "{pieces:?}");
            }
            assert_eq!(session.send(&pieces, 0, 1, 0), Err(error), "{pieces:?}");
            assert_eq!(session.recv(&pieces, 0, 1, 0), Err(error), "{pieces:?}");
            let (copied, result) = session.copy(1, 0, &pieces, COPY_READ);
            assert_eq!(copied, 0);
            assert!(result == Err(error) || result == Err(Errno(libc::ENOENT)));
        }
    });
}

#[test]
fn the_limit_of_locked_memory_holds() {
    guest_test(|| {
        for pages in [0, 1, 16] {
            Child::fork(|_| {
                // Opened before, since the device asks for a user who may.
                let session = Session::member(token(), 0);
                lock_at_most(pages * PAGE as u64);
                let memory = Memory::filled(64 * PAGE, 1);
                let refused = Errno(libc::EAGAIN);
                let expose = |pages: u64| {
                    let piece = [memory.part(0, pages as usize * PAGE)];
                    session.expose(&piece, EXPOSE_READ, To::Session(session.id))
                };
                assert_eq!(expose(pages + 1), Err(refused));
                let post = |slot| session.recv(&[memory.part(8, PAGE)], 0, 1, slot);
                if pages < 2 {
                    // It lies on two pages.
                    assert_eq!(post(0), Err(refused));
                    let piece = [memory.part(PAGE - 1, 2)];
                    assert_eq!(session.send(&piece, 0, 1, 0), Err(refused));
                }
                if pages > 0 {
                    let handle = expose(pages).expect("just so many");
                    assert_eq!(expose(1), Err(refused));
                    // What does not have to be pinned goes on: copies, buffered sends, receives
                    // that come second.
                    let copy = session.copy(handle, 0, &[memory.part(0, PAGE)], COPY_READ);
                    assert_eq!(copy, (PAGE as u64, Ok(())));
                    assert_eq!(session.revoke(handle), Ok(()));
                    expose(pages).expect("it was given back");
                }
                let flags = abi::SEND_BUFFERED;
                let sent = session.send_with(&[memory.part(0, 100)], 0, 3, 1, flags);
                assert_eq!(sent, Ok(DONE));
                assert_eq!(session.recv(&[memory.part(200, 100)], 0, 3, 2), Ok(DONE));
                let status = std::fs::read_to_string("/proc/self/status").expect("status");
                let wanted = format!("VmPin:\t{:8} kB", pages * 4);
                assert!(status.contains(&wanted), "{wanted} in {status}");
            })
            .join();
        }
    });
}

#[test]
fn a_process_that_is_killed_while_it_pins_gives_everything_back() {
    guest_test(|| {
        for milliseconds in [1, 5, 10, 20, 50, 100] {
            let mut child = Child::fork(|line| {
                let session = Session::primitives();
                // Not touched: pinning brings 256 MiB in.
                let memory = Memory::new(256 << 20);
                line.say(0);
                let to = To::Session(session.id);
                let _ = session.expose(&[memory.piece()], EXPOSE_WRITE, to);
                line.hear();
            });
            child.line.hear();
            std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            child.kill();
        }
    });
}
