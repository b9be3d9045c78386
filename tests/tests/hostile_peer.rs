//! Processes that mean harm, or are broken.

use std::os::fd::AsRawFd;

use limic::counters::Event;
use limic::{ADDRESS_LEN, Endpoint, HybridEndpoint, Selector};
use limic_tests::attacker::{Scribble, intrude, writable_segments};
use limic_tests::process::{open_descriptors, socket_name, vanish};
use limic_tests::{Cast, Random, Rank, check, content};
use nix::sys::socket::{MsgFlags, send};

/// Ranks 0 and 1 exchange messages; rank 2 throws all kinds of greetings at rank 0.
#[test]
fn garbage_on_the_socket_harms_nobody() {
    Cast::new("garbage_on_the_socket_harms_nobody")
        .ranks(3)
        .run(|rank| {
            let endpoint = HybridEndpoint::open().expect("open");
            if rank.rank == 2 {
                let blobs = rank.link.exchange(&endpoint.address().to_bytes());
                let blob = blobs[0].as_ref().expect("an address");
                let address = limic::Address::from_bytes(blob).expect("an address");
                throw_garbage(rank.seed, &socket_name(&address), blob);
                let _ = rank.link.exchange(&[]);
                return;
            }
            let peers = rank.connect(&endpoint);
            let other = peers[1 - rank.rank as usize];
            let before = open_descriptors();
            for round in 0..3000_u64 {
                let len = [8, 100, 5000, 100_000][round as usize % 4];
                let (data, mut inbox) = (content(round, len), vec![0; len]);
                endpoint
                    .send_recv(other, 1_u64, &data, (other, 1), &mut inbox)
                    .expect("exchange");
                check(round, &inbox);
            }
            rank.link.meet(&endpoint);
            for _ in 0..200 {
                endpoint.sleep(Some(std::time::Duration::ZERO));
            }
            let mut inbox = vec![0; 1000];
            let data = content(1, 1000);
            endpoint
                .send_recv(other, 2_u64, &data, (other, 2), &mut inbox)
                .expect("exchange");
            // The other rank's connection came after the count; the intruders' must be gone.
            let after = open_descriptors();
            assert!(
                after <= before + 12,
                "{before} descriptors before, {after} after"
            );
        });
}

/// Rank 1 opens connections over which it says nothing. They cost rank 0 a bounded number of
/// descriptors, and rank 2 gets through.
#[test]
fn silent_connections_are_dropped() {
    Cast::new("silent_connections_are_dropped")
        .ranks(3)
        .run(|rank| {
            let endpoint = HybridEndpoint::open().expect("open");
            let peers = rank.connect(&endpoint);
            let mut silent = Vec::new();
            if rank.rank == 1 {
                let address = endpoint.peer_address(peers[0]).expect("known");
                let name = socket_name(&address);
                silent.extend((0..300).filter_map(|_| intrude(&name).expect("socket")));
            }
            let before = open_descriptors();
            let _ = rank.link.exchange(&[]);
            match rank.rank {
                0 => {
                    endpoint.recv((peers[2], 1), &mut [0; 8]).expect("recv");
                    // Two for each connection, and what belongs to rank 2.
                    let after = open_descriptors();
                    assert!(after < before + 100, "{before} before, {after} after");
                }
                1 => drop(silent),
                _ => endpoint.send(peers[0], 1_u64, &[0; 8]).expect("send"),
            }
            rank.link.meet(&endpoint);
        });
}

/// Without a free descriptor nobody can be accepted. A peer that knocks then does not keep the
/// endpoint awake, and gets in later.
#[test]
fn without_descriptors_an_endpoint_still_sleeps() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    Cast::new("without_descriptors_an_endpoint_still_sleeps").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        if rank.rank == 1 {
            endpoint.send(peers[0], 1_u64, &[0; 8]).expect("send");
        } else {
            let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("getrlimit");
            setrlimit(Resource::RLIMIT_NOFILE, 3, hard).expect("setrlimit");
            let woken = || endpoint.counters().event(Event::WakeUps);
            let sleep = || endpoint.sleep(Some(std::time::Duration::from_millis(20)));
            let begin = woken();
            while woken() == begin {
                // Until rank 1 knocks.
                sleep();
            }
            let (before, sleeps) = (woken(), 20);
            for _ in 0..sleeps {
                sleep();
            }
            let woken = woken() - before;
            assert!(woken < sleeps, "woken {woken} times of {sleeps}");
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("setrlimit");
            endpoint.recv((peers[1], 1), &mut [0; 8]).expect("recv");
        }
        rank.link.meet(&endpoint);
    });
}

