//! The rules of the interface itself: hand-shake, reserved fields, flags, unknown calls, 32-bit
//! callers, the mapping.

use limic_module_tests::abi::{self, CALLS};
use limic_module_tests::{Errno, Memory, PAGE, Session, To, guest_test, token};

#[test]
fn the_header_and_this_mirror_agree() {
    // Where the header lies is known in the checkout only, which is where this is run too.
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../limic_rs/uapi/limic.h");
    let text = std::fs::read_to_string(header).expect("the header");
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        let value = line
            .unwrap_or_else(|| panic!("no {name}"))
            .split_whitespace()
            .next();
        value
            .and_then(|value| value.parse::<u32>().ok())
            .expect("a number")
    };
    assert_eq!(value("LIMIC_UAPI_VERSION"), abi::VERSION);
    assert_eq!(value("LIMIC_MAX_IOV"), abi::MAX_IOV);
    assert_eq!(value("LIMIC_MAX_SLOTS"), abi::MAX_SLOTS);
    assert_eq!(value("LIMIC_MAX_RANKS"), abi::MAX_RANKS);
    assert_eq!(value("LIMIC_MAX_BUFFERED"), abi::MAX_BUFFERED as u32);
    assert_eq!(value("LIMIC_MAX_SESSIONS"), abi::MAX_SESSIONS);
}

#[test]
fn another_version_is_refused_and_told() {
    guest_test(|| {
        let session = Session::silent().expect("open");
        let mut hello = abi::Hello {
            version: abi::VERSION + 1,
            ..Default::default()
        };
        let refused = session.call(abi::HELLO, &mut hello);
        assert_eq!(refused, Err(Errno(libc::EPROTONOSUPPORT)));
        assert_eq!(hello.version, abi::VERSION, "the module says its own");
    });
}

#[test]
fn nothing_works_before_hello_and_hello_works_once() {
    guest_test(|| {
        let memory = Memory::filled(PAGE, 1);
        let mut session = Session::silent().expect("open");
        // SAFETY: it takes no argument.
        assert_eq!(unsafe { session.raw(abi::PING, 0) }, Ok(()));
        let early = session.expose(&[memory.piece()], abi::EXPOSE_READ, To::Session(1));
        assert_eq!(early, Err(Errno(libc::EPROTO)));
        assert_eq!(session.join(token(), 0).err(), Some(Errno(libc::EPROTO)));
        assert_eq!(
            session.recv(&[memory.piece()], 0, 0, 0),
            Err(Errno(libc::EPROTO))
        );
        let hello = session.hello(0, 0).expect("hello");
        assert_ne!(hello.session, 0);
        assert_eq!(session.hello(0, 0).err(), Some(Errno(libc::EALREADY)));
    });
}

#[test]
fn unknown_calls_and_sizes_are_refused() {
    guest_test(|| {
        let session = Session::primitives();
        let mut room = [0_u64; 64];
        for number in [
            0,
            0xc7,
            0xc7ff,
            abi::HELLO + (1 << 16),
            abi::COPY + (8 << 16),
        ] {
            // SAFETY: the argument is memory of this test, large enough for any size in the
            // numbers.
            let refused = unsafe { session.raw(number, room.as_mut_ptr() as usize) };
            assert_eq!(refused, Err(Errno(libc::ENOTTY)), "{number:#x}");
        }
    });
}

