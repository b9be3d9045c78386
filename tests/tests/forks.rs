//! Ranks that fork.

use std::time::Duration;

use limic::{Endpoint, Error, HybridEndpoint, PeerFailure, Selector, Tag};
use limic_tests::{Cast, check, content, skip};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// The child ends at once; the parent's messages go on, also those under way.
#[test]
fn a_fork_does_not_disturb() {
    Cast::new("a_fork_does_not_disturb").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        for round in 0..30_u64 {
            let receive = endpoint
                .irecv((other, round), vec![0; 200_000])
                .expect("irecv");
            let send = endpoint
                .isend(other, round, content(round, 200_000))
                .expect("isend");
            // SAFETY: the child calls nothing but `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(0) };
            }
            assert!(child > 0, "fork");
            check(round, &receive.wait().expect("receive").1);
            send.wait().expect("send");
            let child = Pid::from_raw(child);
            waitpid(child, None).expect("the child has ended");
        }
        rank.link.meet(&endpoint);
    });
}

/// The child starts another program, as `system(3)` does: descriptors must not leak into it.
#[test]
fn a_started_program_inherits_no_descriptor() {
    Cast::new("a_started_program_inherits_no_descriptor").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let mut inbox = vec![0; 100_000];
        let data = content(1, 100_000);
        endpoint
            .send_recv(other, 1_u64, &data, (other, 1), &mut inbox)
            .expect("exchange");
        let listing = std::process::Command::new("ls")
            .args(["-l", "/proc/self/fd"])
            .output();
        let listing = String::from_utf8_lossy(&listing.expect("ls").stdout).into_owned();
        for word in ["memfd:limic", "anon_inode"] {
            assert!(!listing.contains(word), "{listing}");
        }
        rank.link.meet(&endpoint);
    });
}

/// The child goes on to use what it has a copy of: calls fail, and nothing of the parent's changes.
#[test]
fn a_child_finds_the_endpoint_closed_and_takes_nothing() {
    Cast::new("a_child_finds_the_endpoint_closed_and_takes_nothing").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        rank.link.meet(&endpoint);
        let region = endpoint.region(vec![7; 4096]).expect("region");
        let mut loan = endpoint.loan(100_000).expect("loan");
        loan.fill(rank.rank as u8);
        // Messages of all kinds are under way in both directions.
        let lengths = [8, 5000, 100_000, 3_000_000];
        let sends: Vec<_> = (0..)
            .zip(lengths)
            .map(|(tag, len)| endpoint.isend(other, tag, content(tag, len)))
            .collect::<Result<_, _>>()
            .expect("isend");
        let receives: Vec<_> = (0..)
            .zip(lengths)
            .map(|(tag, len)| endpoint.irecv((other, tag), vec![0; len]))
            .collect::<Result<_, _>>()
            .expect("irecv");
        let another = endpoint.loan(64).expect("loan");
        another.send(other, Tag(99)).expect("send");
        let held = endpoint.recv_loaned((other, 99)).expect("loaned");
        // SAFETY: the child runs on in this thread alone, and ends without a destructor.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // It writes into what it has a copy of, and drops it.
                loan.fill(0xee);
                drop(loan);
                drop(held);
                let forked = |error: Error| {
                    let why = Error::PeerFailed {
                        peer: other,
                        why: PeerFailure::Forked,
                    };
                    assert_eq!(error, why);
                };
                endpoint.progress();
                forked(endpoint.send(other, 5, b"from the child").unwrap_err());
                forked(endpoint.recv((other, 0), &mut [0; 100]).unwrap_err());
                endpoint.sleep(Some(Duration::from_millis(1)));
                assert!(!endpoint.arm());
                // As that of any endpoint that is closed.
                assert!(region.write_at(0, &[9; 16]).is_err());
                drop(region);
                for (tag, receive) in (0..).zip(receives) {
                    match receive.wait() {
                        // It was over before the fork.
                        Ok((_, data)) => check(tag, &data),
                        Err(error) => forked(error),
                    }
                }
                drop(sends);
                let own = HybridEndpoint::open().expect("one of its own");
                own.send(own.myself(), 1, b"note").expect("to itself");
                own.recv((own.myself(), 1), &mut [0; 4]).expect("note");
            }));
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(outcome.is_err())) };
        }
        assert!(child > 0, "fork");
        let pid = Pid::from_raw(child);
        let ended = waitpid(pid, None).expect("the child has ended");
        assert_eq!(ended, WaitStatus::Exited(pid, 0));
        assert!(loan.iter().all(|byte| *byte == rank.rank as u8));
        loan.send(other, Tag(98)).expect("send");
        let loaned = endpoint.recv_loaned((other, 98)).expect("loaned").to_vec();
        assert!(loaned.iter().all(|byte| *byte == 1 - rank.rank as u8));
        for (tag, receive) in (0..).zip(receives) {
            check(tag, &receive.wait().expect("receive").1);
        }
        for send in sends {
            send.wait().expect("send");
        }
        let mut bytes = [0; 16];
        region.read_at(0, &mut bytes).expect("read");
        assert_eq!(bytes, [7; 16]);
        region.write_at(0, &[8]).expect("write");
        assert_eq!(held.len(), 64);
        rank.link.meet(&endpoint);
    });
}

