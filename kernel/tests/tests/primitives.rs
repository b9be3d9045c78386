//! Exposed buffers: copies of any part, in both directions, and the end of a handle.

use limic_module_tests::abi::{COPY_READ, COPY_WRITE, EXPOSE_ONCE, EXPOSE_READ, EXPOSE_WRITE};
use limic_module_tests::{
    Child, Errno, Fault, Memory, PAGE, Random, Session, To, check, fill, guest_test, wait_for,
};

const LEN: usize = 37 * PAGE + 123;

/// A child that exposes a buffer to this session; gives the handle.
fn owner(
    mine: &Session,
    flags: u32,
    seed: u64,
    also: impl FnOnce(&mut limic_module_tests::Line, &mut Memory),
) -> (Child, u64) {
    let id = mine.id;
    let mut child = Child::fork(|line| {
        let mut memory = Memory::filled(LEN, seed);
        let session = Session::primitives();
        let handle = session
            .expose(&[memory.piece()], flags, To::Session(id))
            .expect("expose");
        line.say(handle);
        also(line, &mut memory);
        // Until the other side has heard enough.
        line.hear();
    });
    let handle = child.line.hear();
    (child, handle)
}

#[test]
fn any_part_can_be_read() {
    guest_test(|| {
        let mine = Session::primitives();
        let (mut child, handle) = owner(&mine, EXPOSE_READ, 5, |_, _| ());
        let memory = Memory::new(LEN);
        assert_eq!(
            mine.copy(handle, 0, &[memory.piece()], COPY_READ),
            (LEN as u64, Ok(()))
        );
        check(&memory, 5, 0);
        let mut random = Random::new(1);
        for _ in 0..200 {
            let len = random.below(LEN as u64) as usize;
            let from = random.below((LEN - len) as u64 + 1) as usize;
            let to = random.below((LEN - len) as u64 + 1) as usize;
            let result = mine.copy(handle, from as u64, &[memory.part(to, len)], COPY_READ);
            assert_eq!(result, (len as u64, Ok(())));
            check(&memory[to..to + len], 5, from);
        }
        child.line.say(0);
        child.join();
    });
}

#[test]
fn memory_that_was_never_touched_is_brought_in_however_long_it_is() {
    guest_test(|| {
        let session = Session::primitives();
        // Far more than one burst, small pages and huge ones: each burst begins with a fault.
        for (len, huge) in [(24 << 20, false), (80 << 20, true)] {
            let source = Memory::filled(len, 1);
            let to = To::Session(session.id);
            let handle = session
                .expose(&[source.piece()], EXPOSE_READ, to)
                .expect("expose");
            let target = if huge {
                Memory::huge(len, false).expect("memory")
            } else {
                let target = Memory::new(len);
                // SAFETY: advice about the test's own memory.
                let done =
                    unsafe { libc::madvise(target.pointer().cast(), len, libc::MADV_NOHUGEPAGE) };
                assert_eq!(done, 0);
                target
            };
            let copied = session.copy(handle, 0, &[target.piece()], COPY_READ);
            assert_eq!(copied, (len as u64, Ok(())));
            check(&target, 1, 0);
        }
    });
}

#[test]
fn any_part_can_be_written() {
    guest_test(|| {
        let mine = Session::primitives();
        let (mut child, handle) = owner(&mine, EXPOSE_WRITE, 5, |line, memory| {
            let (from, len) = (line.hear() as usize, line.hear() as usize);
            check(&memory[..from], 5, 0);
            check(&memory[from..from + len], 6, from);
            check(&memory[from + len..], 5, from + len);
        });
        let memory = Memory::filled(LEN, 6);
        let (from, len) = (3 * PAGE + 17, 20 * PAGE + 99);
        let result = mine.copy(handle, from as u64, &[memory.part(from, len)], COPY_WRITE);
        assert_eq!(result, (len as u64, Ok(())));
        for number in [from, len, 0] {
            child.line.say(number as u64);
        }
        child.join();
    });
}

