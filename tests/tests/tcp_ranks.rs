//! Ranks that reach each other over TCP alone: many of them, killed ones, strangers.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use limic::counters::Event;
use limic::settings::{FabricUse, Path, SettingsBuilder, Spin};
use limic::{Endpoint, Error, HybridEndpoint, PeerFailure, Selector, Settings, Tag};
use limic_tests::process::die;
use limic_tests::{Cast, all_to_all, away};

const TAG: Tag = Tag(7);

fn endpoint(with: impl FnOnce(SettingsBuilder) -> SettingsBuilder) -> HybridEndpoint {
    let builder = Settings::builder()
        .without_environment()
        .fabric(FabricUse::TcpOnly);
    let settings = with(builder).build().expect("settings");
    HybridEndpoint::with(settings).expect("an endpoint")
}

/// All first contacts at once, from both sides, and long messages behind them.
#[test]
fn sixty_four_ranks_all_to_all_ten_times() {
    const TEST: &str = "sixty_four_ranks_all_to_all_ten_times";
    let cast = Cast::new(TEST).ranks(64).alone();
    cast.limit(Duration::from_secs(240)).run(|rank| {
        let endpoint = endpoint(|s| s);
        let peers = rank.connect(&endpoint);
        for (round, len) in (0..10).zip([8, 1000, 40_000].into_iter().cycle()) {
            all_to_all(rank, &endpoint, &peers, round, len);
        }
        rank.link.meet(&endpoint);
    });
}

/// A process that computes for longer than a machine may be silent has not failed: neither if it is
/// called meanwhile, nor if it has called and then says nothing.
#[test]
fn a_peer_that_computes_at_first_contact_is_waited_for() {
    const TEST: &str = "a_peer_that_computes_at_first_contact_is_waited_for";
    let cast = Cast::new(TEST).limit(Duration::from_secs(60) + 2 * away());
    cast.run(|rank| {
        for has_called in [false, true] {
            let endpoint = endpoint(|s| s.tcp_timeout(away() / 3));
            let other = rank.connect(&endpoint)[1 - rank.rank as usize];
            let mut word = [0; 4];
            // A send, and a receive that names its source, make the first contact.
            let begins = (rank.rank == 0) == has_called;
            let send = begins.then(|| endpoint.isend(other, TAG, b"call".to_vec()).expect("isend"));
            if rank.rank == 1 {
                let from = match has_called {
                    false => Selector::from((other, TAG)),
                    true => Selector::any_source(TAG),
                };
                let got = endpoint.recv_timeout(from, &mut word, away());
                assert_eq!(got.expect("nobody has failed"), None);
            }
            // Rank 0 moves nothing until the other one has waited.
            let _ = rank.link.exchange(&[]);
            match send {
                Some(send) => drop(send.wait().expect("it is taken")),
                None => {
                    endpoint.recv((other, TAG), &mut word).expect("recv");
                    assert_eq!(&word, b"call");
                }
            }
            rank.link.meet(&endpoint);
        }
    });
}

/// Short and long messages, expected and not: the receiver counts the path that the sender counts.
#[test]
fn both_ends_count_the_same_path() {
    const LENGTHS: [usize; 3] = [8, 1000, 200_000];
    let cast = Cast::new("both_ends_count_the_same_path").ranks(2);
    cast.run(|rank| {
        let endpoint = endpoint(|s| s);
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        for len in LENGTHS {
            if rank.rank == 0 {
                endpoint.send(other, TAG, &vec![7; len]).expect("send");
                // It waits at the receiver, for which another one came first.
                endpoint.send(other, TAG, &vec![7; len]).expect("send");
                endpoint.send(other, Tag(8), &[]).expect("send");
            } else {
                let mut room = vec![0; len];
                endpoint.recv((other, TAG), &mut room).expect("recv");
                endpoint.recv((other, Tag(8)), &mut []).expect("recv");
                endpoint.recv((other, TAG), &mut room).expect("recv");
            }
        }
        rank.link.meet(&endpoint);
        let counters = endpoint.counters();
        let counted = match rank.rank {
            0 => counters.sent_paths,
            _ => counters.received_paths,
        };
        let counted: Vec<_> = counted
            .into_iter()
            .filter(|(_, of)| of.messages > 0)
            .collect();
        let [(Path::Network, traffic)] = counted[..] else {
            panic!("rank {}: {counted:?}", rank.rank);
        };
        assert_eq!(traffic.messages, 3 * LENGTHS.len() as u64);
    });
}

