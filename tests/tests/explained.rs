//! What was counted is what was explained: for pairs and messages that a seed draws.

#[path = "explained/draw.rs"]
mod draw;

use std::io::IoSlice;
use std::time::{Duration, Instant};

use limic::counters::Counters;
use limic::networks::{Network, networks};
use limic::settings::{FabricUse, Path, Settings};
use limic::{Buffer, Endpoint, HybridEndpoint, Peer, RegionKey};
use limic_policy::{Capabilities, History, Locality, Question, Receiver, ReceiverPace, SendMemory};
use limic_tests::{Cast, Random, Rank};

use draw::{capabilities, draw_message, draw_near, draw_settings, near, over, settings};

const PAIRS: usize = 50;
const DATA: u64 = 1;
const GO_ON: u64 = 2;
const FILLER: u64 = 3;
/// Messages of a window, which go at once.
const WINDOW: usize = 32;
/// Receives that are posted at a time for them.
const AT_ONCE: usize = 4;
/// Those for a receiver that lags behind are so long that they are offered.
const LAG_BYTES: usize = 128 << 10;
/// What that receiver computes on each.
const COMPUTES: Duration = Duration::from_micros(30);
/// Messages each way, of which the last one is counted: the first ones find no history.
const WARM: usize = 6;
/// Times that replies and streams are looked at. Buffers that go to and fro go back once they lie
/// idle, as where another program has the processor, and a long reply then finds too few. A stream
/// is offered for some time if one of it came too early.
const TRIES: usize = 20;
/// Those in which the receiver was slow, after which no more are made.
const SLOW_TRIES: usize = 5;

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

/// The paths whose counts have grown.
fn grown(before: &[(Path, u64)], after: &[(Path, u64)]) -> Vec<Path> {
    let both = before.iter().zip(after);
    let grown = both.filter(|(before, after)| before.1 < after.1);
    grown.map(|(_, (path, _))| *path).collect()
}

/// One end of a pair, with the memory for its messages.
struct End<'a> {
    /// 0 or 1.
    rank: u32,
    endpoint: &'a HybridEndpoint,
    other: Peer,
    question: Question,
    private: Vec<u8>,
    readable: Option<Buffer>,
}

impl<'a> End<'a> {
    fn new(rank: u32, endpoint: &'a HybridEndpoint, other: Peer, question: Question) -> Self {
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
        let sends = self.rank == from;
        let before = messages(&self.endpoint.counters(), sends);
        if sends {
            self.send();
        } else {
            // Behind its receive, a message would be one of a stream.
            if self.question.history == History::OneWay {
                self.endpoint.wait_probe((self.other, DATA)).expect("sent");
            }
            let into = self.readable.as_deref_mut().unwrap_or(&mut self.private);
            let received = self.endpoint.recv((self.other, DATA), into);
            received.expect("a message");
        }
        grown(&before, &messages(&self.endpoint.counters(), sends))
    }

    /// A window of messages from this rank; gives the paths for which this end counted them.
    fn window(&mut self, from: u32) -> Vec<Path> {
        let sends = self.rank == from;
        let before = messages(&self.endpoint.counters(), sends);
        if sends {
            self.send_at_once(DATA, &self.private);
        } else {
            // A few at a time: the offers behind them come to wait, which only counts with `skew`.
            // In twos, each second one would be late where a call takes long.
            let mut rooms = vec![self.private.clone(); AT_ONCE];
            for _ in 0..WINDOW / AT_ONCE {
                let received = self.endpoint.scope(|scope| {
                    let mut rooms = rooms.iter_mut();
                    rooms.try_for_each(|room| scope.irecv((self.other, DATA), room).map(drop))
                });
                received.expect("all have come");
            }
        }
        grown(&before, &messages(&self.endpoint.counters(), sends))
    }

    /// Sends a window of messages, and waits for all of them.
    fn send_at_once(&self, tag: u64, data: &[u8]) {
        let sent = self.endpoint.scope(|scope| {
            (0..WINDOW).try_for_each(|_| scope.isend(self.other, tag, data).map(drop))
        });
        sent.expect("all are taken");
    }

