//! What a call of an endpoint costs: both ends in one thread, all in cache, so instructions and no
//! moves; and how long it takes to wake one that sleeps.
//!
//! `one_thread/send+receive`: a message sent, and received by a blocking call, past the queues.
//! `posted`: into a receive that waits. `unexpected`: by way of the unexpected queue. `wake_up`:
//! one way of a ping-pong of two threads that sleep at once, beside `thread::park`, the kernel's
//! own time.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use limic::counters::size_class;
use limic::{Endpoint, HybridEndpoint, Peer, Settings};
use limic_benches::{Pair, TAG};
use limic_policy::{Locality, Query};

fn one_thread(criterion: &mut Criterion) {
    let pair = Pair::open().expect("two endpoints");
    let mut group = criterion.benchmark_group("one_thread");
    for len in [0_usize, 8, 48, 256, 1024, 4096] {
        let (message, mut room) = (vec![1_u8; len], vec![0_u8; len]);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("send+receive/{len}"), |bencher| {
            bencher.iter(|| {
                pair.sender
                    .send(pair.to, TAG, black_box(&message))
                    .expect("send");
                pair.receiver
                    .recv((pair.from, TAG), &mut room)
                    .expect("receive")
            });
        });
        group.bench_function(format!("posted/{len}"), |bencher| {
            bencher.iter(|| {
                pair.receiver.scope(|scope| {
                    let receive = scope.irecv((pair.from, TAG), &mut room)?;
                    pair.sender.send(pair.to, TAG, black_box(&message))?;
                    receive.wait().map(drop)
                })
            });
        });
        group.bench_function(format!("unexpected/{len}"), |bencher| {
            bencher.iter(|| {
                pair.fill(1, black_box(&message)).expect("send");
                pair.receiver.progress();
                pair.empty(1, &mut room).expect("receive");
            });
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("progress/nothing there", |bencher| {
        bencher.iter(|| pair.receiver.progress());
    });
    group.finish();
}

fn decisions(criterion: &mut Criterion) {
    let settings = Settings::default();
    let mut group = criterion.benchmark_group("decisions");
    for bytes in [8, 1 << 10, 100_000, 16 << 20] {
        let query = Query::new(bytes, Locality::SharedCache);
        group.bench_function(format!("policy/{bytes}"), |bencher| {
            bencher.iter(|| settings.policy().choose(black_box(&query)));
        });
    }
    group.bench_function("histogram", |bencher| {
        let mut sizes = [0_u64; limic::counters::SIZE_CLASSES];
        let mut bytes = 1_u64;
        bencher.iter(|| {
            bytes = bytes.rotate_left(7) ^ 5;
            sizes[size_class(black_box(bytes))] += 1;
        });
        black_box(sizes);
    });
    group.finish();
}

fn wake_up(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wake_up");
    park(&mut group);

    let open = || HybridEndpoint::with(Settings::default()).expect("an endpoint");
    let (ping, pong) = (open(), open());
    let there = ping
        .connect(&pong.address().to_bytes())
        .expect("an address");
    let here = pong
        .connect(&ping.address().to_bytes())
        .expect("an address");
    // The last message has one byte.
    let echo = thread::spawn(move || {
        loop {
            let len = receive_asleep(&pong, here);
            pong.send(here, TAG, &[1; 8][..len]).expect("send");
            if len == 1 {
                return;
            }
        }
    });
    let round_trip = |message: &[u8]| {
        ping.send(there, TAG, message).expect("send");
        receive_asleep(&ping, there);
    };
    group.bench_function("limic", |bencher| {
        bencher.iter_custom(|rounds| {
            let start = Instant::now();
            (0..rounds.div_ceil(2)).for_each(|_| round_trip(&[1; 8]));
            start.elapsed()
        });
    });
    round_trip(&[1]);
    echo.join().expect("echo");
    group.finish();
}

/// Receives without polling: sleeps at once, and again until the message is there.
fn receive_asleep(endpoint: &HybridEndpoint, from: Peer) -> usize {
    let mut room = [0; 8];
    let received = endpoint.scope(|scope| {
        let mut receive = scope.irecv((from, TAG), &mut room)?;
        while !receive.test() {
            endpoint.sleep(None);
        }
        receive.wait().map(|(status, _)| status.len as usize)
    });
    received.expect("receive")
}

/// Two threads that wake each other with what the standard library has, a futex on Linux.
fn park(group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>) {
    let (turn, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let wait_for = |odd: bool| {
        while turn.load(Ordering::Acquire) % 2 != u64::from(odd) && !over.load(Ordering::Relaxed) {
            thread::park();
        }
    };
    let main = thread::current();
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                wait_for(true);
                if turn.load(Ordering::Relaxed) % 2 == 1 {
                    turn.fetch_add(1, Ordering::Release);
                }
                main.unpark();
            }
        });
        group.bench_function("park", |bencher| {
            bencher.iter_custom(|rounds| {
                let start = Instant::now();
                for _ in 0..rounds.div_ceil(2) {
                    turn.fetch_add(1, Ordering::Release);
                    echo.thread().unpark();
                    wait_for(false);
                }
                start.elapsed()
            });
        });
        over.store(true, Ordering::Relaxed);
        echo.thread().unpark();
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = one_thread, decisions, wake_up
}
criterion_main!(benches);
