//! Peers that may not read each other's memory: shared memory carries the messages all the same.

use limic::policy::Path;
use limic::{Endpoint, HybridEndpoint, Peer, RawEndpoint, Settings};
use limic_tests::{Cast, Rank, check, content, skip};

const NOBODY: u32 = 65_534;

fn open() -> HybridEndpoint {
    let builder = Settings::builder()
        .without_environment()
        .long_path(Path::Cma);
    HybridEndpoint::with(builder.build().expect("settings")).expect("open")
}

/// Messages of all kinds, both ways; gives how many went by single copy.
fn exchange(rank: &Rank, endpoint: &HybridEndpoint) -> u64 {
    let peers: Vec<Peer> = rank.connect(endpoint);
    let other = peers[1 - rank.rank as usize];
    for (number, len) in (0..).zip([0_usize, 40, 5000, 300_000, 5 << 20]) {
        let mut inbox = vec![0; len];
        let data = content(number, len);
        endpoint
            .send_recv(other, 1_u64, &data, (other, 1), &mut inbox)
            .expect("exchange");
        check(number, &inbox);
    }
    let region = endpoint.region(content(9, 100_000)).expect("a region");
    let keys = rank.link.exchange(&region.key().0.to_le_bytes());
    let key = keys[1 - rank.rank as usize].as_ref().expect("alive");
    let key = limic::RegionKey(u64::from_le_bytes(key[..].try_into().expect("8 bytes")));
    if rank.rank == 0 {
        let mut found = vec![0; 100_000];
        endpoint.read(other, key, 0, &mut found).expect("read");
        check(9, &found);
        endpoint
            .write(other, key, 0, &content(10, 100_000))
            .expect("write");
    }
    rank.link.meet(endpoint);
    let counters = endpoint.counters();
    let cma = counters.paths.iter().find(|(path, _)| *path == Path::Cma);
    cma.map_or(0, |(_, traffic)| traffic.messages)
}

fn become_nobody() {
    nix::unistd::setgroups(&[]).expect("setgroups");
    nix::unistd::setgid(NOBODY.into()).expect("setgid");
    nix::unistd::setuid(NOBODY.into()).expect("setuid");
}

/// Rank 1 is another user, and must not read a process of root.
#[test]
fn a_peer_of_another_user() {
    if !nix::unistd::geteuid().is_root() && std::env::var_os("LIMIC_TEST_RANK").is_none() {
        return skip("only root can become another user");
    }
    Cast::new("a_peer_of_another_user").run(|rank| {
        if rank.rank == 1 {
            become_nobody();
        }
        let endpoint = open();
        let single_copies = exchange(rank, &endpoint);
        if rank.rank == 1 {
            assert_eq!(single_copies, 0, "no right to read a process of root");
        }
    });
}

/// Rank 1 forbids everybody to look into it.
#[test]
fn a_peer_that_is_not_dumpable() {
    let root = nix::unistd::geteuid().is_root();
    Cast::new("a_peer_that_is_not_dumpable").run(|rank| {
        if root {
            // Root may look into everything.
            become_nobody();
        }
        nix::sys::prctl::set_dumpable(rank.rank == 0).expect("prctl");
        let endpoint = open();
        let single_copies = exchange(rank, &endpoint);
        if rank.rank == 0 {
            assert_eq!(single_copies, 0, "rank 1 forbids it");
        }
    });
}