    /// Waits for the other rank with a short message each way; gives what that one says.
    fn meet(&self, word: u8) -> u8 {
        let (endpoint, other) = (self.endpoint, self.other);
        let told = endpoint.irecv((other, GO_ON), vec![0; 1]).expect("posted");
        endpoint.send(other, GO_ON, &[word]).expect("sent");
        let (_, told) = told.wait().expect("the other rank is there");
        told[0]
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
                    self.meet(0);
                }
                History::Stream => counted = self.window(from),
            }
        }
        counted
    }

    /// Makes the receiver lag behind, until its sender knows it.
    fn lag(&self, from: u32) {
        let (endpoint, other, mut room) = (self.endpoint, self.other, vec![0; LAG_BYTES]);
        loop {
            if self.rank == from {
                self.send_at_once(FILLER, &room);
            } else {
                for _ in 0..WINDOW {
                    endpoint.recv((other, FILLER), &mut room).expect("sent");
                    let begin = Instant::now();
                    while begin.elapsed() < COMPUTES {
                        std::hint::spin_loop();
                    }
                }
            }
            let lags = self.rank == from && endpoint.counters().lagging == [other];
            let told = self.meet(lags.into());
            if lags || told == 1 {
                return;
            }
        }
    }

    /// Compares what both ends count of a message from this rank with what is explained.
    fn compare(&mut self, from: u32, settings: &Settings) {
        let question = self.question;
        self.meet(0);
        let explanation = settings.explain(&question);
        let expected = match explanation.path {
            // What comes whole through a ring is one for its receiver.
            Path::Inline if self.rank != from => Path::Eager,
            path => path,
        };
        let lags = matches!(
            question.receiver,
            Receiver::Near {
                pace: ReceiverPace::Slow,
                ..
            }
        );
        let tries = match question.history {
            History::Reply | History::Stream => TRIES,
            History::OneWay => 1,
        };
        let (mut counted, mut slow) = (Vec::new(), 0);
        for _ in 0..tries {
            let changes = self.endpoint.counters().skew_changes;
            if lags {
                self.lag(from);
                counted = self.one(from);
            } else {
                counted = self.counted(from);
            }
            let counters = self.endpoint.counters();
            // It may have caught up since.
            let was_slow = self.rank == from
                && (counters.lagging == [self.other] || counters.skew_changes > changes);
            let is_expected = counted == [expected];
            if self.meet(is_expected.into()) == 1 && is_expected {
                break;
            }
            let was_slow = self.meet(was_slow.into()) == 1 || was_slow;
            slow += usize::from(was_slow);
            if slow == SLOW_TRIES && !lags {
                limic_tests::skip("other programs left the receiver no time to keep up");
                counted = vec![expected];
                break;
            }
        }
        assert_eq!(
            counted,
            [expected],
            "{question:?}, allowed: {}\n{explanation}",
            settings.allowed()
        );
        self.meet(0);
    }

    /// Compares what an access to the memory of the other end counts with how the pair does it.
    fn access(&self, actor: u32, capabilities: &Capabilities) {
        let (endpoint, other, len) = (self.endpoint, self.other, self.private.len());
        if self.rank != actor {
            let region = endpoint.region(vec![7; len]).expect("a region");
            let key = region.key().0.to_le_bytes();
            endpoint.send(other, DATA, &key).expect("sent");
            self.meet(0);
            return drop(region.revoke().expect("its memory"));
        }
        let mut key = [0; 8];
        endpoint.recv((other, DATA), &mut key).expect("a key");
        let key = RegionKey(u64::from_le_bytes(key));
        let expected = [limic_policy::select::one_sided(capabilities)];
        let mut into = vec![0; len];
        let before = endpoint.counters();
        endpoint.read(other, key, 0, &mut into).expect("read");
        let read = endpoint.counters();
        endpoint.write(other, key, 0, &into).expect("written");
        let written = endpoint.counters();
        let counted = [(false, before, &read), (true, read.clone(), &written)]
            .map(|(sent, before, after)| grown(&messages(&before, sent), &messages(after, sent)));
        assert_eq!(counted, [&expected, &expected], "{len} bytes");
        self.meet(0);
    }
}

/// Opens an endpoint for each pair that a seed draws, in both ranks, and has `compare` compare.
fn between_processes(name: &str, compare: impl Fn(&mut Random, &Rank)) {
    Cast::new(name).run(|rank| {
        let mut random = Random::new(rank.seed);
        (0..PAIRS).for_each(|_| compare(&mut random, rank));
    });
}

/// One end of a pair of processes.
fn open(rank: &Rank, settings: &Settings) -> (HybridEndpoint, Peer) {
    let endpoint = HybridEndpoint::with(settings.clone()).expect("open");
    let other = rank.connect(&endpoint)[1 - rank.rank as usize];
    (endpoint, other)
}