#[test]
fn unknown_flags_and_reserved_fields_are_refused() {
    guest_test(|| {
        let memory = Memory::filled(PAGE, 1);
        let list = [memory.piece()];
        let iov = list.as_ptr() as u64;
        let session = Session::member(token(), 0);
        let einval = Err(Errno(libc::EINVAL));
        let expose = abi::Expose {
            iov,
            nr_iov: 1,
            flags: abi::EXPOSE_READ,
            ..Default::default()
        };
        for bad in [
            abi::Expose { flags: 0, ..expose },
            abi::Expose {
                flags: 16 | 1,
                ..expose
            },
            abi::Expose {
                flags: abi::EXPOSE_ONCE,
                ..expose
            },
            abi::Expose { to: 3, ..expose },
            abi::Expose { rank: 1, ..expose },
            abi::Expose {
                session: 1,
                ..expose
            },
            abi::Expose {
                to: abi::TO_SESSION,
                ..expose
            },
            abi::Expose {
                reserved: 1,
                ..expose
            },
            abi::Expose {
                nr_iov: 0,
                ..expose
            },
            abi::Expose {
                nr_iov: abi::MAX_IOV + 1,
                ..expose
            },
            abi::Expose {
                to: abi::TO_RANK,
                rank: abi::MAX_RANKS,
                ..expose
            },
        ] {
            let mut arg = bad;
            assert_eq!(session.call(abi::EXPOSE, &mut arg), einval, "{bad:?}");
        }
        let send = abi::Send_ {
            iov,
            nr_iov: 1,
            ..Default::default()
        };
        for bad in [
            abi::Send_ { flags: 8, ..send },
            abi::Send_ {
                immediate: 1,
                ..send
            },
            abi::Send_ {
                reserved0: 1,
                ..send
            },
            abi::Send_ {
                reserved: 1,
                ..send
            },
            abi::Send_ { slot: 64, ..send },
            abi::Send_ { slot: !0, ..send },
            abi::Send_ { rank: 1024, ..send },
            abi::Send_ {
                rank: abi::ANY_RANK,
                ..send
            },
        ] {
            let mut arg = bad;
            assert_eq!(session.call(abi::SEND, &mut arg), einval, "{bad:?}");
        }
        let recv = abi::Recv {
            iov,
            nr_iov: 1,
            ..Default::default()
        };
        for bad in [
            abi::Recv { flags: 4, ..recv },
            abi::Recv {
                reserved0: 1,
                ..recv
            },
            abi::Recv { message: 1, ..recv },
            abi::Recv {
                flags: abi::RECV_MESSAGE,
                message: 1,
                tag: 1,
                ..recv
            },
            abi::Recv { slot: 64, ..recv },
            abi::Recv { rank: 1024, ..recv },
        ] {
            let mut arg = bad;
            assert_eq!(session.call(abi::RECV, &mut arg), einval, "{bad:?}");
        }
        for bad in [
            abi::Copy_ {
                flags: 0,
                ..Default::default()
            },
            abi::Copy_ {
                flags: 3,
                ..Default::default()
            },
            abi::Copy_ {
                flags: 5,
                ..Default::default()
            },
            abi::Copy_ {
                flags: 1,
                reserved: [0, 0, 1],
                ..Default::default()
            },
        ] {
            let mut arg = bad;
            assert_eq!(session.call(abi::COPY, &mut arg), einval, "{bad:?}");
        }
        for bad in [
            abi::Wait {
                flags: 4,
                ..Default::default()
            },
            abi::Wait {
                min: 1,
                ..Default::default()
            },
            abi::Wait {
                nr: !0,
                ..Default::default()
            },
            abi::Wait {
                reserved: [1, 0, 0],
                ..Default::default()
            },
        ] {
            let mut arg = bad;
            assert_eq!(session.call(abi::WAIT, &mut arg), einval, "{bad:?}");
        }
        assert_eq!(session.cancel(0), einval, "nothing was posted");
        let mut probe = abi::Probe {
            flags: abi::PROBE_IMMEDIATE,
            ..Default::default()
        };
        assert_eq!(session.call(abi::PROBE, &mut probe), einval);
        let mut member = abi::Member {
            reserved: 1,
            ..Default::default()
        };
        assert_eq!(session.call(abi::MEMBER, &mut member), einval);
        let mut revoke = abi::Revoke {
            reserved: 1,
            ..Default::default()
        };
        assert_eq!(session.call(abi::REVOKE, &mut revoke), einval);
        let fresh = Session::silent().expect("open");
        let hello = abi::Hello {
            version: abi::VERSION,
            ..Default::default()
        };
        for bad in [
            abi::Hello { flags: 1, ..hello },
            abi::Hello {
                slots: abi::MAX_SLOTS + 1,
                ..hello
            },
            abi::Hello {
                unexpected: 1,
                ..hello
            },
            abi::Hello {
                reserved: [0, 1, 0],
                ..hello
            },
        ] {
            let mut arg = bad;
            assert_eq!(fresh.call(abi::HELLO, &mut arg), einval, "{bad:?}");
        }
        let session = Session::primitives();
        for bad in [
            abi::Join {
                flags: 4,
                token: [1, 1],
                ..Default::default()
            },
            abi::Join {
                flags: abi::JOIN_FD,
                token: [1, 1],
                ..Default::default()
            },
            abi::Join {
                flags: abi::JOIN_FD | abi::JOIN_CREATE,
                ..Default::default()
            },
            abi::Join {
                flags: abi::JOIN_CREATE,
                fd: 1,
                ..Default::default()
            },
            abi::Join {
                flags: 1,
                size: abi::MAX_RANKS + 1,
                ..Default::default()
            },
            abi::Join {
                flags: 1,
                size: 4,
                rank: 4,
                ..Default::default()
            },
            abi::Join {
                reserved: [0, 0, 0, 1],
                ..Default::default()
            },
        ] {
            let mut arg = bad;
            assert_eq!(session.call(abi::JOIN, &mut arg), einval, "{bad:?}");
        }
    });
}

#[test]
fn structures_that_cannot_be_read_or_written_back_are_efault() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let memory = Memory::new(PAGE);
        memory.protect(libc::PROT_NONE);
        for (number, _) in CALLS {
            for arg in [0, 1, memory.address() as usize, 1 << 63, usize::MAX - 8] {
                // SAFETY: none of these addresses is memory that anybody uses.
                let refused = unsafe { session.raw(number, arg) };
                assert_eq!(
                    refused,
                    Err(Errno(libc::EFAULT)),
                    "call {number:#x} with {arg:#x}"
                );
            }
        }
    });
}

