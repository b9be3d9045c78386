//! What was counted is what was explained: for pairs and messages that a seed draws.

use limic::counters::Counters;
use limic::internals::{Capabilities, History, INLINE_CAPACITY, Locality, Query, ReceiverPace};
use limic::settings::{LineLatency, Path, PathSet, Settings};
use limic::{Endpoint, HybridEndpoint, Peer};
use limic_tests::{Cast, Random, Rank};

const PAIRS: usize = 50;
const DATA: u64 = 1;
const GO_ON: u64 = 2;
/// Messages each way, of which the last one is counted: the first ones find no history.
const WARM: usize = 6;

/// A pair and what it may do.
struct Drawn {
    settings: Settings,
    locality: Locality,
}

/// The same in both ranks. What is measured must not overrule what is explained, so it is off.
fn draw(random: &mut Random) -> Drawn {
    let (locality, latency) = if random.below(2) == 0 {
        (Locality::SharedCache, 30)
    } else {
        (Locality::SamePackage, 180)
    };
    let mut builder = Settings::builder()
        .without_environment()
        .autotune(false)
        .skew(false)
        .line_latency(LineLatency::Nanoseconds(latency));
    if random.below(2) == 0 {
        let paths = [
            Path::Inline,
            Path::Eager,
            Path::Pipeline,
            Path::Cma,
            Path::SplitCopy,
            Path::PeerReadable,
        ];
        let drawn = paths.into_iter().filter(|_| random.below(3) > 0);
        builder = builder.allowed(drawn.collect());
    }
    if random.below(2) == 0 {
        builder = builder.eager_max(random.below(100_000));
    }
    if random.below(3) == 0 {
        let long = [Path::Pipeline, Path::Cma, Path::SplitCopy];
        builder = builder.long_path(long[random.below(3) as usize]);
    }
    Drawn {
        settings: builder.build().expect("settings"),
        locality,
    }
}

/// What this pair can do, as far as the kernel lets it.
fn capabilities(settings: &Settings) -> Capabilities {
    let mut paths: PathSet = settings
        .allowed()
        .without(Path::SameProcess)
        .without(Path::Kmod);
    if limic_copy::explain().available.is_err() {
        paths = paths.without(Path::Cma).without(Path::SplitCopy);
    }
    Capabilities {
        paths,
        max_inline: INLINE_CAPACITY,
        max_eager: settings.segment().longest_eager_bytes(),
        max_fragment: settings.segment().staging_buffer_bytes,
    }
}

/// Messages by path, as this rank counts what it sends or receives.
fn messages(counters: &Counters, sent: bool) -> Vec<(Path, u64)> {
    let paths = if sent {
        &counters.sent_paths
    } else {
        &counters.received_paths
    };
    let messages = paths
        .iter()
        .map(|(path, traffic)| (*path, traffic.messages));
    messages.collect()
}

/// Sends or receives one message; gives the paths for which this rank counted it.
fn one(
    rank: &Rank,
    endpoint: &HybridEndpoint,
    other: Peer,
    from: u32,
    data: &mut [u8],
) -> Vec<Path> {
    let sends = rank.rank == from;
    let before = messages(&endpoint.counters(), sends);
    if sends {
        endpoint.send(other, DATA, data).expect("sent");
    } else {
        endpoint.recv((other, DATA), data).expect("a message");
    }
    let after = messages(&endpoint.counters(), sends);
    let both = before.iter().zip(&after);
    let grown = both.filter(|(before, after)| before.1 < after.1);
    grown.map(|(_, (path, _))| *path).collect()
}

/// Waits for the other rank with a short message each way.
fn meet(endpoint: &HybridEndpoint, other: Peer) {
    let word = endpoint.irecv((other, GO_ON), vec![0; 1]).expect("posted");
    endpoint.send(other, GO_ON, &[0]).expect("sent");
    word.wait().expect("the other rank is there");
}

#[test]
fn what_was_counted_is_what_was_explained() {
    let cast = Cast::new("what_was_counted_is_what_was_explained");
    cast.run(|rank| {
        let mut random = Random::new(rank.seed);
        for _ in 0..PAIRS {
            let drawn = draw(&mut random);
            let endpoint = HybridEndpoint::with(drawn.settings.clone()).expect("open");
            let other = rank.connect(&endpoint)[1 - rank.rank as usize];
            meet(&endpoint, other);
            let bits = 3 + random.below(18);
            let len = (1_u64 << bits) + random.below(1 << bits);
            let reply = random.below(2) == 0;
            let peer_readable = random.below(3) == 0;
            let message = Query {
                pace: ReceiverPace::Steady,
                capabilities: capabilities(&drawn.settings),
                peer_readable,
                ..Query::new(len, drawn.locality)
            };
            explained(rank, &drawn, &endpoint, other, &message, reply);
            rank.link.meet(&endpoint);
        }
    });
}

fn explained(
    rank: &Rank,
    drawn: &Drawn,
    endpoint: &HybridEndpoint,
    other: Peer,
    query: &Query,
    reply: bool,
) {
    let (mut private, mut readable) = (Vec::new(), None);
    let data = if query.peer_readable {
        let buffer = endpoint.buffer(query.bytes as usize).expect("memory");
        &mut readable.insert(buffer)[..]
    } else {
        private.resize(query.bytes as usize, 7);
        &mut private[..]
    };
    let mut counted = Vec::new();
    for _ in 0..WARM {
        if reply {
            one(rank, endpoint, other, 1, data);
        }
        counted = one(rank, endpoint, other, 0, data);
        if !reply {
            meet(endpoint, other);
        }
    }
    let history = if reply {
        History::Reply
    } else {
        History::OneWay
    };
    let explanation = drawn.settings.explain(query, history);
    let expected = match explanation.path {
        // What comes whole through a ring is one for its receiver.
        Path::Inline if rank.rank == 1 => Path::Eager,
        path => path,
    };
    let allowed = drawn.settings.allowed();
    assert_eq!(counted, [expected], "allowed: {allowed}\n{explanation}");
}
