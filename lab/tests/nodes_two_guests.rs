//! Endpoints on two machines, over each network between them: which path goes where, and what the
//! loss of a machine or of the network does.

use std::process::Command;
use std::time::{Duration, Instant};

use limic::settings::{FabricUse, Path};
use limic::{Endpoint, Error, HybridEndpoint, Peer, RegionKey, Selector, Settings, Tag};
use limic_tests::{Rank, away, check, content};

const TAG: Tag = Tag(7);
/// How long the other machine may be silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// The network between the two machines.
#[derive(Clone, Copy)]
enum Between {
    Verbs,
    Tcp,
}

impl Between {
    /// An endpoint that gives a machine up when it has been silent for this long.
    fn endpoint(self, patience: Duration) -> HybridEndpoint {
        let settings = Settings::builder().without_environment();
        let settings = match self {
            Self::Verbs => settings.fabric(FabricUse::Verbs).verbs_retry(patience),
            Self::Tcp => settings.fabric(FabricUse::Tcp).tcp_timeout(patience),
        };
        HybridEndpoint::with(settings.build().expect("settings")).expect("an endpoint")
    }
}

/// Makes tests of the functions of these names, each with so many ranks, over a network.
macro_rules! over {
    ($module:ident, $between:ident) => {
        mod $module {
            over! { $module, $between;
                shared_memory_inside: 4,
                node_1_dies_in_mid_stream: 4,
                messages_are_late_after_the_network_was_away: 2,
                endpoints_connect_again_after_the_network_was_down: 2,
            }
        }
    };
    ($module:ident, $between:ident; $($test:ident: $ranks:literal,)+) => {$(
        #[test]
        fn $test() {
            if limic_lab_tests::in_guest() {
                let name = concat!(stringify!($module), "::", stringify!($test));
                let cast = limic_tests::Cast::new(name).ranks($ranks);
                cast.run(|rank| super::$test(rank, super::Between::$between));
            }
        }
    )+};
}

over!(verbs, Verbs);
over!(tcp, Tcp);

