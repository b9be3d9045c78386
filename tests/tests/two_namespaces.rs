//! Two nodes of two ranks each: shared memory inside, TCP between. The nodes are network
//! namespaces, with a link between them that can be taken down.

use std::time::{Duration, Instant};

use limic::settings::{FabricUse, Path, SettingsBuilder};
use limic::{Endpoint, Error, HybridEndpoint, PeerFailure, Selector, Settings, Tag};
use limic_tests::{Cast, Rank, away, check, content, namespaces};

const TAG: Tag = Tag(7);
/// How long a machine may be silent here.
const TIMEOUT: Duration = Duration::from_secs(2);

fn endpoint(with: impl FnOnce(SettingsBuilder) -> SettingsBuilder) -> HybridEndpoint {
    let builder = Settings::builder().without_environment();
    let settings = with(builder).build().expect("settings");
    HybridEndpoint::with(settings).expect("an endpoint")
}

/// Runs `body` in this many ranks, the first half of them on the first node.
fn on_two_nodes(test: &str, ranks: u32, body: impl FnOnce(&Rank)) {
    let mut made = None;
    match std::env::var("LIMIC_TEST_RANK") {
        Ok(rank) => {
            let rank: u32 = rank.parse().expect("a number");
            namespaces::enter(test, (rank * 2 / ranks) as usize);
        }
        Err(_) => match namespaces::make(test) {
            Some(two) => made = Some(two),
            None => return,
        },
    }
    Cast::new(test).ranks(ranks).run(body);
    drop(made);
}

fn over_network(endpoint: &HybridEndpoint) -> u64 {
    let counters = endpoint.counters();
    let sent = counters.sent_paths.iter();
    let network = sent.filter(|(path, _)| *path == Path::Network);
    network.map(|(_, traffic)| traffic.messages).sum()
}

#[test]
fn shared_memory_inside_and_tcp_between() {
    on_two_nodes("shared_memory_inside_and_tcp_between", 4, |rank| {
        let endpoint = endpoint(|s| s);
        let peers = rank.connect(&endpoint);
        let me = rank.rank;
        // To the neighbour on this node, then to the rank on the other one.
        for (partner, far) in [(me ^ 1, false), (me ^ 2, true)] {
            let peer = peers[partner as usize];
            for len in [0, 8, 5000, 65_536, 65_537, 3_000_000] {
                let number = |from: u32| u64::from(from) << 32 | len as u64;
                let before = over_network(&endpoint);
                let (out, mut back) = (content(number(me), len), vec![0; len]);
                let status = endpoint
                    .send_recv(peer, TAG, &out, (peer, TAG), &mut back)
                    .expect("exchange");
                assert_eq!((status.peer, status.len), (peer, len as u64));
                check(number(partner), &back);
                assert_eq!(over_network(&endpoint) - before, u64::from(far));
            }
        }
        rank.link.meet(&endpoint);
    });
}

/// A receive from anybody takes from shared memory and from the network, and each sender's messages
/// in their order.
fn each_sender_keeps_its_order(rank: &Rank, endpoint: &HybridEndpoint) {
    const COUNT: u64 = 3000;
    let peers = rank.connect(endpoint);
    if rank.rank == 0 {
        let mut next = [0_u64; 4];
        let mut room = vec![0; 100_000];
        for _ in 0..3 * COUNT {
            let any = Selector::any_source(TAG);
            let status = endpoint.recv(any, &mut room).expect("recv");
            let from = peers.iter().position(|peer| *peer == status.peer);
            let from = from.expect("a rank of this job");
            let number = u64::from_le_bytes(room[..8].try_into().expect("8 bytes"));
            assert_eq!(number, next[from], "from rank {from}");
            next[from] += 1;
        }
        assert_eq!(next, [0, COUNT, COUNT, COUNT]);
    } else {
        for number in 0..COUNT {
            let len = match number % 50 {
                0 => 100_000,
                other => 8 + other as usize * 30,
            };
            let mut message = number.to_le_bytes().to_vec();
            message.resize(len, 0);
            endpoint.send(peers[0], TAG, &message).expect("send");
        }
    }
    rank.link.meet(endpoint);
}

