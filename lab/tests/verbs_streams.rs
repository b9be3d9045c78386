//! Endpoints with two devices: long messages go through both, and one that fails leaves everything
//! to the other.

use core::time::Duration;
use std::time::Instant;

use limic::{Endpoint, Settings, Tag, VerbsEndpoint};
use limic_lab_tests::{in_guest, run};
use limic_tests::{Cast, Rank};

const TAG: Tag = Tag(7);
const LONG: usize = 2 << 20;
const DEVICES: [&str; 2] = ["rxe0", "rxe1"];

/// Makes a second device beside the guest's own one.
fn second_device() {
    if std::path::Path::new("/sys/class/infiniband/rxe1").exists() {
        return;
    }
    for command in [
        "ip link add d1 type dummy",
        "ip addr add 10.77.1.1/24 dev d1",
        "ip link set d1 mtu 9000 up",
        "rdma link add rxe1 type rxe netdev d1",
    ] {
        run(command);
    }
}

fn two_ranks(name: &str, body: impl FnOnce(&Rank)) {
    if in_guest() {
        if std::env::var_os("LIMIC_TEST_RANK").is_none() {
            second_device();
        }
        Cast::new(name).run(body);
    }
}

fn endpoint() -> VerbsEndpoint {
    let settings = Settings::builder()
        .without_environment()
        .verbs_devices(&DEVICES.join(","))
        .verbs_streams(2)
        .build();
    VerbsEndpoint::with(settings.expect("settings")).expect("an endpoint")
}

/// Packets that a device has sent.
fn sent_by(device: &str) -> u64 {
    let path = format!("/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts");
    let text = std::fs::read_to_string(&path).expect("Soft-RoCE counts its packets");
    text.trim().parse().expect("a number")
}

fn value(round: u32, at: usize) -> u8 {
    (at as u32 / 64).wrapping_mul(31).wrapping_add(round) as u8
}

/// Rank 0 sends long messages with a short one before and behind each; rank 1 looks at every byte.
fn stream(endpoint: &VerbsEndpoint, rank: &Rank, peer: limic::Peer, rounds: core::ops::Range<u32>) {
    let mut long = vec![0; LONG];
    for round in rounds {
        let mut word = round.to_le_bytes();
        if rank.rank == 0 {
            for (at, byte) in long.iter_mut().enumerate() {
                *byte = value(round, at);
            }
            endpoint.send(peer, TAG, &word).expect("send");
            endpoint.send(peer, TAG, &long).expect("send");
            endpoint.send(peer, TAG, &word).expect("send");
        } else {
            endpoint.recv((peer, TAG), &mut word).expect("recv");
            assert_eq!(u32::from_le_bytes(word), round);
            endpoint.recv((peer, TAG), &mut long).expect("recv");
            let wrong = (0..LONG).find(|at| long[*at] != value(round, *at));
            assert_eq!(wrong, None, "round {round}");
            endpoint.recv((peer, TAG), &mut word).expect("recv");
            assert_eq!(u32::from_le_bytes(word), round);
        }
    }
}

#[test]
fn long_messages_go_through_both_devices() {
    two_ranks("long_messages_go_through_both_devices", |rank| {
        let endpoint = endpoint();
        let peers = rank.connect(&endpoint);
        let peer = peers[1 - rank.rank as usize];
        stream(&endpoint, rank, peer, 0..1);
        rank.link.meet(&endpoint);
        let before = DEVICES.map(sent_by);
        stream(&endpoint, rank, peer, 1..5);
        rank.link.meet(&endpoint);
        let after = DEVICES.map(sent_by);
        let packets = [after[0] - before[0], after[1] - before[1]];
        if rank.rank == 0 {
            println!(
                "REPORT: 4 messages of 2 MiB: {} packets by {}, {} by {}",
                packets[0], DEVICES[0], packets[1], DEVICES[1]
            );
        }
        // Half of 8 MiB in packets of 4 KiB, and some more for what was repeated or acknowledged.
        for sent in packets {
            assert!(sent >= 1024, "{packets:?}");
        }
        rank.link.meet(&endpoint);
    });
}

/// The network below one device goes down while messages are on their way.
fn a_device_fails(rank: &Rank, network: &str) {
    let endpoint = endpoint();
    let peers = rank.connect(&endpoint);
    let peer = peers[1 - rank.rank as usize];
    stream(&endpoint, rank, peer, 0..2);
    rank.link.meet(&endpoint);
    let breaker = (rank.rank == 1).then(|| {
        let command = format!("ip link set {network} down");
        std::thread::spawn(move || run(&command))
    });
    stream(&endpoint, rank, peer, 2..12);
    if let Some(breaker) = breaker {
        breaker.join().expect("it went down");
    }
    // Now it is down for sure.
    stream(&endpoint, rank, peer, 12..14);
    rank.link.meet(&endpoint);
    if rank.rank == 1 {
        run(&format!("ip link set {network} up"));
    }
    // It is used again, as soon as both ends know.
    let start = Instant::now();
    let device = DEVICES[usize::from(network == "d1")];
    for round in 14.. {
        let before = sent_by(device);
        stream(&endpoint, rank, peer, round..round + 1);
        let is_back = sent_by(device) - before >= 256;
        rank.link.meet(&endpoint);
        let told = rank.link.exchange(&[is_back.into()]);
        if told.iter().flatten().all(|told| *told == [1]) {
            return;
        }
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(50), "{device} is not used");
    }
}

#[test]
fn the_second_device_fails_and_the_first_takes_over() {
    two_ranks("the_second_device_fails_and_the_first_takes_over", |rank| {
        a_device_fails(rank, "d1");
    });
}

#[test]
fn the_first_device_fails_and_the_second_takes_over() {
    two_ranks("the_first_device_fails_and_the_second_takes_over", |rank| {
        a_device_fails(rank, "d0");
    });
}