/// Inside of a machine messages go through shared memory, between the two over the network.
fn shared_memory_inside(rank: &Rank, between: Between) {
    let endpoint = between.endpoint(PATIENCE);
    let peers = rank.connect(&endpoint);
    let me = rank.rank;
    // To the neighbour on this machine, then to the rank on the other one.
    for (partner, far) in [(me ^ 1, false), (me ^ 2, true)] {
        let peer = peers[partner as usize];
        for len in [0, 8, 5000, 300_000] {
            let number = |from: u32| u64::from(from) << 32 | len as u64;
            let (out, mut back) = (content(number(me), len), vec![0; len]);
            let before = over_network(&endpoint);
            let status = endpoint
                .send_recv(peer, TAG, &out, (peer, TAG), &mut back)
                .expect("exchange");
            assert_eq!((status.peer, status.len), (peer, len as u64));
            check(number(partner), &back);
            assert_eq!(over_network(&endpoint) - before, u64::from(far));
        }
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
}

fn over_network(endpoint: &HybridEndpoint) -> u64 {
    let counters = endpoint.counters();
    let sent = counters.sent_paths.iter();
    let network = sent.filter(|(path, _)| matches!(path, Path::Network | Path::NetworkRead));
    network.map(|(_, traffic)| traffic.messages).sum()
}

/// Whom the error names.
fn failed_peer(error: &Error) -> Peer {
    match error {
        Error::PeerFailed { peer, .. } => *peer,
        other => panic!("{other}"),
    }
}

/// The second machine stops at once, in the middle of what its ranks do for those of the first one.
fn node_1_dies_in_mid_stream(rank: &Rank, between: Between) {
    const LONG: usize = 100_000;
    let endpoint = between.endpoint(PATIENCE);
    let peers = rank.connect(&endpoint);
    let me = rank.rank as usize;
    let region = endpoint.region(vec![me as u8; LONG]).expect("a region");
    let keys = rank.link.exchange(&region.key().0.to_le_bytes());
    if me == 2 {
        let long = vec![2; LONG];
        for number in 0_u64.. {
            let short = number.to_le_bytes();
            endpoint.send(peers[0], TAG, &short).expect("send");
            endpoint.send(peers[0], TAG, &long).expect("send");
            if number == 40 {
                // No flush and no goodbye of anybody: the machine ends here.
                std::fs::write("/proc/sysrq-trigger", "b").expect("sysrq");
            }
        }
    }
    if me == 3 {
        // It serves reads of its memory while it waits for what nobody sends.
        let nothing = endpoint.recv((peers[1], TAG), &mut [0; 1]);
        panic!("the machine should have ended: {nothing:?}");
    }
    let (near, far) = (peers[me ^ 1], peers[me + 2]);
    // Nobody sends and receives these.
    let receive = endpoint
        .irecv((far, Tag(20)), vec![0; LONG])
        .expect("irecv");
    let any = endpoint
        .irecv(Selector::any_source(Tag(21)), vec![0; LONG])
        .expect("irecv");
    let send = endpoint
        .isend(far, Tag(22), vec![0; 10 * LONG])
        .expect("isend");
    let key = keys[me + 2].as_deref().and_then(|key| key.try_into().ok());
    let key = RegionKey(u64::from_le_bytes(key.expect("a key")));
    let mut room = vec![0; LONG];
    let mut done = 0;
    let (operation, error, last) = loop {
        let start = Instant::now();
        let (operation, result) = match me {
            0 => ("receive", endpoint.recv((far, TAG), &mut room).map(|_| ())),
            _ => ("read", endpoint.read(far, key, 0, &mut room)),
        };
        match result {
            Ok(()) => done += 1,
            Err(error) => break (operation, error, start.elapsed()),
        }
    };
    println!(
        "REPORT: rank {me}: {done} of them, then a {operation} that fails after {} ms: {error}",
        last.as_millis()
    );
    assert_eq!(failed_peer(&error), far);
    let start = Instant::now();
    let others = [
        ("receive", receive.wait().map(|_| ())),
        ("receive from anybody", any.wait().map(|_| ())),
        ("long send", send.wait().map(|_| ())),
        ("new send", endpoint.send(far, TAG, b"?")),
        ("new read", endpoint.read(far, key, 0, &mut room)),
    ];
    for (operation, result) in others {
        let error = result.expect_err(operation);
        assert_eq!(failed_peer(&error), far, "{operation}");
    }
    println!(
        "REPORT: rank {me}: its other operations fail in the {} ms behind that",
        start.elapsed().as_millis()
    );
    // The ranks of this machine go on.
    let mut word = [0; 4];
    for _ in 0..100 {
        endpoint
            .send_recv(near, Tag(9), b"here", (near, Tag(9)), &mut word)
            .expect("exchange");
    }
    assert_eq!(&word, b"here");
}

/// On the first machine: frames for the second one go to an address that nobody has, whichever
/// protocol they are of; or again to the right one.
fn set_network(up: bool) {
    for neighbour in ["10.77.0.2", "fe80::5054:ff:fe77:2"] {
        let mut ip = Command::new("ip");
        ip.args(["neigh", if up { "del" } else { "replace" }, neighbour]);
        if !up {
            ip.args(["lladdr", "02:00:00:00:00:77", "nud", "permanent"]);
        }
        let status = ip.args(["dev", "eth0"]).status();
        assert!(status.expect("ip").success(), "ip neigh {neighbour}");
    }
}

/// The network is away for less time than a machine may be silent, and comes back: what was under
/// way, and what is begun meanwhile, is late and whole.
fn messages_are_late_after_the_network_was_away(rank: &Rank, between: Between) {
    const LENGTHS: [usize; 4] = [8, 3000, 1_000_000, 8];
    let endpoint = between.endpoint(3 * away());
    let peers = rank.connect(&endpoint);
    let (me, other) = (u64::from(rank.rank), peers[1 - rank.rank as usize]);
    let mut word = [0; 5];
    endpoint
        .send_recv(other, TAG, b"first", (other, TAG), &mut word)
        .expect("the first exchange");
    rank.link.meet(&endpoint);
    if me == 0 {
        set_network(false);
    }
    let sends = LENGTHS.map(|len| {
        let message = content(me << 32 | len as u64, len);
        endpoint.isend(other, Tag(8), message).expect("isend")
    });
    if me == 0 {
        let got = endpoint.recv_timeout((other, Tag(9)), &mut word, away());
        assert_eq!(got.expect("nobody has failed"), None);
        set_network(true);
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
        "REPORT: rank {me} has all after {} ms",
        start.elapsed().as_millis()
    );
    rank.link.meet(&endpoint);
}

/// The network is away for longer than a machine may be silent, and comes back: the same endpoints
/// connect again.
fn endpoints_connect_again_after_the_network_was_down(rank: &Rank, between: Between) {
    let endpoint = between.endpoint(PATIENCE);
    let peers = rank.connect(&endpoint);
    let other = peers[1 - rank.rank as usize];
    let address = endpoint.peer_address(other).expect("known").to_bytes();
    let mut word = [0; 5];
    endpoint
        .send_recv(other, TAG, b"first", (other, TAG), &mut word)
        .expect("the first exchange");
    rank.link.meet(&endpoint);
    if rank.rank == 0 {
        set_network(false);
    }
    let start = Instant::now();
    let error = endpoint
        .recv((other, Tag(8)), &mut word)
        .expect_err("the network is down");
    assert_eq!(failed_peer(&error), other);
    println!(
        "REPORT: rank {} after {} ms: {error}",
        rank.rank,
        start.elapsed().as_millis()
    );
    if rank.rank == 0 {
        set_network(true);
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
}