#[test]
fn any_source_keeps_the_order_of_each_sender() {
    on_two_nodes("any_source_keeps_the_order_of_each_sender", 4, |rank| {
        each_sender_keeps_its_order(rank, &endpoint(|s| s));
    });
}

#[test]
fn any_source_keeps_the_order_of_each_sender_over_libfabric() {
    const TEST: &str = "any_source_keeps_the_order_of_each_sender_over_libfabric";
    let with = |used| {
        let builder = Settings::builder().without_environment();
        let settings = builder.fabric(used).ofi_provider("tcp").build();
        HybridEndpoint::with(settings.expect("settings"))
    };
    // libfabric looks at the interfaces once: ranks ask it when they are on their nodes.
    if std::env::var_os("LIMIC_TEST_RANK").is_none()
        && let Err(why) = with(FabricUse::OfiOnly)
    {
        return limic_tests::skip(&why.to_string());
    }
    on_two_nodes(TEST, 4, |rank| {
        let endpoint = with(FabricUse::Ofi).expect("an endpoint");
        each_sender_keeps_its_order(rank, &endpoint);
        assert_eq!(over_network(&endpoint) > 0, rank.rank > 1);
    });
}

#[test]
fn the_interface_may_be_named_and_may_speak_ipv6() {
    on_two_nodes("the_interface_may_be_named_and_may_speak_ipv6", 2, |rank| {
        for name in [format!("fd77::{}", rank.rank + 1), "eth0".to_owned()] {
            let endpoint = endpoint(|s| s.tcp_interface(&name));
            let peers = rank.connect(&endpoint);
            let other = peers[1 - rank.rank as usize];
            let mut back = [0; 4];
            endpoint
                .send_recv(other, TAG, b"here", (other, TAG), &mut back)
                .expect("exchange");
            assert_eq!(&back, b"here");
            rank.link.meet(&endpoint);
        }
    });
}

/// An endpoint with no network in common with another is told so when it names that, with what each
/// has.
#[test]
fn without_a_common_network_connect_says_so() {
    on_two_nodes("without_a_common_network_connect_says_so", 2, |rank| {
        let used = [FabricUse::Tcp, FabricUse::Off][rank.rank as usize];
        let endpoint = endpoint(|s| s.fabric(used));
        let blobs = rank.link.exchange(&endpoint.address().to_bytes());
        let other = blobs[1 - rank.rank as usize].as_deref().expect("it lives");
        let error = endpoint.connect(other).expect_err("nothing leads there");
        assert!(matches!(error, Error::NoCommonNetwork(_)), "{error}");
        let each = [
            "here there is tcp, there is none",
            "here there is none, there is tcp",
        ][rank.rank as usize];
        assert!(error.to_string().contains(each), "{error}");
        assert!(error.to_string().contains("limic info"), "{error}");
        rank.link.meet(&endpoint);
    });
}

/// The link is away for less time than a machine may be silent: what was under way, and what is
/// begun meanwhile, is late and whole.
#[test]
fn a_link_that_is_away_for_a_while_makes_messages_late() {
    const TEST: &str = "a_link_that_is_away_for_a_while_makes_messages_late";
    messages_are_late(TEST, true);
}

/// The same when the two have not met before: the first contact is late too.
#[test]
fn a_link_that_is_away_for_a_while_makes_a_first_contact_late() {
    const TEST: &str = "a_link_that_is_away_for_a_while_makes_a_first_contact_late";
    messages_are_late(TEST, false);
}