/// A thread of the parent copies a message under a lock. The child, which has not that thread,
/// drops what it has of the message and of its endpoint, and ends.
#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    const LEN: usize = 32 << 20;
    const ROUNDS: u64 = 20;
    let cast = Cast::new("a_child_waits_for_no_thread_of_its_parent").ranks(1);
    cast.run(|_| {
        let [sender, receiver] = [(), ()].map(|()| HybridEndpoint::open().expect("open"));
        let to = sender.connect(&receiver.address().to_bytes());
        let from = receiver.connect(&sender.address().to_bytes());
        let (to, from) = (to.expect("an address"), from.expect("an address"));
        let receives = std::thread::spawn(move || {
            let mut room = vec![0; LEN];
            for round in 0..ROUNDS {
                receiver.recv((from, round), &mut room).expect("recv");
                check(round, &room);
            }
        });
        for round in 0..ROUNDS {
            let send = sender.isend(to, round, content(round, LEN));
            let send = send.expect("isend");
            // SAFETY: the child runs on in this thread alone.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: it ends, whatever happens.
                unsafe { libc::alarm(50) };
                drop(send);
                drop(sender);
                std::process::exit(0);
            }
            assert!(child > 0, "fork");
            send.wait().expect("send");
            ends_well(Pid::from_raw(child));
        }
        receives.join().expect("it receives all");
    });
}

/// Forks a process that is the first one of a new namespace of processes, so that its pid is 1, and
/// runs `body` there. `None`: that is not allowed here.
fn fork_to_namespace(body: impl FnOnce()) -> Option<Pid> {
    unshare(CloneFlags::CLONE_NEWPID).ok()?;
    // SAFETY: the child runs on in this thread alone, and ends without a destructor.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends, whatever happens.
        unsafe { libc::alarm(50) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_eq!(std::process::id(), 1);
            body();
        }));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    assert!(child > 0, "fork");
    Some(Pid::from_raw(child))
}

fn ends_well(child: Pid) {
    let ended = waitpid(child, None).expect("the child has ended");
    assert_eq!(ended, WaitStatus::Exited(child, 0));
}

/// As in containers: parent and child both have the pid 1, each in a namespace of its own.
#[test]
fn a_child_with_its_parents_pid_is_another_process() {
    const LEN: usize = 3_000_000;
    let cast = Cast::new("a_child_with_its_parents_pid_is_another_process").ranks(1);
    cast.run(|_| {
        let parent = fork_to_namespace(|| {
            let endpoint = HybridEndpoint::open().expect("open");
            let child = fork_to_namespace(|| {
                let forked = Error::PeerFailed {
                    peer: endpoint.myself(),
                    why: PeerFailure::Forked,
                };
                let sent = endpoint.send(endpoint.myself(), 5, b"from the child");
                assert_eq!(sent, Err(forked));
                let own = HybridEndpoint::open().expect("open");
                let parent = own.connect(&endpoint.address().to_bytes());
                let parent = parent.expect("an address");
                own.send(parent, 1, &content(1, LEN)).expect("send");
            });
            let mut room = vec![0; LEN];
            endpoint.recv(Selector::any(), &mut room).expect("recv");
            check(1, &room);
            ends_well(child.expect("as its parent may"));
        });
        match parent {
            None => skip("a process may make no namespace of processes here"),
            Some(parent) => ends_well(parent),
        }
    });
}
