//! Messages matched by the kernel.

use limic_module_tests::abi::{ANY_RANK, DONE, PENDING, PROBE_TAKE, SEND_BUFFERED};
use limic_module_tests::{
    Child, Errno, Memory, PAGE, Session, abi, check, cookie, guest_test, token, wait_for,
};

const LEN: usize = 19 * PAGE + 77;

/// Two members, the second one in a child.
fn pair(body: impl FnOnce(&Session, &mut limic_module_tests::Line)) -> (Session, Child) {
    let token = token();
    let mine = Session::member(token, 0);
    let mut child = Child::fork(|line| {
        let session = Session::member(token, 1);
        line.say(0);
        body(&session, line);
    });
    child.line.hear();
    (mine, child)
}

#[test]
fn the_receiver_comes_first() {
    guest_test(|| {
        let (mine, mut child) = pair(|session, line| {
            line.hear();
            let memory = Memory::filled(LEN, 4);
            assert_eq!(session.send(&[memory.piece()], 0, 7, 3), Ok(DONE));
            let status = session.status(3);
            assert_eq!(
                (status.error, status.len, status.cookie),
                (0, LEN as u64, cookie(3))
            );
        });
        let memory = Memory::new(LEN);
        assert_eq!(mine.recv(&[memory.piece()], 1, 7, 0), Ok(PENDING));
        assert_eq!(mine.status(0).state, PENDING);
        child.line.say(0);
        let status = mine.watch(0);
        assert_eq!((status.error, status.state), (0, DONE));
        assert_eq!((status.len, status.full_len), (LEN as u64, LEN as u64));
        assert_eq!(
            (status.tag, status.source, status.cookie),
            (7, 1, cookie(0))
        );
        assert_eq!(mine.header().completions, 1);
        check(&memory, 4, 0);
        child.join();
    });
}

#[test]
fn the_sender_comes_first() {
    guest_test(|| {
        let (mine, mut child) = pair(|session, line| {
            let memory = Memory::filled(LEN, 4);
            assert_eq!(session.send(&[memory.piece()], 0, 7, 3), Ok(PENDING));
            line.say(0);
            let status = session.finish(3);
            assert_eq!((status.error, status.len), (0, LEN as u64));
        });
        child.line.hear();
        assert_eq!(mine.header().arrivals, 1);
        let memory = Memory::new(LEN);
        assert_eq!(mine.recv(&[memory.piece()], 1, 7, 0), Ok(DONE));
        check(&memory, 4, 0);
        child.join();
    });
}

#[test]
fn wildcards_and_order() {
    guest_test(|| {
        let (mine, mut child) = pair(|session, line| {
            let memory = Memory::filled(64, 0);
            for tag in 0..40 {
                let piece = [memory.part(tag as usize, 1)];
                assert_eq!(session.send(&piece, 0, tag % 4, tag as u32), Ok(PENDING));
            }
            line.say(0);
            let slots: Vec<u32> = (0..40).collect();
            let done = session.wait(&slots, 40, -1).expect("wait").done;
            assert_eq!(done, 40);
        });
        child.line.hear();
        let memory = Memory::new(PAGE);
        let piece = [memory.part(0, 1)];
        let mut origin = [0; 64];
        limic_module_tests::fill(&mut origin, 0);
        // The third class of tags in order, then everything from anybody in order.
        for number in (2..40).step_by(4) {
            assert_eq!(mine.recv(&piece, ANY_RANK, 2, 0), Ok(DONE));
            assert_eq!(memory[0], origin[number]);
        }
        for number in (0..40).filter(|number| number % 4 != 2) {
            assert_eq!(mine.recv_masked(&piece, ANY_RANK, (0, 0), 0), Ok(DONE));
            assert_eq!(memory[0], origin[number]);
            assert_eq!(mine.status(0).tag, number as u64 % 4);
        }
        let none = mine.probe(ANY_RANK, 2, 0).err();
        assert_eq!(none, Some(Errno(libc::EAGAIN)));
        child.join();
    });
}

