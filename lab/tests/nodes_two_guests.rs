//! Endpoints on two machines: which path goes where, and what the loss of a machine or of the
//! network does.

use std::process::Command;
use std::time::Instant;

use limic::settings::Path;
use limic::{Endpoint, Error, HybridEndpoint, Peer, Selector, Settings, Tag};
use limic_lab_tests::in_guest;
use limic_tests::Cast;

const TAG: Tag = Tag(7);

fn endpoint() -> HybridEndpoint {
    let settings = Settings::builder().without_environment().build();
    HybridEndpoint::with(settings.expect("settings")).expect("an endpoint")
}

#[test]
fn shared_memory_inside_and_verbs_between() {
    if !in_guest() {
        return;
    }
    Cast::new("shared_memory_inside_and_verbs_between")
        .ranks(4)
        .run(|rank| {
            let endpoint = endpoint();
            let peers = rank.connect(&endpoint);
            let me = rank.rank;
            // To the neighbour on this machine, then to the rank on the other one.
            for (partner, verbs) in [(me ^ 1, false), (me ^ 2, true)] {
                let (out, mut back) = ([me as u8; 8], [0; 8]);
                let before = over_verbs(&endpoint);
                let peer = peers[partner as usize];
                let status = endpoint
                    .send_recv(peer, TAG, &out, (peer, TAG), &mut back)
                    .expect("exchange");
                assert_eq!((status.peer, back), (peer, [partner as u8; 8]));
                assert_eq!(over_verbs(&endpoint) - before, u64::from(verbs));
            }
            // Receives from anybody take from both.
            if me == 0 {
                let mut from = Vec::new();
                for _ in 1..rank.ranks {
                    let mut who = [0; 1];
                    let any = Selector::any_source(Tag(8));
                    let status = endpoint.recv(any, &mut who).expect("recv");
                    assert_eq!(status.peer, peers[who[0] as usize]);
                    from.push(who[0]);
                }
                from.sort_unstable();
                assert_eq!(from, [1, 2, 3]);
            } else {
                endpoint.send(peers[0], Tag(8), &[me as u8]).expect("send");
            }
            rank.link.meet(&endpoint);
        });
}

fn over_verbs(endpoint: &HybridEndpoint) -> u64 {
    let counters = endpoint.counters();
    let sent = counters.sent_paths.iter();
    let verbs = sent.filter(|(path, _)| matches!(path, Path::Network | Path::NetworkRead));
    verbs.map(|(_, traffic)| traffic.messages).sum()
}

/// Whom the error names.
fn failed_peer(error: &Error) -> Peer {
    match error {
        Error::PeerFailed { peer, .. } => *peer,
        other => panic!("{other}"),
    }
}

/// The second machine stops at once, in the middle of what its ranks send.
#[test]
fn node_1_dies_in_mid_stream() {
    if !in_guest() {
        return;
    }
    Cast::new("node_1_dies_in_mid_stream").ranks(4).run(|rank| {
        let endpoint = endpoint();
        let peers = rank.connect(&endpoint);
        let me = rank.rank as usize;
        if me >= 2 {
            let long = vec![me as u8; 100_000];
            for number in 0_u64.. {
                endpoint
                    .send(peers[me - 2], TAG, &number.to_le_bytes())
                    .expect("send");
                endpoint.send(peers[me - 2], TAG, &long).expect("send");
                if me == 2 && number == 40 {
                    // No flush and no goodbye of anybody: the machine ends here.
                    std::fs::write("/proc/sysrq-trigger", "b").expect("sysrq");
                }
            }
        }
        let far = peers[me + 2];
        let mut room = vec![0; 100_000];
        let mut received = 0;
        let (error, last) = loop {
            let start = Instant::now();
            match endpoint.recv((far, TAG), &mut room) {
                Ok(_) => received += 1,
                Err(error) => break (error, start.elapsed()),
            }
        };
        assert_eq!(failed_peer(&error), far);
        println!(
            "REPORT: rank {me}: {received} messages, then after {} ms: {error}",
            last.as_millis()
        );
        let refused = endpoint.send(far, TAG, b"?").expect_err("nobody is there");
        assert_eq!(failed_peer(&refused), far);
        // The ranks of this machine go on.
        let near = peers[me ^ 1];
        let mut word = [0; 4];
        for _ in 0..100 {
            endpoint
                .send_recv(near, Tag(9), b"here", (near, Tag(9)), &mut word)
                .expect("exchange");
        }
        assert_eq!(&word, b"here");
    });
}

/// The network is away for longer than adapters repeat, and comes back: the same endpoints connect
/// again.
#[test]
fn endpoints_connect_again_after_the_network_was_down() {
    if !in_guest() {
        return;
    }
    Cast::new("endpoints_connect_again_after_the_network_was_down").run(|rank| {
        let endpoint = endpoint();
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let address = endpoint.peer_address(other).expect("known").to_bytes();
        // Frames for the other machine go to an address that nobody has, whichever protocol they
        // are of.
        let number = u8::from(std::env::var("LIMIC_LAB_GUEST").as_deref() == Ok("0")) + 1;
        let neighbours = [
            format!("10.77.0.{number}"),
            format!("fe80::5054:ff:fe77:{number:x}"),
        ];
        let network = |up: bool| {
            for neighbour in &neighbours {
                let mut ip = Command::new("ip");
                ip.args(["neigh", if up { "del" } else { "replace" }, neighbour]);
                if !up {
                    ip.args(["lladdr", "02:00:00:00:00:77", "nud", "permanent"]);
                }
                let status = ip.args(["dev", "eth0"]).status();
                assert!(status.expect("ip").success(), "ip neigh {neighbour}");
            }
        };
        let mut word = [0; 5];
        let exchange =
            |word: &mut [u8; 5]| endpoint.send_recv(other, TAG, b"first", (other, TAG), word);
        exchange(&mut word).expect("the first exchange");
        rank.link.meet(&endpoint);
        if rank.rank == 0 {
            network(false);
        }
        let error = endpoint
            .recv((other, Tag(8)), &mut word)
            .expect_err("the network is down");
        assert_eq!(failed_peer(&error), other);
        println!("REPORT: rank {}: {error}", rank.rank);
        if rank.rank == 0 {
            network(true);
        }
        // Either side may be the first to try, and try in vain.
        loop {
            assert_eq!(endpoint.connect(&address).expect("connect"), other);
            let again = endpoint.send_recv(other, Tag(10), b"again", (other, Tag(10)), &mut word);
            match again {
                Ok(_) => break,
                Err(error) => assert_eq!(failed_peer(&error), other),
            }
        }
        assert_eq!(&word, b"again");
        rank.link.meet(&endpoint);
    });
}
