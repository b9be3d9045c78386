//! What was counted is what was explained: for pairs and messages that a seed draws.

use std::io::IoSlice;

use limic::counters::Counters;
use limic::networks::{limits, networks};
use limic::settings::{FabricUse, LineLatency, Path, PathSet, Settings, SettingsBuilder};
use limic::{Buffer, Endpoint, HybridEndpoint, Peer};
use limic_policy::{
    Capabilities, History, INLINE_CAPACITY, Locality, Question, Receiver, ReceiverPace, SendMemory,
};
use limic_tests::{Cast, Random, Rank};

const PAIRS: usize = 50;
const DATA: u64 = 1;
const GO_ON: u64 = 2;
/// Messages each way, of which the last one is counted: the first ones find no history.
const WARM: usize = 6;
/// Times that replies are looked at. Buffers that go to and fro go back once they lie idle, as
/// where another program has the processor, and a long reply then finds too few.
const TRIES: usize = 20;

/// What all pairs have in common. What is measured must not overrule what is explained, so it is
/// off.
fn settings() -> SettingsBuilder {
    Settings::builder()
        .without_environment()
        .autotune(false)
        .skew(false)
}

/// A pair that shares memory; the same in both ranks.
fn draw_near(random: &mut Random) -> (Settings, Receiver) {
    let (locality, latency) = if random.below(2) == 0 {
        (Locality::SharedCache, 30)
    } else {
        (Locality::SamePackage, 180)
    };
    let mut builder = settings().line_latency(LineLatency::Nanoseconds(latency));
    if random.below(2) == 0 {
        let paths = [
            Path::Inline,
            Path::Eager,
            Path::Pipeline,
            Path::Cma,
            Path::SplitCopy,
            Path::PeerReadable,
            Path::Loan,
        ];
        let drawn: PathSet = paths.into_iter().filter(|_| random.below(3) > 0).collect();
        // No path at all is no setting.
        if !drawn.is_empty() {
            builder = builder.allowed(drawn);
        }
    }
    if random.below(2) == 0 {
        builder = builder.eager_max(random.below(100_000));
    }
    if random.below(3) == 0 {
        let long = [Path::Pipeline, Path::Cma, Path::SplitCopy];
        builder = builder.long_path(long[random.below(3) as usize]);
    }
    let settings = builder.build().expect("settings");
    let receiver = Receiver::Near {
        locality,
        pace: ReceiverPace::Steady,
        capabilities: capabilities(&settings),
    };
    (settings, receiver)
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
    }
}

/// A pair over a network.
fn over(network: &str, only: FabricUse) -> (Settings, Receiver) {
    let settings = settings().fabric(only).build().expect("settings");
    let limits = limits(network).expect("a network of this build");
    (settings, Receiver::Network(limits))
}