fn messages_are_late(test: &str, have_met: bool) {
    const LENGTHS: [usize; 4] = [8, 3000, 1_000_000, 8];
    on_two_nodes(test, 2, |rank| {
        let endpoint = endpoint(|s| s.tcp_timeout(3 * away()));
        let peers = rank.connect(&endpoint);
        let (me, other) = (u64::from(rank.rank), peers[1 - rank.rank as usize]);
        let mut word = [0; 4];
        if have_met {
            endpoint
                .send_recv(other, TAG, b"once", (other, TAG), &mut word)
                .expect("exchange");
        }
        rank.link.meet(&endpoint);
        if me == 1 {
            namespaces::set_link(false);
        }
        rank.link.meet(&endpoint);
        let sends = LENGTHS.map(|len| {
            let message = content(me << 32 | len as u64, len);
            endpoint.isend(other, Tag(8), message).expect("isend")
        });
        let got = endpoint.recv_timeout((other, Tag(8)), &mut word, away());
        assert_eq!(got.expect("nobody has failed"), None);
        rank.link.meet(&endpoint);
        if me == 1 {
            namespaces::set_link(true);
        }
        let start = Instant::now();
        for len in LENGTHS {
            let mut room = vec![0; len];
            endpoint.recv((other, Tag(8)), &mut room).expect("recv");
            check((1 - me) << 32 | len as u64, &room);
        }
        for send in sends {
            send.wait().expect("it went");
        }
        println!(
            "REPORT: rank {me} has all {} ms after the link is back",
            start.elapsed().as_millis()
        );
        rank.link.meet(&endpoint);
    });
}

/// The link is down for longer than a machine may be silent: what was under way ends with an error
/// that names the peer, ranks of one node go on, and when the link is back the same endpoints meet
/// again.
#[test]
fn a_link_that_is_down_is_an_error_and_one_that_is_back_serves() {
    const TEST: &str = "a_link_that_is_down_is_an_error_and_one_that_is_back_serves";
    on_two_nodes(TEST, 4, |rank| {
        let endpoint = endpoint(|s| s.tcp_timeout(TIMEOUT));
        let peers = rank.connect(&endpoint);
        let me = rank.rank as usize;
        let (near, far) = (peers[me ^ 1], peers[me ^ 2]);
        let address = endpoint.peer_address(far).expect("known").to_bytes();
        let mut word = [0; 4];
        endpoint
            .send_recv(far, TAG, b"once", (far, TAG), &mut word)
            .expect("exchange");
        rank.link.meet(&endpoint);
        if me == 3 {
            namespaces::set_link(false);
        }
        rank.link.meet(&endpoint);
        // One side of each pair sends into the void, the other waits.
        let start = Instant::now();
        let error = if me < 2 {
            let long = vec![1; 1 << 20];
            loop {
                if let Err(error) = endpoint.send(far, TAG, &long) {
                    break error;
                }
            }
        } else {
            let error = endpoint.recv((far, TAG), &mut word);
            error.expect_err("nothing comes")
        };
        println!(
            "REPORT: rank {me} after {} ms: {error}",
            start.elapsed().as_millis()
        );
        let Error::PeerFailed { peer, why } = error else {
            panic!("{error}");
        };
        assert_eq!((peer, why), (far, PeerFailure::Unreachable));
        for _ in 0..100 {
            endpoint
                .send_recv(near, Tag(9), b"near", (near, Tag(9)), &mut word)
                .expect("exchange");
        }
        assert_eq!(&word, b"near");
        rank.link.meet(&endpoint);
        if me == 3 {
            namespaces::set_link(true);
        }
        rank.link.meet(&endpoint);
        // It may take the kernel a moment until the link carries something.
        let again = loop {
            assert_eq!(endpoint.connect(&address).expect("known"), far);
            let receive = endpoint.irecv((far, Tag(10)), vec![0; 5]).expect("irecv");
            let sent = endpoint.send(far, Tag(10), b"again");
            if sent.is_ok()
                && let Ok((_, buffer)) = receive.wait()
            {
                break buffer;
            }
        };
        assert_eq!(&again[..], b"again");
        rank.link.meet(&endpoint);
    });
}
