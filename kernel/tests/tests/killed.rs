//! Processes that are killed, at every step of what they do.

use std::time::Duration;

use limic_module_tests::abi::{COPY_READ, EXPOSE_READ, EXPOSE_WRITE, PENDING};
use limic_module_tests::{
    Child, Errno, Fault, Ledger, Memory, PAGE, Session, To, abi, check, fill, gauge, guest_test,
    signal, token, wait_for,
};

const LEN: usize = 40 * PAGE;

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
fn who_is_killed_leaves_nothing_pinned_though_its_peer_sleeps_in_a_page_fault() {
    guest_test(|| {
        for message in [false, true] {
            let pinned = gauge("pinned_pages");
            let token = token();
            let mine = Session::member(token, 0);
            let mut target = Memory::new(LEN);
            let mut owner = Child::fork(|line| {
                let memory = Memory::filled(LEN, 3);
                let session = Session::member(token, 1);
                if message {
                    let sent = session.send(&[memory.piece()], 0, 7, 0);
                    assert_eq!(sent, Ok(PENDING));
                    line.say(0);
                } else {
                    let handle = session.expose(&[memory.piece()], EXPOSE_READ, To::Rank(0));
                    line.say(handle.expect("expose"));
                }
                line.hear();
            });
            let handle = owner.line.hear();
            // The pages before are there, so that the copy comes as far as the one that is held
            // back.
            fill(&mut target[..4 * PAGE], 0);
            let mut fault = Fault::hold(&target, 4 * PAGE);
            std::thread::scope(|scope| {
                let copier = scope.spawn(|| {
                    if message {
                        mine.recv(&[target.piece()], 1, 7, 2).expect("it is there");
                        let status = mine.status(2);
                        return (status.len, Err(Errno(-status.error)));
                    }
                    mine.copy(handle, 0, &[target.piece()], COPY_READ)
                });
                let first = fault.touched();
                assert!(gauge("pinned_pages") > pinned);
                owner.kill();
                wait_for("the end of the pins", || gauge("pinned_pages") == pinned);
                fault.release(first);
                drop(fault);
                let ended = if message {
                    libc::EPIPE
                } else {
                    libc::ECANCELED
                };
                let copied = copier.join().expect("no panic");
                assert_eq!(copied, (4 * PAGE as u64, Err(Errno(ended))));
            });
            check(&target[..4 * PAGE], 3, 0);
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
