//! A receiver that lags behind: its sender is told, goes ahead, and comes back.

use std::time::{Duration, Instant};

use limic::raw::{Messages, Posted, RawSlice, SendOptions};
use limic::settings::{Path, Settings, SettingsBuilder};
use limic::{Counters, Endpoint, HybridEndpoint, Peer, ScopedRecv, ScopedSend, Tag};
use limic_tests::{Cast, Rank, check, content};

const DATA: u64 = 1;
const GO_ON: u64 = 2;
/// Longer than what goes eagerly without skew, shorter than what does with it.
const BYTES: usize = 32 << 10;
const WINDOW: usize = 32;
/// What the consumer computes on each message.
const COMPUTES: Duration = Duration::from_micros(30);

fn settings() -> SettingsBuilder {
    Settings::builder().without_environment().eager_max(8 << 10)
}

fn open(rank: &Rank, settings: SettingsBuilder) -> (HybridEndpoint, Peer) {
    let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
    let peers = rank.connect(&endpoint);
    let other = peers[1 - rank.rank as usize];
    (endpoint, other)
}

fn seed(rank: &Rank, window: u64, index: usize) -> u64 {
    rank.seed ^ (window << 16) ^ index as u64
}

/// Sends windows as fast as they are taken until `done`, and says so to the consumer.
fn produce(
    rank: &Rank,
    endpoint: &HybridEndpoint,
    to: Peer,
    mut done: impl FnMut(&Counters) -> bool,
) {
    for window in 0.. {
        let messages: Vec<_> = (0..WINDOW)
            .map(|index| content(seed(rank, window, index), BYTES))
            .collect();
        let sent = endpoint.scope(|scope| {
            let mut requests: Vec<ScopedSend<'_, _>> = Vec::new();
            for message in &messages {
                requests.push(scope.isend(to, DATA, message)?);
            }
            requests
                .into_iter()
                .try_for_each(|request| request.wait().map(drop))
        });
        sent.expect("a window goes");
        let over = done(&endpoint.counters());
        endpoint.send(to, GO_ON, &[u8::from(!over)]).expect("go on");
        if over {
            return;
        }
    }
}

fn goes_on(endpoint: &HybridEndpoint, from: Peer) -> bool {
    let mut word = [0];
    endpoint.recv((from, GO_ON), &mut word).expect("go on");
    word[0] == 1
}

/// Receives windows one message after the other, and computes after each. Says whether it knew at
/// any time that it lagged behind: it may have caught up since, if the producer did not run.
fn consume_slowly(rank: &Rank, endpoint: &HybridEndpoint, from: Peer) -> bool {
    let mut buffer = vec![0; BYTES];
    let (mut lagged, mut window) = (false, 0);
    loop {
        for index in 0..WINDOW {
            endpoint.recv((from, DATA), &mut buffer).expect("a message");
            check(seed(rank, window, index), &buffer);
            let begin = Instant::now();
            while begin.elapsed() < COMPUTES {
                std::hint::spin_loop();
            }
            lagged |= endpoint.counters().behind == [from];
        }
        if !goes_on(endpoint, from) {
            return lagged;
        }
        window += 1;
    }
}

/// Posts all receives of a window at once, and does nothing else.
fn consume_quickly(rank: &Rank, endpoint: &HybridEndpoint, from: Peer) {
    let mut buffers = vec![vec![0; BYTES]; WINDOW];
    for window in 0.. {
        let received = endpoint.scope(|scope| {
            let mut requests: Vec<ScopedRecv<'_, _>> = Vec::new();
            for buffer in &mut buffers {
                requests.push(scope.irecv((from, DATA), buffer)?);
            }
            requests
                .into_iter()
                .try_for_each(|request| request.wait().map(drop))
        });
        received.expect("a window");
        for (index, buffer) in buffers.iter().enumerate() {
            check(seed(rank, window, index), buffer);
        }
        if !goes_on(endpoint, from) {
            return;
        }
    }
}

fn messages(counters: &Counters, path: Path) -> u64 {
    let found = counters.paths.iter().find(|(other, _)| *other == path);
    found.map_or(0, |(_, traffic)| traffic.messages)
}

/// Messages whose receiver was asked first.
fn asked_for(counters: &Counters) -> u64 {
    let paths = Path::ALL.into_iter().filter(|path| path.is_rendezvous());
    paths.map(|path| messages(counters, path)).sum()
}

#[test]
fn a_skewed_job_switches_and_switches_back() {
    let cast = Cast::new("a_skewed_job_switches_and_switches_back").alone();
    cast.run(|rank| {
        let (endpoint, other) = open(rank, settings());
        if rank.rank == 0 {
            produce(rank, &endpoint, other, |counters| {
                counters.ahead.messages >= 2 * WINDOW as u64 && counters.lagging == [other]
            });
            let counters = endpoint.counters();
            assert!(counters.skew_changes >= 1);
            assert_eq!(
                messages(&counters, Path::SendAhead),
                counters.ahead.messages
            );
            rank.link.meet(&endpoint);
            // The same messages, to a receiver that is there: back to the rendezvous.
            produce(rank, &endpoint, other, |counters| {
                counters.lagging.is_empty()
            });
            let ahead = endpoint.counters().ahead;
            produce(rank, &endpoint, other, |_| true);
            assert_eq!(endpoint.counters().ahead, ahead);
            rank.link.meet(&endpoint);
        } else {
            assert!(consume_slowly(rank, &endpoint, other));
            rank.link.meet(&endpoint);
            consume_quickly(rank, &endpoint, other);
            let before = asked_for(&endpoint.counters());
            consume_quickly(rank, &endpoint, other);
            let counters = endpoint.counters();
            assert!(counters.behind.is_empty());
            assert_eq!(
                asked_for(&counters) - before,
                WINDOW as u64,
                "not every message of the last window was asked for"
            );
            rank.link.meet(&endpoint);
        }
    });
}