#[test]
fn lists_of_pieces_on_both_sides_are_walked_in_order() {
    guest_test(|| {
        let mut random = Random::new(3);
        let source = Memory::filled(LEN, 9);
        let session = Session::primitives();
        // Pieces of 1 to 3000 bytes, unaligned, some empty; more than one descriptor holds.
        let mut cut = |memory: &Memory, total: usize| {
            let (mut pieces, mut at) = (Vec::new(), 0);
            while at < total {
                let len = (random.below(3000) as usize).min(total - at);
                pieces.push(memory.part(at, len));
                at += len;
            }
            pieces
        };
        let exposed = cut(&source, LEN);
        let handle = session
            .expose(&exposed, EXPOSE_READ, To::Session(session.id))
            .expect("expose");
        let target = Memory::new(LEN);
        let pieces = cut(&target, LEN);
        let result = session.copy(handle, 0, &pieces, COPY_READ);
        assert_eq!(result, (LEN as u64, Ok(())));
        check(&target, 9, 0);
        assert_eq!(session.revoke(handle), Ok(()));
        // As many single bytes as a list may have, last page first.
        let bytes: Vec<_> = (0..1024).rev().map(|at| source.part(at * 97, 1)).collect();
        let handle = session
            .expose(&bytes, EXPOSE_READ, To::Session(session.id))
            .expect("expose");
        let result = session.copy(handle, 0, &[target.part(0, 1024)], COPY_READ);
        assert_eq!(result, (1024, Ok(())));
        for (at, &byte) in target[..1024].iter().enumerate() {
            assert_eq!(byte, source[(1023 - at) * 97]);
        }
    });
}

#[test]
fn direction_and_range_are_checked() {
    guest_test(|| {
        let session = Session::primitives();
        let memory = Memory::filled(LEN, 1);
        let piece = |len: usize| [memory.part(0, len)];
        for (flags, allowed, refused) in [
            (EXPOSE_READ, COPY_READ, COPY_WRITE),
            (EXPOSE_WRITE, COPY_WRITE, COPY_READ),
        ] {
            let handle = session
                .expose(&[memory.piece()], flags, To::Session(session.id))
                .expect("expose");
            let len = LEN as u64;
            assert_eq!(
                session.copy(handle, 0, &piece(10), refused),
                (0, Err(Errno(libc::EACCES)))
            );
            assert_eq!(session.copy(handle, len - 10, &piece(10), allowed).0, 10);
            assert_eq!(session.copy(handle, len, &piece(0), allowed), (0, Ok(())));
            for (offset, bytes) in [
                (len - 9, 10),
                (len, 1),
                (len + 1, 0),
                (u64::MAX, 1),
                (u64::MAX - 5, 10),
                (1 << 63, 1),
            ] {
                let result = session.copy(handle, offset, &piece(bytes), allowed);
                assert_eq!(result, (0, Err(Errno(libc::ERANGE))), "{offset} {bytes}");
            }
        }
    });
}

#[test]
fn a_single_use_handle_works_once_and_frees_its_pages() {
    guest_test(|| {
        let session = Session::primitives();
        let memory = Memory::filled(LEN, 1);
        let target = Memory::new(PAGE);
        let pinned = limic_module_tests::gauge("pinned_pages");
        let handle = session
            .expose(
                &[memory.piece()],
                EXPOSE_READ | EXPOSE_ONCE,
                To::Session(session.id),
            )
            .expect("expose");
        // What is refused does not use it up.
        let beyond = session.copy(handle, LEN as u64, &[target.piece()], COPY_READ);
        assert_eq!(beyond.1, Err(Errno(libc::ERANGE)));
        let wrong = session.copy(handle, 0, &[target.piece()], COPY_WRITE);
        assert_eq!(wrong.1, Err(Errno(libc::EACCES)));
        let first = session.copy(handle, 100, &[target.piece()], COPY_READ);
        assert_eq!(first, (PAGE as u64, Ok(())));
        check(&target, 1, 100);
        let second = session.copy(handle, 100, &[target.piece()], COPY_READ);
        assert_eq!(second, (0, Err(Errno(libc::ENOENT))));
        assert_eq!(session.revoke(handle), Err(Errno(libc::ENOENT)));
        assert_eq!(limic_module_tests::gauge("pinned_pages"), pinned);
    });
}

#[test]
fn only_one_of_many_gets_a_single_use_handle() {
    guest_test(|| {
        let session = Session::primitives();
        let memory = Memory::filled(LEN, 1);
        for _ in 0..50 {
            let flags = EXPOSE_READ | EXPOSE_ONCE;
            let handle = session
                .expose(&[memory.piece()], flags, To::Session(session.id))
                .expect("expose");
            let won = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            let target = Memory::new(LEN);
                            let (copied, result) =
                                session.copy(handle, 0, &[target.piece()], COPY_READ);
                            assert_eq!(result.is_ok(), copied == LEN as u64);
                            usize::from(result.is_ok())
                        })
                    })
                    .collect();
                let ends = threads.into_iter().map(|it| it.join().expect("no panic"));
                ends.sum::<usize>()
            });
            assert_eq!(won, 1);
        }
    });
}

