//! Ranks that fork.

use limic::{Endpoint, HybridEndpoint};
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