#[test]
fn a_message_that_is_too_long_is_cut_off() {
    guest_test(|| {
        for receiver_first in [false, true] {
            let (mine, mut child) = pair(|session, line| {
                let memory = Memory::filled(LEN, 4);
                if receiver_first {
                    line.hear();
                }
                session.send(&[memory.piece()], 0, 7, 3).expect("send");
                line.say(0);
                let status = session.finish(3);
                assert_eq!(status.error, 0, "the sender is not to blame");
            });
            if !receiver_first {
                child.line.hear();
            }
            let memory = Memory::new(LEN);
            mine.recv(&[memory.part(5, 100)], 1, 7, 0).expect("recv");
            if receiver_first {
                child.line.say(0);
            }
            let status = mine.finish(0);
            assert_eq!(status.error, -libc::EMSGSIZE);
            assert_eq!((status.len, status.full_len), (100, LEN as u64));
            check(&memory[5..105], 4, 0);
            assert!(memory[105..].iter().all(|&byte| byte == 0));
            child.join();
        }
    });
}

#[test]
fn empty_messages_and_empty_lists() {
    guest_test(|| {
        let mine = Session::member(token(), 0);
        assert_eq!(mine.send(&[], 0, 1, 0), Ok(PENDING));
        assert_eq!(mine.recv(&[], 0, 1, 1), Ok(DONE));
        assert_eq!((mine.status(0).state, mine.status(0).error), (DONE, 0));
        let empty = [abi::Iov { base: !0, len: 0 }; 3];
        assert_eq!(mine.recv(&empty, 0, 1, 1), Ok(PENDING));
        assert_eq!(mine.send(&empty, 0, 1, 0), Ok(DONE));
        assert_eq!(mine.status(1).error, 0);
    });
}