/// Messages that are sent while their receiver receives nothing.
const MANY: usize = 1500;

/// Sends them, and gives how many bytes of them went ahead.
fn burst(rank: &Rank, endpoint: &HybridEndpoint, to: Peer) -> u64 {
    let before = endpoint.counters().ahead.bytes;
    let message = content(rank.seed, BYTES);
    let ahead = endpoint.scope(|scope| {
        let mut requests: Vec<ScopedSend<'_, _>> = Vec::new();
        for _ in 0..MANY {
            requests.push(scope.isend(to, DATA, &message)?);
        }
        let ahead = endpoint.counters().ahead.bytes - before;
        rank.link.meet(endpoint);
        let sent = requests
            .into_iter()
            .try_for_each(|request| request.wait().map(drop));
        sent.map(|()| ahead)
    });
    ahead.expect("all arrive in the end")
}

#[test]
fn what_goes_ahead_is_bounded_and_is_not_in_the_receivers_memory() {
    const BUDGET: u64 = 1 << 20;
    let cast = Cast::new("what_goes_ahead_is_bounded_and_is_not_in_the_receivers_memory").alone();
    cast.run(|rank| {
        let (endpoint, other) = open(rank, settings().unexpected_budget_bytes(BUDGET));
        if rank.rank == 0 {
            // A receiver that had the processor for itself may have caught up just before.
            loop {
                let lags = |counters: &Counters| counters.lagging == [other];
                produce(rank, &endpoint, other, lags);
                let ahead = burst(rank, &endpoint, other);
                assert!(ahead <= BUDGET, "{ahead} bytes went ahead");
                endpoint
                    .send(other, GO_ON, &[u8::from(ahead == 0)])
                    .expect("go on");
                if ahead > 0 {
                    break;
                }
            }
        } else {
            loop {
                consume_slowly(rank, &endpoint, other);
                rank.link.meet(&endpoint);
                // Whatever has come is here, as far as it comes without being asked for.
                while endpoint.progress() {}
                let held = endpoint.counters().unexpected_bytes;
                assert!(held <= BUDGET, "{held} bytes in the receiver's memory");
                let mut buffer = vec![0; BYTES];
                for _ in 0..MANY {
                    endpoint
                        .recv((other, DATA), &mut buffer)
                        .expect("a message");
                    check(rank.seed, &buffer);
                }
                if !goes_on(&endpoint, other) {
                    break;
                }
            }
        }
        rank.link.meet(&endpoint);
    });
}

#[test]
fn switched_off_on_either_side_nothing_goes_ahead() {
    let cast = Cast::new("switched_off_on_either_side_nothing_goes_ahead").alone();
    cast.run(|rank| {
        for off in 0..2 {
            let (endpoint, other) = open(rank, settings().skew(rank.rank != off));
            if rank.rank == 0 {
                let mut windows = 0;
                produce(rank, &endpoint, other, |_| {
                    windows += 1;
                    windows == 4
                });
                let counters = endpoint.counters();
                assert_eq!((counters.ahead.messages, counters.skew_changes), (0, 0));
            } else {
                consume_slowly(rank, &endpoint, other);
            }
            rank.link.meet(&endpoint);
        }
    });
}

#[test]
fn messages_that_went_ahead_survive_their_sender() {
    let cast = Cast::new("messages_that_went_ahead_survive_their_sender").alone();
    cast.run(|rank| {
        let (endpoint, other) = open(rank, settings());
        if rank.rank == 0 {
            let enough =
                |counters: &Counters| counters.ahead.messages > 0 && counters.lagging == [other];
            produce(rank, &endpoint, other, enough);
            let before = endpoint.counters().ahead.messages;
            for index in 0..8 {
                let message = content(seed(rank, 999, index), BYTES);
                endpoint.send(other, DATA, &message).expect("send");
            }
            let message = content(seed(rank, 999, 8), BYTES);
            let slices = [RawSlice::from(&message[..])];
            let options = SendOptions {
                immediate: Some(77),
                ..SendOptions::default()
            };
            // SAFETY: the message outlives the send, which is over at once.
            let posted = unsafe { endpoint.post_send_with(other, Tag(DATA), options, &slices) };
            assert!(matches!(posted, Ok(Posted::Done(Ok(_)))), "it waits");
            assert_eq!(endpoint.counters().ahead.messages - before, 9);
            // Order is that of sending, whatever way each one took.
            endpoint.send(other, DATA, b"the last").expect("send");
            drop(endpoint);
            let _ = rank.link.exchange(&[]);
        } else {
            consume_slowly(rank, &endpoint, other);
            let _ = rank.link.exchange(&[]);
            let mut buffer = vec![0; BYTES];
            for index in 0..9 {
                let status = endpoint
                    .recv((other, DATA), &mut buffer)
                    .expect("it was sent");
                assert_eq!(status.immediate, (index == 8).then_some(77));
                check(seed(rank, 999, index), &buffer);
            }
            let status = endpoint
                .recv((other, DATA), &mut buffer)
                .expect("it was sent");
            assert_eq!(&buffer[..status.len as usize], b"the last");
        }
    });
}
