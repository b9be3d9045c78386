//! Ranks that come and go, queues that are full, and waiting for either.

use limic_module_tests::abi::{
    ANY_RANK, DONE, Join, MEMBER_ABSENT, MEMBER_CLOSED, MEMBER_LEFT, MEMBER_PRESENT, Member,
    PENDING, PROBE_IMMEDIATE, SEND_BUFFERED, SEND_IMMEDIATE, STATUS_IMMEDIATE, Send_, WAIT_ARRIVAL,
    WAIT_DEPARTURE, Wait,
};
use limic_module_tests::{
    Child, Errno, Fault, Memory, PAGE, Session, abi, check, guest_test, token, wait_for,
};

#[test]
fn a_full_queue_says_so_and_goes_on_when_there_is_room() {
    guest_test(|| {
        let mut mine = Session::silent().expect("open");
        mine.hello(64, 4).expect("hello");
        mine.join(token(), 0).expect("join");
        let memory = Memory::filled(PAGE, 1);
        for slot in 0..4 {
            assert_eq!(mine.send(&[memory.piece()], 0, 1, slot), Ok(PENDING));
        }
        let full = mine.send(&[memory.piece()], 0, 1, 4);
        assert_eq!(full, Err(Errno(libc::ENOBUFS)));
        let target = Memory::new(PAGE);
        assert_eq!(mine.recv(&[target.piece()], 0, 1, 10), Ok(DONE));
        assert_eq!(mine.send(&[memory.piece()], 0, 1, 4), Ok(PENDING));
    });
}

#[test]
fn ranks_come_and_go() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 3);
        let state = |rank| {
            let mut member = Member {
                rank,
                ..Default::default()
            };
            mine.call(abi::MEMBER, &mut member).map(|()| member.state)
        };
        assert_eq!(state(3), Ok(MEMBER_PRESENT));
        assert_eq!(state(0), Ok(MEMBER_ABSENT));
        assert_eq!(state(1024), Err(Errno(libc::EINVAL)));
        let memory = Memory::new(PAGE);
        assert_eq!(
            mine.send(&[memory.piece()], 0, 1, 0),
            Err(Errno(libc::ESRCH))
        );
        assert_eq!(mine.recv(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        let mut second = Session::silent().expect("open");
        second.hello(8, 0).expect("hello");
        assert_eq!(second.join(token, 3).err(), Some(Errno(libc::EADDRINUSE)));
        assert_eq!(second.join(token, ANY_RANK).expect("join").rank, 0);
        assert_eq!(second.join(token, 1).err(), Some(Errno(libc::EALREADY)));
        drop(second);
        assert_eq!(state(0), Ok(MEMBER_CLOSED));
        assert_eq!(
            mine.status(0).error,
            -libc::EPIPE,
            "it named the one that left"
        );
        assert_eq!(
            mine.send(&[memory.piece()], 0, 1, 1),
            Err(Errno(libc::EPIPE))
        );
        assert_eq!(
            mine.recv(&[memory.piece()], 0, 1, 1),
            Err(Errno(libc::EPIPE))
        );
        assert_eq!(mine.probe(0, 1, 0).err(), Some(Errno(libc::EPIPE)));
        let third = Session::primitives();
        assert_eq!(
            third.join(token, 0).err(),
            Some(Errno(libc::EADDRINUSE)),
            "a rank is given out once"
        );
    });
}