/// A message to this receiver.
fn draw_message(random: &mut Random, receiver: Receiver) -> Question {
    let bits = 3 + random.below(18);
    let bytes = (1_u64 << bits) + random.below(1 << bits);
    let memory = match random.below(4) {
        0 => SendMemory::PeerReadable,
        1 => SendMemory::Loan,
        _ => SendMemory::Private,
    };
    let in_slices = memory != SendMemory::Loan && random.below(3) == 0;
    Question {
        memory,
        slices: if in_slices {
            2 + random.below(bytes.min(12) - 1) as usize
        } else {
            1
        },
        history: if random.below(2) == 0 {
            History::Reply
        } else {
            History::OneWay
        },
        ..Question::new(bytes, receiver)
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

/// One end of a pair, with the memory for its messages.
struct End<'a> {
    rank: &'a Rank,
    endpoint: &'a HybridEndpoint,
    other: Peer,
    question: Question,
    private: Vec<u8>,
    readable: Option<Buffer>,
}

impl<'a> End<'a> {
    fn new(rank: &'a Rank, endpoint: &'a HybridEndpoint, other: Peer, question: Question) -> Self {
        let len = question.bytes as usize;
        let is_readable = question.memory == SendMemory::PeerReadable;
        Self {
            rank,
            endpoint,
            other,
            question,
            private: vec![7; len],
            readable: is_readable.then(|| endpoint.buffer(len).expect("memory")),
        }
    }

    fn send(&mut self) {
        let (other, Question { slices, memory, .. }) = (self.other, self.question);
        if memory == SendMemory::Loan {
            let loan = self.endpoint.loan(self.private.len()).expect("a loan");
            return loan.send(other, DATA).expect("sent");
        }
        let data: &[u8] = self.readable.as_deref().unwrap_or(&self.private);
        if slices == 1 {
            return self.endpoint.send(other, DATA, data).expect("sent");
        }
        let (ones, rest) = data.split_at(slices - 1);
        let mut parts: Vec<_> = ones.chunks(1).map(IoSlice::new).collect();
        parts.push(IoSlice::new(rest));
        self.endpoint
            .send_vectored(other, DATA, &parts)
            .expect("sent");
    }

    /// One message from this rank; gives the paths for which this end counted it.
    fn one(&mut self, from: u32) -> Vec<Path> {
        let sends = self.rank.rank == from;
        let before = messages(&self.endpoint.counters(), sends);
        if sends {
            self.send();
        } else {
            let into = self.readable.as_deref_mut().unwrap_or(&mut self.private);
            let received = self.endpoint.recv((self.other, DATA), into);
            received.expect("a message");
        }
        let after = messages(&self.endpoint.counters(), sends);
        let both = before.iter().zip(&after);
        let grown = both.filter(|(before, after)| before.1 < after.1);
        grown.map(|(_, (path, _))| *path).collect()
    }

    /// Waits for the other rank with a short message each way.
    fn meet(&self) {
        let (endpoint, other) = (self.endpoint, self.other);
        let word = endpoint.irecv((other, GO_ON), vec![0; 1]).expect("posted");
        endpoint.send(other, GO_ON, &[0]).expect("sent");
        word.wait().expect("the other rank is there");
    }

    /// The paths for which the last of several messages from this rank was counted.
    fn counted(&mut self, from: u32) -> Vec<Path> {
        let mut counted = Vec::new();
        for _ in 0..WARM {
            match self.question.history {
                History::Reply => {
                    self.one(1 - from);
                    counted = self.one(from);
                }
                History::OneWay => {
                    counted = self.one(from);
                    self.meet();
                }
            }
        }
        counted
    }
}

/// Compares for pairs that `draw` gives.
fn compare(name: &str, draw: impl Fn(&mut Random) -> (Settings, Receiver)) {
    Cast::new(name).run(|rank| {
        let mut random = Random::new(rank.seed);
        for _ in 0..PAIRS {
            let (settings, receiver) = draw(&mut random);
            let question = draw_message(&mut random, receiver);
            let from = random.below(2) as u32;
            let endpoint = HybridEndpoint::with(settings.clone()).expect("open");
            let other = rank.connect(&endpoint)[1 - rank.rank as usize];
            let mut end = End::new(rank, &endpoint, other, question);
            end.meet();
            let explanation = settings.explain(&question);
            let expected = match explanation.path {
                // What comes whole through a ring is one for its receiver.
                Path::Inline if rank.rank != from => Path::Eager,
                path => path,
            };
            let allowed = settings.allowed();
            let mut counted = end.counted(from);
            let tries = match question.history {
                History::Reply => TRIES,
                History::OneWay => 1,
            };
            for _ in 1..tries {
                let told = rank.link.exchange(&[u8::from(counted == [expected])]);
                if told.iter().all(|told| told.as_deref() == Some(&[1])) {
                    break;
                }
                counted = end.counted(from);
            }
            assert_eq!(
                counted,
                [expected],
                "{question:?}, allowed: {allowed}\n{explanation}"
            );
            rank.link.meet(&endpoint);
        }
    });
}

#[test]
fn what_was_counted_is_what_was_explained() {
    compare("what_was_counted_is_what_was_explained", draw_near);
}

#[test]
fn what_was_counted_over_tcp_is_what_was_explained() {
    let name = "what_was_counted_over_tcp_is_what_was_explained";
    compare(name, |_| over("tcp", FabricUse::TcpOnly));
}

#[test]
fn what_was_counted_over_verbs_is_what_was_explained() {
    let any = settings().build().expect("settings");
    let verbs = networks(&any)
        .into_iter()
        .find(|network| network.name == "verbs");
    if let Some(Err(why)) = verbs.map(|verbs| verbs.state) {
        return limic_tests::skip(&format!("no verbs: {why}"));
    }
    let name = "what_was_counted_over_verbs_is_what_was_explained";
    compare(name, |_| over("verbs", FabricUse::VerbsOnly));
}