/// Compares for pairs of processes that `draw` gives.
fn compare(name: &str, draw: impl Fn(&mut Random) -> (Settings, Question)) {
    between_processes(name, |random, rank| {
        let (settings, question) = draw(random);
        let from = random.below(2) as u32;
        let (endpoint, other) = open(rank, &settings);
        End::new(rank.rank, &endpoint, other, question).compare(from, &settings);
        rank.link.meet(&endpoint);
    });
}

#[test]
fn what_was_counted_is_what_was_explained() {
    compare("what_was_counted_is_what_was_explained", draw_near);
}

#[test]
fn what_was_counted_for_a_slow_receiver_is_what_was_explained() {
    let name = "what_was_counted_for_a_slow_receiver_is_what_was_explained";
    compare(name, |random| {
        let (settings, locality) = draw_settings(random, settings().skew(true));
        let receiver = near(&settings, locality, ReceiverPace::Slow);
        // Shorter ones go ahead where the ring is full, which nobody knows beforehand.
        let bytes = (64 << 10) + random.below(256 << 10);
        let question = Question {
            bytes,
            history: History::OneWay,
            ..draw_message(random, receiver)
        };
        (settings, question)
    });
}

#[test]
fn what_was_counted_of_a_stream_is_what_was_explained() {
    let name = "what_was_counted_of_a_stream_is_what_was_explained";
    compare(name, |random| {
        let (settings, locality) = draw_settings(random, settings().skew(true));
        let receiver = near(&settings, locality, ReceiverPace::Steady);
        let bytes = (64 << 10) + random.below(1 << 20);
        let question = Question {
            history: History::Stream,
            ..Question::new(bytes, receiver)
        };
        (settings, question)
    });
}

#[test]
fn what_was_counted_within_a_process_is_what_was_explained() {
    let name = "what_was_counted_within_a_process_is_what_was_explained";
    Cast::new(name).ranks(1).run(|rank| {
        let mut random = Random::new(rank.seed);
        for _ in 0..PAIRS {
            let (settings, _) = draw_settings(&mut random, settings());
            let receiver = near(&settings, Locality::SameProcess, ReceiverPace::Steady);
            let question = draw_message(&mut random, receiver);
            let from = random.below(2) as u32;
            let ends = [(); 2].map(|()| HybridEndpoint::with(settings.clone()).expect("open"));
            let [first, second] = ends.each_ref().map(|end| end.address().to_bytes());
            std::thread::scope(|scope| {
                for ((me, endpoint), address) in (0..).zip(ends).zip([second, first]) {
                    let settings = &settings;
                    scope.spawn(move || {
                        let other = endpoint.connect(&address).expect("known");
                        End::new(me, &endpoint, other, question).compare(from, settings);
                    });
                }
            });
        }
    });
}

#[test]
fn what_was_counted_of_accesses_is_what_was_explained() {
    let name = "what_was_counted_of_accesses_is_what_was_explained";
    between_processes(name, |random, rank| {
        let (settings, locality) = draw_settings(random, settings());
        let receiver = near(&settings, locality, ReceiverPace::Steady);
        let question = draw_message(random, receiver);
        let actor = random.below(2) as u32;
        let (endpoint, other) = open(rank, &settings);
        let end = End::new(rank.rank, &endpoint, other, question);
        end.access(actor, &capabilities(&settings, locality));
        rank.link.meet(&endpoint);
    });
}

#[test]
fn what_was_counted_over_tcp_is_what_was_explained() {
    let name = "what_was_counted_over_tcp_is_what_was_explained";
    compare(name, |random| over(random, "tcp", FabricUse::TcpOnly));
}

#[test]
fn what_was_counted_over_verbs_is_what_was_explained() {
    if has("verbs", FabricUse::VerbsOnly) {
        let name = "what_was_counted_over_verbs_is_what_was_explained";
        compare(name, |random| over(random, "verbs", FabricUse::VerbsOnly));
    }
}

#[test]
fn what_was_counted_over_libfabric_is_what_was_explained() {
    if has("ofi", FabricUse::OfiOnly) {
        let name = "what_was_counted_over_libfabric_is_what_was_explained";
        compare(name, |random| over(random, "ofi", FabricUse::OfiOnly));
    }
}

/// Whether a network is there.
fn has(name: &str, only: FabricUse) -> bool {
    let settings = settings().fabric(only).build().expect("settings");
    let mut networks = networks(&settings).into_iter();
    match networks.find(|network| network.name == name) {
        Some(Network {
            state: Err(why), ..
        }) => {
            limic_tests::skip(&format!("no {name}: {why}"));
            false
        }
        found => found.is_some(),
    }
}
