//! The seven faults of LiMIC2's module, each of which must not come back.

use limic_module_tests::abi::{
    self, COPY_READ, COPY_WRITE, DONE, EXPOSE_READ, EXPOSE_WRITE, Iov, PENDING,
};
use limic_module_tests::{
    Child, Errno, Fault, Memory, PAGE, Random, Session, To, check, gauge, guest_test, token,
    wait_for,
};

const LEN: usize = 24 * PAGE;

fn kernel_log() -> String {
    const READ_ALL: i32 = 3;
    let mut text = vec![0_u8; 1 << 18];
    // SAFETY: the buffer is as long as the call is told.
    let len = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast(), text.len() as i32) };
    assert!(len >= 0, "the kernel's log cannot be read");
    text.truncate(len as usize);
    String::from_utf8_lossy(&text).into_owned()
}

/// 1. Addresses of the kernel's mm and task went to user space and were believed when they came
///    back.
#[test]
fn fault_1_nothing_from_user_space_is_taken_for_a_kernel_address() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let memory = Memory::filled(LEN, 1);
        let handle = session
            .expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id))
            .expect("expose");
        // What a descriptor gives away has no address in it: it is random, and does not lie where
        // kernel memory is.
        for number in [handle, session.id] {
            assert_ne!(
                number >> 47,
                0x1_ffff,
                "{number:#x} looks like a kernel address"
            );
        }
        // Whatever comes back in its place is looked up, and not there.
        let target = Memory::new(PAGE);
        let mut random = Random::new(11);
        for round in 0..3000 {
            let guess = match round % 3 {
                0 => 0xffff_8880_0000_0000 | (random.next() >> 20),
                1 => handle ^ (1 << (random.below(64))),
                _ => random.next(),
            };
            let result = session.copy(guess, 0, &[target.piece()], COPY_READ);
            assert_eq!(result, (0, Err(Errno(libc::ENOENT))));
            assert_eq!(session.revoke(guess), Err(Errno(libc::ENOENT)));
            let taken = session.recv_taken(&[target.piece()], guess, 0);
            assert_eq!(taken, Err(Errno(libc::ENOENT)));
        }
    });
}

/// 2. No check of the user, nor of consent.
#[test]
fn fault_2_another_user_and_whoever_was_not_named_get_nothing() {
    guest_test(|| {
        let memory = Memory::filled(LEN, 1);
        let mine = Session::primitives();
        let named = Session::primitives();
        let handle = mine
            .expose(&[memory.piece()], EXPOSE_READ, To::Session(named.id))
            .expect("expose");
        let target = Memory::new(PAGE);
        let copy = |session: &Session| session.copy(handle, 0, &[target.piece()], COPY_READ);
        assert_eq!(
            copy(&mine),
            (0, Err(Errno(libc::ENOENT))),
            "not even the owner"
        );
        assert_eq!(copy(&named), (PAGE as u64, Ok(())));
        // Consent is for one direction.
        let written = named.copy(handle, 0, &[target.piece()], COPY_WRITE);
        assert_eq!(written, (0, Err(Errno(libc::EACCES))));
        // To another user nothing exists, though it has a session of its own, and though the owner
        // names that.
        let device = std::ffi::CString::new(abi::DEVICE).expect("no zero in it");
        // SAFETY: a path that ends with zero; the mode is put back below.
        unsafe { assert_eq!(libc::chmod(device.as_ptr(), 0o666), 0) };
        let mut other = Child::fork(|line| {
            // SAFETY: plain system calls in a child with one thread.
            unsafe {
                assert_eq!(libc::setgid(7), 0);
                assert_eq!(libc::setuid(7), 0);
            }
            assert_eq!(copy(&named), (0, Err(Errno(libc::ESTALE))));
            let own = Session::primitives();
            line.say(own.id);
            let named = line.hear();
            for handle in [handle, named] {
                let copied = own.copy(handle, 0, &[target.piece()], COPY_READ);
                assert_eq!(copied, (0, Err(Errno(libc::ENOENT))));
                assert_eq!(own.revoke(handle), Err(Errno(libc::ENOENT)));
            }
        });
        let opened = other.line.try_hear();
        // SAFETY: as above.
        unsafe { assert_eq!(libc::chmod(device.as_ptr(), 0o660), 0) };
        let to = To::Session(opened.expect("the other user's session"));
        let named = mine.expose(&[memory.piece()], EXPOSE_READ, to);
        other.line.say(named.expect("expose"));
        other.join();
    });
}