/// A call with a structure that can be read but not written.
fn refuse<T: abi::Plain>(session: &Session, number: std::ffi::c_ulong, arg: &T) {
    let page = Memory::new(PAGE);
    // SAFETY: the page has room for it, and nobody else knows the page.
    unsafe { page.pointer().cast::<T>().write(*arg) };
    page.protect(libc::PROT_READ);
    // SAFETY: the page is readable and holds a structure.
    let refused = unsafe { session.raw(number, page.address() as usize) };
    assert_eq!(refused, Err(Errno(libc::EFAULT)), "call {number:#x}");
}

#[test]
fn a_call_whose_structure_cannot_be_written_back_changes_nothing() {
    guest_test(|| {
        let mut session = Session::silent().expect("open");
        let hello = abi::Hello {
            version: abi::VERSION,
            slots: 8,
            ..Default::default()
        };
        refuse(&session, abi::HELLO, &hello);
        session.hello(8, 0).expect("it was not said yet");
        let token = token();
        let join = abi::Join {
            token,
            flags: abi::JOIN_CREATE,
            ..Default::default()
        };
        refuse(&session, abi::JOIN, &join);
        session.join(token, 0).expect("it has not joined yet");
        refuse(&session, abi::MEMBER, &abi::Member::default());

        let (memory, other) = (Memory::filled(PAGE, 1), Memory::new(PAGE));
        let (from, to) = ([memory.piece()], [other.piece()]);
        let expose = abi::Expose {
            iov: from.as_ptr() as u64,
            nr_iov: 1,
            flags: abi::EXPOSE_READ | abi::EXPOSE_ONCE,
            ..Default::default()
        };
        refuse(&session, abi::EXPOSE, &expose);
        assert_eq!(limic_module_tests::gauge("exposures"), 0);
        let handle = session.expose(&from, expose.flags, To::Group);
        let handle = handle.expect("expose");
        let copy = abi::Copy_ {
            handle,
            iov: to.as_ptr() as u64,
            nr_iov: 1,
            flags: abi::COPY_READ,
            ..Default::default()
        };
        refuse(&session, abi::COPY, &copy);
        assert!(other.iter().all(|&byte| byte == 0));
        let copied = session.copy(handle, 0, &to, abi::COPY_READ);
        assert_eq!(copied, (PAGE as u64, Ok(())), "it was not used up");

        let send = abi::Send_ {
            iov: from.as_ptr() as u64,
            nr_iov: 1,
            tag: 3,
            ..Default::default()
        };
        refuse(&session, abi::SEND, &send);
        let none = session.probe(0, 3, 0).map(|_| ());
        assert_eq!(none, Err(Errno(libc::EAGAIN)));
        let recv = abi::Recv {
            iov: to.as_ptr() as u64,
            nr_iov: 1,
            tag: 3,
            mask: !0,
            ..Default::default()
        };
        refuse(&session, abi::RECV, &recv);
        assert_eq!(session.status(0).state, abi::IDLE);
        // The receive is not there, so the message waits; and it waits still when it could not be
        // taken.
        assert_eq!(session.send(&from, 0, 3, 0), Ok(abi::PENDING));
        let probe = abi::Probe {
            tag: 3,
            mask: !0,
            flags: abi::PROBE_TAKE,
            ..Default::default()
        };
        refuse(&session, abi::PROBE, &probe);
        let taken = session.probe(0, 3, abi::PROBE_TAKE).expect("it is there");
        let received = session.recv_taken(&to, taken.message, 1);
        assert_eq!(received, Ok(abi::DONE));
        let wait = abi::Wait::default();
        refuse(&session, abi::WAIT, &wait);
    });
}

#[test]
fn the_status_area_is_read_only_and_of_its_size() {
    guest_test(|| {
        let mut session = Session::silent().expect("open");
        assert_eq!(
            session.map(PAGE, libc::PROT_READ).err(),
            Some(Errno(libc::EPROTO))
        );
        let hello = session.hello(63, 0).expect("hello");
        assert_eq!(hello.status_bytes, 4096);
        assert_eq!(hello.unexpected, 1024);
        assert_eq!((session.header().version, session.header().slots), (1, 63));
        let write = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(session.map(PAGE, write).err(), Some(Errno(libc::EACCES)));
        assert_eq!(
            session.map(2 * PAGE, libc::PROT_READ).err(),
            Some(Errno(libc::EINVAL))
        );
        let base = session
            .map(PAGE, libc::PROT_READ)
            .expect("a second mapping");
        // SAFETY: the mapping made just now.
        unsafe {
            let raised = libc::mprotect(base.cast_mut().cast(), PAGE, write);
            assert_eq!((raised, Errno::last()), (-1, Errno(libc::EACCES)));
            libc::munmap(base.cast_mut().cast(), PAGE);
        }
        let plain = Session::primitives();
        assert_eq!(
            plain.map(PAGE, libc::PROT_READ).err(),
            Some(Errno(libc::EPERM))
        );
    });
}