fn throw_garbage(seed: u64, name: &str, address: &[u8]) {
    let mut random = Random::new(seed);
    let mut open = Vec::new();
    let mut sent = 0;
    for round in 0..800_u64 {
        let Some(connection) = intrude(name).expect("socket") else {
            continue;
        };
        let mut bytes: Vec<u8> = (0..random.below(300))
            .map(|_| random.next_u64() as u8)
            .collect();
        if round % 2 == 0 && bytes.len() > 16 + ADDRESS_LEN {
            // It begins like a greeting with the right secret, and goes wrong later.
            bytes[..4].copy_from_slice(&((round / 2 % 7) as u32).to_le_bytes());
            // One of these is the version that is spoken.
            let version = 8 + (round / 2 % 8) as u32;
            bytes[4..8].copy_from_slice(&version.to_le_bytes());
            bytes[8..16].copy_from_slice(&address[20..28]);
            bytes[16..16 + ADDRESS_LEN].copy_from_slice(address);
            if round % 4 == 0 {
                bytes.resize(16 + ADDRESS_LEN + 56, 7);
            }
        }
        for _ in 0..=random.below(3) {
            // It may be refused and closed by now.
            if send(connection.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL).is_ok() {
                sent += 1;
            }
        }
        match random.below(3) {
            0 => open.push(connection),
            1 if open.len() > 100 => open.clear(),
            _ => {}
        }
    }
    println!("{sent} messages of garbage");
}

/// Rank 1 scribbles; rank 0 gets errors or hears nothing, but neither crashes nor hangs.
fn scribbled(rank: &Rank) {
    let endpoint = HybridEndpoint::open().expect("open");
    let peers = rank.connect(&endpoint);
    let other = peers[1 - rank.rank as usize];
    let mut inbox = vec![0; 300_000];
    for (round, len) in [8, 100, 5000, 300_000, 8, 8, 8, 8, 100_000]
        .into_iter()
        .enumerate()
    {
        let data = content(round as u64, len);
        let into = &mut inbox[..len];
        endpoint
            .send_recv(other, 1_u64, &data, (other, 1), into)
            .expect("exchange");
    }
    let region = endpoint.region(vec![1; 5000]).expect("a region");
    let mut random = Random::new(rank.seed);
    if rank.rank == 1 {
        // The own endpoint is not used any more, so what becomes of it does not matter.
        std::mem::forget(region);
        let all = writable_segments();
        for word in 0..40_000 {
            // SAFETY: as any peer of the endpoint may.
            unsafe { Scribble::Words.once(&mut random, &all) };
            if word % 200 == 0 {
                std::thread::yield_now();
            }
        }
        vanish();
    }
    let mut errors = 0;
    let mut rounds = 0;
    loop {
        rounds += 1;
        let receive = endpoint.irecv(Selector::any_tag(other), vec![0; 10_000]);
        let send = endpoint.isend(other, 2_u64, vec![3; 1 << (rounds % 20)]);
        drop(send);
        match receive {
            Ok(mut receive) => {
                let mut polls = 0;
                while !receive.test() && polls < 200 {
                    polls += 1;
                }
                if polls == 200 {
                    receive.cancel().expect("cancel");
                    // What is lost for good ends with the peer's process.
                }
                if receive.wait().is_err() {
                    errors += 1;
                }
            }
            Err(_) => errors += 1,
        }
        let _ = endpoint.probe(Selector::any());
        if endpoint.send(other, 3_u64, &[1]).is_err() && rounds > 10 {
            break;
        }
    }
    println!("{errors} errors in {rounds} rounds");
    drop(region);
    // It is in order with itself.
    let me = endpoint.myself();
    let mut inbox = [0; 5];
    endpoint
        .send_recv(me, 1_u64, b"still", (me, 1), &mut inbox)
        .expect("to itself");
    assert_eq!(&inbox, b"still");
}

macro_rules! scribbles {
    ($($name:ident)+) => {
        $(
            /// Every run has another seed.
            #[test]
            fn $name() {
                let report = Cast::new(stringify!($name)).run(scribbled);
                for line in report.iter().flat_map(|r| &r.ended).flat_map(|e| e.output.lines()) {
                    if line.contains(" errors in ") {
                        println!("{line}");
                    }
                }
            }
        )+
    };
}

scribbles! { scribble_1 scribble_2 scribble_3 scribble_4 scribble_5 scribble_6 scribble_7 scribble_8 }
