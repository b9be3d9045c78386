//! Ranks that leave in good order, and addresses of those that are gone.

use std::time::Duration;

use limic::settings::Path;
use limic::{Endpoint, Error, HybridEndpoint, PeerFailure, Selector, Settings};
use limic_tests::process::die;
use limic_tests::{Cast, check, content};

/// One of three leaves; the other two go on.
#[test]
fn a_graceful_close_disturbs_nobody_else() {
    Cast::new("a_graceful_close_disturbs_nobody_else")
        .ranks(3)
        .run(|rank| {
            let endpoint = HybridEndpoint::open().expect("open");
            let peers = rank.connect(&endpoint);
            for other in peers.iter().filter(|peer| **peer != endpoint.myself()) {
                endpoint
                    .send(*other, 1_u64, &content(1, 5000))
                    .expect("send");
            }
            for other in peers.iter().filter(|peer| **peer != endpoint.myself()) {
                let mut buffer = vec![0; 5000];
                endpoint.recv((*other, 1), &mut buffer).expect("recv");
                check(1, &buffer);
            }
            if rank.rank == 2 {
                drop(endpoint);
                return;
            }
            let gone = endpoint
                .recv((peers[2], 2), &mut [])
                .expect_err("it has left");
            let wanted = Error::PeerFailed {
                peer: peers[2],
                why: PeerFailure::Closed,
            };
            assert_eq!(gone, wanted);
            assert!(gone.to_string().contains("peer 2"), "{gone}");
            // A wildcard still has somebody to wait for.
            let other = peers[1 - rank.rank as usize];
            for len in [10_usize, 100_000, 3 << 20] {
                let mut inbox = vec![0; len];
                let any = Selector::any_source(limic::Tag(3));
                endpoint
                    .send_recv(other, 3_u64, &content(7, len), any, &mut inbox)
                    .expect("exchange");
                check(7, &inbox);
            }
        });
}

/// All that fits a long ring is delivered, though its sender is known to have left before any of it
/// was read.
#[test]
fn a_full_ring_outlives_its_sender() {
    const MESSAGES: u64 = 40_000;
    Cast::new("a_full_ring_outlives_its_sender").run(|rank| {
        let builder = Settings::builder().without_environment();
        let settings = builder.ring_bytes(1 << 20).private_rings(1).build();
        let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        for _ in 0..100 {
            let mut word = [0];
            endpoint
                .send_recv(other, 1_u64, &[1], (other, 1), &mut word)
                .expect("exchange");
        }
        let _ = rank.link.exchange(&[]);
        if rank.rank == 1 {
            for number in 0..MESSAGES {
                endpoint
                    .send(other, 2_u64, &number.to_le_bytes())
                    .expect("send");
            }
            drop(endpoint);
            let _ = rank.link.exchange(&[]);
            return;
        }
        let _ = rank.link.exchange(&[]);
        // Looks at the sockets first.
        endpoint.arm();
        for number in 0..MESSAGES {
            let mut word = [0; 8];
            endpoint.recv((other, 2), &mut word).expect("recv");
            assert_eq!(u64::from_le_bytes(word), number);
        }
        let gone = endpoint.recv((other, 2), &mut []).expect_err("it has left");
        let why = PeerFailure::Closed;
        assert_eq!(gone, Error::PeerFailed { peer: other, why });
    });
}

/// Connecting only decodes; the first message finds out.
#[test]
fn a_peer_that_is_gone_fails_at_the_first_send() {
    let cast = Cast::new("a_peer_that_is_gone_fails_at_the_first_send")
        .ranks(3)
        .dies(1);
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let blobs = rank.link.exchange(&endpoint.address().to_bytes());
        match rank.rank {
            1 => die(),
            2 => drop(endpoint),
            _ => {
                // Who has ended takes no part in this exchange.
                while rank.link.exchange(&[]).iter().flatten().count() > 1 {}
                for blob in &blobs[1..] {
                    let address = blob.as_ref().expect("an address");
                    for len in [0_usize, 100_000] {
                        let peer = endpoint.connect(address).expect("it only decodes");
                        let wanted = Error::PeerFailed {
                            peer,
                            why: PeerFailure::Unreachable,
                        };
                        let error = endpoint.send(peer, 1_u64, &content(1, len));
                        assert_eq!(error, Err(wanted.clone()));
                        let error = endpoint.recv((peer, 1), &mut []);
                        assert_eq!(error.map(|_| ()), Err(wanted));
                        assert!(
                            endpoint
                                .read(peer, limic::RegionKey(1), 0, &mut [0])
                                .is_err()
                        );
                    }
                }
            }
        }
    });
}

/// A receive that its endpoint's end broke off gives its buffer back. The sender, which lives and
/// copies from the back meanwhile, writes there no more.
#[test]
fn nobody_writes_into_a_buffer_that_a_close_gave_back() {
    const LEN: usize = 64 << 20;
    Cast::new("nobody_writes_into_a_buffer_that_a_close_gave_back").run(|rank| {
        for round in 0..5 {
            let settings = Settings::builder()
                .without_environment()
                .long_path(Path::SplitCopy);
            let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
            let peers = rank.connect(&endpoint);
            let other = peers[1 - rank.rank as usize];
            if rank.rank == 0 {
                let send = endpoint.isend(other, 1_u64, vec![1; LEN]).expect("isend");
                // Nobody has it any more, or it was all there before the close.
                let outcome = send.wait();
                assert!(
                    matches!(outcome, Ok(_) | Err(Error::PeerFailed { .. })),
                    "{outcome:?}"
                );
                let _ = rank.link.exchange(&[]);
                continue;
            }
            let selector = Selector::from((other, 1));
            while endpoint.probe(selector).expect("probe").is_none() {}
            let receive = endpoint.irecv((other, 1), vec![0; LEN]).expect("irecv");
            // Each moves the copy on by one block.
            for _ in 0..10 * (round + 1) {
                endpoint.progress();
            }
            endpoint.close();
            let (outcome, mut buffer) = receive.wait_buffer();
            println!("round {round}: {outcome:?}");
            buffer.fill(2);
            // The sender comes here when its send has ended.
            let _ = rank.link.exchange(&[]);
            let written = buffer.iter().filter(|byte| **byte != 2).count();
            assert_eq!(
                written, 0,
                "bytes that were written into it in round {round}"
            );
        }
    });
}

/// Nobody can receive a message to itself any more: it ends, and with it the scope. The close does
/// not linger for it.
#[test]
fn a_close_ends_messages_to_itself() {
    let cast = Cast::new("a_close_ends_messages_to_itself").ranks(1);
    cast.run(|_| {
        let builder = Settings::builder().without_environment();
        let settings = builder.linger(Duration::from_secs(3600)).build();
        let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
        let (me, data) = (endpoint.myself(), content(1, 1 << 20));
        let outcome = endpoint.scope(|scope| {
            let send = scope.isend(me, 1_u64, &data)?;
            scope.endpoint().close();
            send.wait()
        });
        assert_eq!(outcome.map(|_| ()), Err(Error::Cancelled));
    });
}