#[test]
fn revoke_ends_access_and_is_the_owners_alone() {
    guest_test(|| {
        let mine = Session::primitives();
        let (mut child, handle) = owner(&mine, EXPOSE_READ, 5, |_, _| ());
        let memory = Memory::new(PAGE);
        assert_eq!(mine.revoke(handle), Err(Errno(libc::ENOENT)));
        assert_eq!(mine.copy(handle, 0, &[memory.piece()], COPY_READ).1, Ok(()));
        child.line.say(0);
        child.join();
        wait_for("the end of the exposures", || {
            limic_module_tests::gauge("exposures") == 0
        });
        let gone = mine.copy(handle, 0, &[memory.piece()], COPY_READ);
        assert_eq!(gone, (0, Err(Errno(libc::ENOENT))));
        let own = mine
            .expose(&[memory.piece()], EXPOSE_READ, To::Session(mine.id))
            .expect("expose");
        assert_eq!(mine.revoke(own), Ok(()));
        assert_eq!(mine.revoke(own), Err(Errno(libc::ENOENT)));
        let gone = mine.copy(own, 0, &[memory.piece()], COPY_READ);
        assert_eq!(gone, (0, Err(Errno(libc::ENOENT))));
    });
}

#[test]
fn revoke_does_not_wait_for_a_peer_that_sleeps_in_a_page_fault() {
    guest_test(|| {
        let mine = Session::primitives();
        let mut memory = Memory::filled(LEN, 1);
        // The peer copies into memory that nobody gives it.
        let mut peer = Child::fork(|line| {
            let session = Session::primitives();
            line.say(session.id);
            let handle = line.hear();
            let mut target = Memory::new(LEN);
            // The pages before are there, so that the copy comes as far as the one that is held
            // back.
            fill(&mut target[..8 * PAGE], 0);
            let fault = Fault::hold(&target, 8 * PAGE);
            line.say(0);
            let (copied, result) = std::thread::scope(|scope| {
                let copier = scope.spawn(|| session.copy(handle, 0, &[target.piece()], COPY_READ));
                let mut fault = fault;
                let first = fault.touched();
                line.say(0);
                line.hear();
                // The handle is revoked. Now the pages come.
                fault.release(first);
                drop(fault);
                copier.join().expect("no panic")
            });
            assert_eq!(result, Err(Errno(libc::ECANCELED)));
            assert_eq!(copied, 8 * PAGE as u64);
            check(&target[..8 * PAGE], 1, 0);
        });
        let id = peer.line.hear();
        let pinned = limic_module_tests::gauge("pinned_pages");
        let handle = mine
            .expose(&[memory.piece()], EXPOSE_READ, To::Session(id))
            .expect("expose");
        peer.line.say(handle);
        peer.line.hear();
        // It sleeps in its fault.
        peer.line.hear();
        assert_eq!(mine.revoke(handle), Ok(()));
        // The memory is the owner's again, and is not pinned for as long as the peer likes.
        assert_eq!(limic_module_tests::gauge("pinned_pages"), pinned);
        fill(&mut memory, 2);
        peer.line.say(0);
        peer.join();
    });
}

#[test]
fn revoking_while_peers_copy_gives_whole_answers() {
    guest_test(|| {
        let mine = Session::primitives();
        let memory = Memory::filled(256 * PAGE, 3);
        for round in 0..20 {
            let handle = mine
                .expose(&[memory.piece()], EXPOSE_READ, To::Session(mine.id))
                .expect("expose");
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let mut target = Memory::new(memory.len());
                        loop {
                            target.throw_away();
                            let (copied, result) =
                                mine.copy(handle, 0, &[target.piece()], COPY_READ);
                            check(&target[..copied as usize], 3, 0);
                            match result {
                                Ok(()) => fill(&mut target[..1], 0),
                                Err(Errno(libc::ECANCELED)) => (),
                                Err(Errno(libc::ENOENT)) => return,
                                Err(other) => panic!("{other:?}"),
                            }
                        }
                    });
                }
                std::thread::sleep(std::time::Duration::from_millis(round));
                assert_eq!(mine.revoke(handle), Ok(()));
            });
        }
    });
}
