//! Peers that may not read each other's memory: shared memory carries the messages all the same.
//! Those of another user are no peers.

use limic::settings::Path;
use limic::{Endpoint, Error, HybridEndpoint, Peer, PeerFailure, Settings};
use limic_shm::control::{Received, Socket};
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

/// By which an endpoint's socket is found: bytes 12 to 20 of its address.
fn socket_of(address: &[u8]) -> u64 {
    u64::from_le_bytes(address[12..20].try_into().expect("8 bytes"))
}

fn become_nobody() {
    nix::unistd::setgroups(&[]).expect("setgroups");
    nix::unistd::setgid(NOBODY.into()).expect("setgid");
    nix::unistd::setuid(NOBODY.into()).expect("setuid");
}

/// Rank 1 is another user: neither of the two hands the other its memory.
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
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let error = endpoint
            .send(other, 1_u64, b"mine")
            .expect_err("a peer of another user");
        let Error::PeerFailed {
            why: PeerFailure::Refused(why),
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert!(
            why.contains("user 0") && why.contains("user 65534"),
            "{why}"
        );
        let _ = rank.link.exchange(&[]);
    });
}

/// A process of another user connects: it is sent away before it says anything.
#[test]
fn a_stranger_is_sent_away() {
    if !nix::unistd::geteuid().is_root() && std::env::var_os("LIMIC_TEST_RANK").is_none() {
        return skip("only root can become another user");
    }
    Cast::new("a_stranger_is_sent_away").run(|rank| {
        let endpoint = open();
        let addresses = rank.link.exchange(&endpoint.address().to_bytes());
        if rank.rank == 1 {
            become_nobody();
            let address = addresses[0].as_ref().expect("alive");
            let channel = Socket::connect(socket_of(address)).expect("it accepts");
            let mut answer = [0; 4096];
            let len = loop {
                match channel.receive(&mut answer).expect("an answer") {
                    Received::Message { len, fds } => {
                        assert!(fds.is_empty(), "no memory for strangers");
                        break len;
                    }
                    Received::WouldBlock => std::thread::yield_now(),
                    Received::Closed => panic!("without a word"),
                }
            };
            let text = String::from_utf8_lossy(&answer[4..len]);
            assert!(text.contains("of one user"), "{text}");
        }
        rank.link.meet(&endpoint);
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