#[test]
fn waiting_for_events() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 0);
        let mut child = Child::fork(|line| {
            let session = Session::member(token, 1);
            let memory = Memory::filled(8, 1);
            line.hear();
            session.send(&[memory.piece()], 0, 1, 0).expect("send");
            line.hear();
        });
        let mut wait = Wait {
            flags: WAIT_ARRIVAL | WAIT_DEPARTURE,
            timeout_ns: 30_000_000_000,
            ..Default::default()
        };
        // SAFETY: a descriptor of this test.
        let poll = |timeout| unsafe {
            let mut entry = libc::pollfd {
                fd: mine.descriptor(),
                events: libc::POLLIN,
                revents: 0,
            };
            libc::poll(&mut entry, 1, timeout);
            entry.revents
        };
        assert_eq!(poll(0), 0);
        child.line.say(0);
        mine.call(abi::WAIT, &mut wait).expect("wait");
        assert_eq!((wait.arrivals, wait.departures), (1, 0));
        child.line.say(0);
        mine.call(abi::WAIT, &mut wait).expect("wait");
        assert_eq!((wait.arrivals, wait.departures), (1, 1));
        child.join();
        let third = mine.wait(&[], 0, 0).expect("a test");
        assert_eq!((third.arrivals, third.departures), (1, 1));
        assert_eq!(poll(0), 0, "all is known");
        let memory = Memory::new(8);
        mine.send(&[memory.piece()], 0, 1, 0).expect("send");
        assert_eq!(poll(10_000), libc::POLLIN);
        // A time that runs out.
        assert_eq!(mine.recv(&[memory.piece()], 0, 2, 1), Ok(PENDING));
        let out = mine.wait(&[0, 1], 2, 20_000_000).expect("wait");
        assert_eq!(out.done, 0);
    });
}

#[test]
fn who_ended_without_closing_is_told_from_who_closed() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 0);
        let mut child = Child::fork(|line| {
            let _session = Session::member(token, 1);
            line.say(0);
            line.hear();
            // SAFETY: ends the process at once, with the session open.
            unsafe { libc::_exit(0) };
        });
        child.line.hear();
        child.line.say(0);
        let wait = Wait {
            flags: WAIT_DEPARTURE,
            timeout_ns: 30_000_000_000,
            ..Default::default()
        };
        mine.call(abi::WAIT, &mut wait.clone()).expect("wait");
        let mut member = Member {
            rank: 1,
            ..Default::default()
        };
        mine.call(abi::MEMBER, &mut member).expect("member");
        assert_eq!(member.state, MEMBER_LEFT);
        child.join();
    });
}

#[test]
fn a_group_takes_as_many_sessions_as_it_has_ranks() {
    guest_test(|| {
        let token = token();
        let join = || {
            let session = Session::primitives();
            let mut join = Join {
                token,
                flags: abi::JOIN_CREATE,
                rank: ANY_RANK,
                size: 2,
                ..Default::default()
            };
            let joined = session.call(abi::JOIN, &mut join);
            joined.map(|()| (session, join.rank))
        };
        let (first, rank) = join().expect("join");
        assert_eq!(rank, 0);
        let (second, rank) = join().expect("join");
        assert_eq!(rank, 1);
        drop(second);
        // Rank 1 is free, and yet nobody gets it, since somebody may still send to the one who had
        // it.
        assert_eq!(join().err(), Some(Errno(libc::ENOSPC)));
        drop(first);
        let (_session, rank) = join().expect("join");
        assert_eq!(rank, 0, "the last one has gone, so this is a new group");
    });
}

