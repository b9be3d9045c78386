//! Ranks that fork.

use std::time::Duration;

use limic::{Endpoint, Error, HybridEndpoint, PeerFailure, Tag};
use limic_tests::{Cast, check, content};

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
            let child = nix::unistd::Pid::from_raw(child);
            nix::sys::wait::waitpid(child, None).expect("the child has ended");
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
        let pid = nix::unistd::Pid::from_raw(child);
        let ended = nix::sys::wait::waitpid(pid, None).expect("the child has ended");
        assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(pid, 0));
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