/// 3. No reference on the sender's memory: use after free when it died.
#[test]
fn fault_3_a_sender_that_dies_leaves_nothing_behind_to_be_used() {
    guest_test(|| {
        for _ in 0..30 {
            let token = token();
            let mine = Session::member(token, 0);
            let mut sender = Child::fork(|line| {
                let session = Session::member(token, 1);
                let memory = Memory::filled(LEN, 6);
                let handle = session
                    .expose(&[memory.piece()], EXPOSE_READ, To::Group)
                    .expect("expose");
                session.send(&[memory.piece()], 0, 1, 0).expect("send");
                line.say(handle);
                line.hear();
            });
            let handle = sender.line.hear();
            let copied = std::thread::scope(|scope| {
                let copier = scope.spawn(|| {
                    let target = Memory::new(LEN);
                    loop {
                        let (copied, result) = mine.copy(handle, 0, &[target.piece()], COPY_READ);
                        check(&target[..copied as usize], 6, 0);
                        if let Err(error) = result {
                            return error;
                        }
                    }
                });
                sender.kill();
                copier.join().expect("no wrong byte")
            });
            assert!(
                matches!(copied, Errno(libc::ENOENT | libc::ECANCELED)),
                "{copied:?}"
            );
            let target = Memory::new(LEN);
            wait_for("the departure", || mine.header().departures == 1);
            let late = mine.recv(&[target.piece()], 1, 1, 0);
            assert_eq!(late, Err(Errno(libc::EPIPE)));
        }
    });
}

/// 4. The source was pinned for writing, so read-only memory could not be sent, and copies on write
///    were broken up.
#[test]
fn fault_4_sources_are_pinned_for_reading() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let target = Memory::new(LEN);
        let memory = Memory::filled(LEN, 2);
        memory.protect(libc::PROT_READ);
        assert_eq!(session.send(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(session.recv(&[target.piece()], 0, 1, 1), Ok(DONE));
        check(&target, 2, 0);
        let handle = session
            .expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id))
            .expect("expose");
        assert_eq!(
            session.copy(handle, 0, &[target.piece()], COPY_READ).1,
            Ok(())
        );
        // Constants of the program.
        static TEXT: [u8; 2 * PAGE] = [0x5a; 2 * PAGE];
        let piece = [Iov {
            base: TEXT.as_ptr() as u64,
            len: TEXT.len() as u64,
        }];
        assert_eq!(session.send(&piece, 0, 2, 0), Ok(PENDING));
        assert_eq!(session.recv(&[target.piece()], 0, 2, 1), Ok(DONE));
        assert_eq!(target[..TEXT.len()], TEXT);
        // Memory that is shared with a child until one of them writes: the child still sees what
        // was there.
        let shared = Memory::filled(LEN, 3);
        let mut child = Child::fork(|line| {
            line.hear();
            check(&shared, 3, 0);
        });
        assert_eq!(session.send(&[shared.piece()], 0, 3, 0), Ok(PENDING));
        assert_eq!(session.recv(&[target.piece()], 0, 3, 1), Ok(DONE));
        check(&target, 3, 0);
        child.line.say(0);
        child.join();
        // Writing into it is still refused.
        let refused = session.expose(&[memory.piece()], EXPOSE_WRITE, To::Group);
        assert_eq!(refused, Err(Errno(libc::EFAULT)));
    });
}

/// 5. When only part of the pages could be pinned, the loop went one further, and pointers never
///    set were released.
#[test]
fn fault_5_what_can_be_pinned_only_in_part_is_taken_back() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        for hole in [0, 1, 63, 127, 128, 129, 255, 256, 299] {
            let memory = Memory::filled(300 * PAGE, 1);
            memory.punch(hole * PAGE, PAGE);
            let pinned = gauge("pinned_pages");
            let to = To::Session(session.id);
            let efault = Err(Errno(libc::EFAULT));
            assert_eq!(session.expose(&[memory.piece()], EXPOSE_READ, to), efault);
            assert_eq!(session.send(&[memory.piece()], 0, 1, 0), efault.map(|_| 0));
            assert_eq!(session.recv(&[memory.piece()], 0, 1, 0), efault.map(|_| 0));
            // The hole is in the second piece.
            let good = Memory::filled(PAGE, 1);
            let both = [good.piece(), memory.piece(), good.piece()];
            assert_eq!(session.expose(&both, EXPOSE_READ, to), efault);
            assert_eq!(gauge("pinned_pages"), pinned, "hole in page {hole}");
        }
    });
}