#[test]
fn messages_to_oneself() {
    guest_test(|| {
        let mine = Session::member(token(), 0);
        let from = Memory::filled(LEN, 8);
        let to = Memory::new(LEN);
        assert_eq!(mine.send(&[from.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(mine.recv(&[to.piece()], 0, 1, 1), Ok(DONE));
        check(&to, 8, 0);
        // Left in the queues, in both forms, when the session ends.
        assert_eq!(mine.send(&[from.piece()], 0, 2, 0), Ok(PENDING));
        assert_eq!(mine.recv(&[to.piece()], 0, 3, 1), Ok(PENDING));
    });
}

#[test]
fn a_slot_in_use_is_refused() {
    guest_test(|| {
        let mine = Session::member(token(), 0);
        let memory = Memory::new(PAGE);
        let busy = Err(Errno(libc::EBUSY));
        assert_eq!(mine.recv(&[memory.piece()], 0, 1, 5), Ok(PENDING));
        assert_eq!(mine.recv(&[memory.piece()], 0, 1, 5), busy);
        assert_eq!(mine.send(&[memory.piece()], 0, 2, 5), busy);
        assert_eq!(mine.cancel(5), Ok(()));
        assert_eq!(mine.send(&[memory.piece()], 0, 2, 5), Ok(PENDING));
    });
}

#[test]
fn cancel_gives_the_memory_back_or_says_that_it_is_late() {
    guest_test(|| {
        let mine = Session::member(token(), 0);
        let pinned = limic_module_tests::gauge("pinned_pages");
        let memory = Memory::filled(LEN, 1);
        for slot in [0, 1] {
            let posted = if slot == 0 {
                mine.recv(&[memory.piece()], 0, 1, slot)
            } else {
                mine.send(&[memory.piece()], 0, 2, slot)
            };
            assert_eq!(posted, Ok(PENDING));
            assert_eq!(mine.cancel(slot), Ok(()));
            let status = mine.status(slot);
            assert_eq!((status.state, status.error), (DONE, -libc::ECANCELED));
            assert_eq!(limic_module_tests::gauge("pinned_pages"), pinned);
            assert_eq!(mine.cancel(slot), Err(Errno(libc::EALREADY)));
        }
        assert_eq!(mine.cancel(63), Err(Errno(libc::EINVAL)));
        assert_eq!(
            mine.probe(0, 2, 0).err(),
            Some(Errno(libc::EAGAIN)),
            "it was taken back"
        );
    });
}

#[test]
fn a_matched_probe_takes_the_message() {
    guest_test(|| {
        let mine = Session::member(token(), 0);
        let memory = Memory::filled(LEN, 1);
        let target = Memory::new(LEN);
        assert_eq!(mine.send(&[memory.piece()], 0, 9, 0), Ok(PENDING));
        let seen = mine.probe(ANY_RANK, 9, 0).expect("it is there");
        assert_eq!((seen.rank, seen.tag, seen.len), (0, 9, LEN as u64));
        assert_eq!(seen.message, 0);
        let taken = mine.probe(ANY_RANK, 9, PROBE_TAKE).expect("it is there");
        assert_ne!(taken.message, 0);
        assert_eq!(mine.probe(ANY_RANK, 9, 0).err(), Some(Errno(libc::EAGAIN)));
        assert_eq!(mine.cancel(0), Err(Errno(libc::EALREADY)), "it is taken");
        for wrong in [taken.message + 1, taken.message + (1 << 32), !0] {
            let refused = mine.recv_taken(&[target.piece()], wrong, 1);
            assert_eq!(refused, Err(Errno(libc::ENOENT)));
        }
        assert_eq!(
            mine.recv_taken(&[target.piece()], taken.message, 1),
            Ok(DONE)
        );
        check(&target, 1, 0);
        assert_eq!(mine.status(0).state, DONE);
        let again = mine.recv_taken(&[target.piece()], taken.message, 1);
        assert_eq!(again, Err(Errno(libc::ENOENT)));
        // One that is taken and never received goes with the session.
        assert_eq!(mine.send(&[memory.piece()], 0, 9, 0), Ok(PENDING));
        mine.probe(ANY_RANK, 9, PROBE_TAKE).expect("it is there");
    });
}

#[test]
fn the_sender_of_a_taken_message_leaves() {
    guest_test(|| {
        let (mine, mut child) = pair(|session, line| {
            let memory = Memory::filled(LEN, 4);
            assert_eq!(session.send(&[memory.piece()], 0, 7, 3), Ok(PENDING));
            line.say(0);
            line.hear();
        });
        child.line.hear();
        let taken = mine.probe(1, 7, PROBE_TAKE).expect("it is there");
        child.line.say(0);
        child.join();
        wait_for("the departure", || mine.header().departures == 1);
        let memory = Memory::new(LEN);
        assert_eq!(
            mine.recv_taken(&[memory.piece()], taken.message, 0),
            Ok(DONE)
        );
        let status = mine.status(0);
        assert_eq!((status.error, status.len), (-libc::EPIPE, 0));
    });
}

#[test]
fn buffered_sends_are_done_at_once_and_survive_their_sender() {
    guest_test(|| {
        let (mine, child) = pair(|session, _| {
            let memory = Memory::filled(abi::MAX_BUFFERED + 1, 4);
            for (number, len) in [0, 1, 1000, abi::MAX_BUFFERED].into_iter().enumerate() {
                let sent = session.send_with(
                    &[memory.part(0, len / 2), memory.part(len / 2, len - len / 2)],
                    0,
                    7,
                    number as u32,
                    SEND_BUFFERED,
                );
                assert_eq!(sent, Ok(DONE));
            }
            let refused = session.send_with(&[memory.piece()], 0, 7, 9, SEND_BUFFERED);
            assert_eq!(refused, Err(Errno(libc::EINVAL)));
        });
        child.join();
        wait_for("the departure", || mine.header().departures == 1);
        for len in [0, 1, 1000, abi::MAX_BUFFERED] {
            let memory = Memory::new(2 * PAGE);
            assert_eq!(mine.recv(&[memory.piece()], 1, 7, 0), Ok(DONE));
            assert_eq!(mine.status(0).len, len as u64);
            check(&memory[..len], 4, 0);
        }
        let memory = Memory::new(PAGE);
        assert_eq!(
            mine.recv(&[memory.piece()], 1, 7, 0),
            Err(Errno(libc::EPIPE))
        );
    });
}

#[test]
fn two_that_send_to_each_other_first_do_not_block() {
    guest_test(|| {
        let (mine, mut child) = pair(|session, line| {
            let (out, back) = (Memory::filled(LEN, 1), Memory::new(LEN));
            assert_eq!(session.send(&[out.piece()], 0, 0, 0), Ok(PENDING));
            line.say(0);
            line.hear();
            session.recv(&[back.piece()], 0, 0, 1).expect("recv");
            let done = session.wait(&[0, 1], 2, -1).expect("wait").done;
            assert_eq!(done, 2);
            check(&back, 2, 0);
        });
        let (out, back) = (Memory::filled(LEN, 2), Memory::new(LEN));
        child.line.hear();
        assert_eq!(mine.send(&[out.piece()], 1, 0, 0), Ok(PENDING));
        child.line.say(0);
        mine.recv(&[back.piece()], 1, 0, 1).expect("recv");
        assert_eq!(mine.wait(&[0, 1], 2, -1).expect("wait").done, 2);
        check(&back, 1, 0);
        child.join();
    });
}