#[test]
fn a_descriptor_of_a_member_lets_in() {
    guest_test(|| {
        let mine = Session::silent().expect("open");
        let by = |session: &Session, fd| {
            let mut join = Join {
                flags: abi::JOIN_FD,
                rank: ANY_RANK,
                fd,
                ..Default::default()
            };
            session.call(abi::JOIN, &mut join).map(|()| join)
        };
        let descriptor = mine.descriptor();
        let mut first = Session::silent().expect("open");
        first.hello(8, 0).expect("hello");
        for bad in [-1, 0, 100_000] {
            assert_eq!(by(&first, bad).err(), Some(Errno(libc::EBADF)), "{bad}");
        }
        let nowhere = by(&first, descriptor).err();
        assert_eq!(nowhere, Some(Errno(libc::ENOENT)), "it is in no group");
        let itself = by(&first, first.descriptor()).err();
        assert_eq!(itself, Some(Errno(libc::ENOENT)));
        drop(mine);

        let token = token();
        let mine = Session::member(token, 5);
        let joined = by(&first, mine.descriptor()).expect("join");
        assert_eq!((joined.rank, joined.token), (0, token));
        // A child inherits the descriptor, which is good for this and for nothing else.
        let descriptor = mine.descriptor();
        let mut child = Child::fork(|line| {
            let mut session = Session::silent().expect("open");
            session.hello(8, 0).expect("hello");
            assert_eq!(by(&session, descriptor).expect("join").rank, 1);
            let memory = Memory::filled(PAGE, 7);
            assert_eq!(session.send(&[memory.piece()], 5, 9, 0), Ok(PENDING));
            line.say(0);
            line.hear();
            assert_eq!(session.status(0).error, 0);
        });
        child.line.hear();
        let target = Memory::new(PAGE);
        assert_eq!(mine.recv(&[target.piece()], 1, 9, 0), Ok(DONE));
        child.line.say(0);
        child.join();
        check(&target, 7, 0);
        // Another user gets nothing by it, as with a token.
        let child = Child::fork(|_| {
            // SAFETY: changes this process alone.
            assert_eq!(unsafe { libc::setresuid(12345, 12345, 12345) }, 0);
            let Ok(session) = Session::silent() else {
                // The device is not for everybody.
                return;
            };
            let mut session = session;
            session.hello(8, 0).expect("hello");
            assert_eq!(by(&session, descriptor).err(), Some(Errno(libc::ENOENT)));
        });
        child.join();
    });
}

#[test]
fn words_beside_the_bytes() {
    guest_test(|| {
        let mine = Session::member(token(), 0);
        let memory = Memory::filled(100, 3);
        let list = [memory.piece()];
        let target = Memory::new(100);
        let send = |slot, flags, immediate| {
            let mut send = Send_ {
                iov: list.as_ptr() as u64,
                nr_iov: 1,
                flags,
                tag: 4,
                slot,
                immediate,
                ..Default::default()
            };
            mine.call(abi::SEND, &mut send)
        };
        for how in [0, SEND_BUFFERED] {
            for word in [Some(0), Some(u64::MAX), None] {
                let flags = how | word.map_or(0, |_| SEND_IMMEDIATE);
                // Unexpected, seen by a probe, and received.
                send(1, flags, word.unwrap_or(0)).expect("send");
                let seen = mine.probe(0, 4, 0).expect("probe");
                let there = (seen.flags & PROBE_IMMEDIATE != 0).then_some(seen.immediate);
                assert_eq!(there, word);
                assert_eq!(mine.recv(&[target.piece()], 0, 4, 2), Ok(DONE));
                let status = mine.status(2);
                let there = (status.flags & STATUS_IMMEDIATE != 0).then_some(status.immediate);
                assert_eq!(there, word);
                // Posted first.
                assert_eq!(mine.recv(&[target.piece()], 0, 4, 3), Ok(PENDING));
                send(1, flags, word.unwrap_or(0)).expect("send");
                let status = mine.status(3);
                let there = (status.flags & STATUS_IMMEDIATE != 0).then_some(status.immediate);
                assert_eq!((status.error, there), (0, word));
            }
        }
    });
}

#[test]
fn a_receive_from_a_rank_that_comes_and_leaves_while_it_is_posted_ends() {
    guest_test(|| {
        let token = token();
        let mine = Session::member(token, 0);
        let memory = Memory::new(PAGE);
        // It is held up while its memory is pinned, before it is in the queue.
        let mut fault = Fault::hold(&memory, 0);
        std::thread::scope(|scope| {
            let receive = scope.spawn(|| mine.recv(&[memory.piece()], 1, 7, 0));
            let page = fault.touched();
            Child::fork(|_| drop(Session::member(token, 1))).join();
            wait_for("the departure", || mine.header().departures == 1);
            fault.release(page);
            let ended = receive.join().expect("no panic");
            assert_eq!(ended, Err(Errno(libc::EPIPE)));
        });
        assert_eq!(mine.status(0).state, abi::IDLE);
    });
}