/// 6. Copies did not look for signals nor let others run, and a fault in the middle leaked a
///    mapping.
#[test]
fn fault_6_copies_can_be_killed_and_let_others_run() {
    guest_test(|| {
        let len = 64 << 20;
        let mut child = Child::fork(|line| {
            let session = Session::primitives();
            let memory = Memory::new(len);
            let handle = session
                .expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id))
                .expect("expose");
            let target = Memory::new(len);
            line.say(0);
            loop {
                // Each call takes long; none is let finish the process off.
                let _ = session.copy(handle, 0, &[target.piece()], COPY_READ);
            }
        });
        child.line.hear();
        std::thread::sleep(std::time::Duration::from_millis(300));
        // Waits for its end, under the test's watchdog.
        child.kill();
        // A copier that sleeps in a fault is killed as well.
        let mut child = Child::fork(|line| {
            let session = Session::primitives();
            let memory = Memory::filled(LEN, 1);
            let handle = session
                .expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id))
                .expect("expose");
            let target = Memory::new(LEN);
            let mut fault = Fault::hold(&target, 0);
            std::thread::scope(|scope| {
                scope.spawn(|| session.copy(handle, 0, &[target.piece()], COPY_READ));
                let _ = fault.touched();
                line.say(0);
                line.hear();
            });
        });
        child.line.hear();
        child.kill();
        // And a fault in the middle ends the call with what got through, over and over.
        let session = Session::primitives();
        let memory = Memory::filled(LEN, 1);
        let target = Memory::new(LEN);
        target.punch(LEN / 2, PAGE);
        let handle = session
            .expose(
                &[memory.piece()],
                EXPOSE_READ | EXPOSE_WRITE,
                To::Session(session.id),
            )
            .expect("expose");
        for direction in [COPY_READ, COPY_WRITE] {
            for _ in 0..500 {
                let result = session.copy(handle, 0, &[target.piece()], direction);
                assert_eq!(result, (LEN as u64 / 2, Err(Errno(libc::EFAULT))));
            }
        }
    });
}

/// 7. No 32-bit entry, lines in the kernel's log at a user's will, and a device that everybody
///    could open.
#[test]
fn fault_7_the_log_stays_silent_and_the_device_closed() {
    guest_test(|| {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(abi::DEVICE)
            .expect("the device")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o660);
        let before = kernel_log().lines().count();
        let session = Session::member(token(), 0);
        let memory = Memory::filled(PAGE, 1);
        memory.protect(libc::PROT_READ);
        let nowhere = [Iov { base: 8, len: 64 }];
        for _ in 0..50 {
            for (number, size) in abi::CALLS {
                let mut bytes = [0xff_u8; 64];
                for wrong in [number, number + 1, number ^ (1 << 16), number ^ (1 << 30)] {
                    // SAFETY: 64 bytes are as long as any structure; what they name is no memory.
                    let refused = unsafe { session.raw(wrong, bytes.as_mut_ptr() as usize) };
                    assert!(refused.is_err(), "{wrong:#x} of {size}");
                }
            }
            assert!(session.expose(&nowhere, EXPOSE_READ, To::Group).is_err());
            assert!(session.recv(&[memory.piece()], 0, 1, 0).is_err());
            assert_eq!(session.send(&[memory.piece()], 0, 1, 1), Ok(PENDING));
            assert_eq!(session.recv(&[memory.piece()], 0, 1, 0), Ok(DONE));
            assert_eq!(session.status(0).error, -libc::EFAULT);
        }
        drop(session);
        let log = kernel_log();
        // The clock of an emulated machine that is busy may be complained of at any time.
        let by_users = |line: &&str| !line.contains("clocksource");
        let new: Vec<_> = log.lines().skip(before).filter(by_users).collect();
        assert!(new.is_empty(), "the kernel's log has grown: {new:?}");
        // The 32-bit entry has a test of its own, `callers_of_32_bits_are_served_right`.
    });
}
