//! Ranks that come and go, queues that are full, and waiting for either.

use limic_module_tests::abi::{
    ANY_RANK, DONE, MEMBER_ABSENT, MEMBER_LEFT, MEMBER_PRESENT, Member, PENDING, WAIT_ARRIVAL,
    WAIT_DEPARTURE, Wait,
};
use limic_module_tests::{Child, Errno, Memory, PAGE, Session, abi, guest_test, token};

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
        assert_eq!(state(0), Ok(MEMBER_LEFT));
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