/// A rank is killed while others send to it, wait for it, and sleep: each learns it by name, and
/// the others go on.
#[test]
fn a_killed_rank_is_named_to_all() {
    const VICTIM: usize = 2;
    let cast = Cast::new("a_killed_rank_is_named_to_all").ranks(4);
    cast.dies(VICTIM as u32).run(|rank| {
        let endpoint = endpoint(|s| s.spin(Spin::For(Duration::ZERO)));
        let peers = rank.connect(&endpoint);
        let (me, victim) = (rank.rank as usize, peers[VICTIM]);
        let mut word = [0; 4];
        if me == VICTIM {
            for other in [0, 1, 3] {
                endpoint.send(peers[other], TAG, b"here").expect("send");
            }
            // Until all of them have seen it.
            for other in [0, 1, 3] {
                endpoint.recv((peers[other], TAG), &mut word).expect("recv");
            }
            die();
        }
        endpoint.recv((victim, TAG), &mut word).expect("recv");
        endpoint.send(victim, TAG, b"seen").expect("send");
        let error = match me {
            // It waits, and sleeps.
            0 => endpoint.recv((victim, TAG), &mut word).expect_err("dead"),
            // It has offered a long message.
            1 => {
                let long = vec![1; 1 << 20];
                endpoint.send(victim, TAG, &long).expect_err("dead")
            }
            // It sends short ones.
            _ => loop {
                if let Err(error) = endpoint.send(victim, TAG, b"more") {
                    break error;
                }
            },
        };
        let Error::PeerFailed { peer, why } = &error else {
            panic!("{error}");
        };
        assert_eq!((peer, why), (&victim, &PeerFailure::Died));
        let survivors = [0, 1, 3].iter().filter(|other| **other != me);
        for other in survivors {
            let peer = peers[*other];
            endpoint
                .send_recv(peer, Tag(9), b"okay", (peer, Tag(9)), &mut word)
                .expect("exchange");
            assert_eq!(&word, b"okay");
        }
        rank.link.meet(&endpoint);
    });
}

/// Whoever finds the port is not let in, and counted; the job does not notice.
#[test]
fn strangers_at_the_port_are_counted_and_harm_nobody() {
    Cast::new("strangers_at_the_port_are_counted_and_harm_nobody").run(|rank| {
        let endpoint = endpoint(|s| s.tcp_interface("127.0.0.1"));
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let mut word = [0; 4];
        if rank.rank == 1 {
            let address = endpoint.peer_address(other).expect("known").to_bytes();
            // Behind the fixed part: one part with its length, four bytes of an address, a port.
            let place = &address[29..35];
            let ip = IpAddr::from([place[0], place[1], place[2], place[3]]);
            let port = u16::from_be_bytes([place[4], place[5]]);
            for round in 0..20_u8 {
                let mut stranger = TcpStream::connect((ip, port)).expect("it listens");
                // It may be closed before all is written.
                let _ = stranger.write_all(&[round; 300]);
                stranger
                    .set_read_timeout(Some(Duration::from_millis(1)))
                    .expect("a limit");
                let _ = stranger.read(&mut [0; 16]);
            }
        }
        for _ in 0..100 {
            endpoint
                .send_recv(other, TAG, b"okay", (other, TAG), &mut word)
                .expect("exchange");
        }
        rank.link.meet(&endpoint);
        if rank.rank == 0 {
            let refused = || endpoint.counters().event(Event::Refused);
            while refused() < 20 {
                endpoint.progress();
            }
        }
        rank.link.meet(&endpoint);
    });
}
