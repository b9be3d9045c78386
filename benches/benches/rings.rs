//! The rings: what a message costs in one core's cache, and how long one takes
//! from core to core beside the least that any message can take.
//!
//! `one_thread`: a record pushed and popped, all in cache: instructions, no moves.
//! `ping_pong`: half a round trip between two threads, which stand for two
//! processes on the same kind of mapping. `flag` bounces a bare word on one line
//! per direction, the floor; `line_ring` sends 8 bytes with tag and kind.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use limic_shm::ring::shared::{self, Peek};
use limic_shm::ring::{LineConsumer, LineProducer, Mapped, SharedConsumer, SharedProducer};
use limic_shm::ring::{heap, line};

/// 64 KiB, a usual size for a private ring.
const LINES: u32 = 1024;
const SLOTS: u32 = 64;

fn line_ring() -> (LineProducer<Mapped>, LineConsumer<Mapped>) {
    let mem = heap(line::area_len(LINES));
    (
        LineProducer::new(mem.clone(), LINES).expect("geometry"),
        LineConsumer::new(mem, LINES).expect("geometry"),
    )
}

fn one_thread(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one_thread");
    for len in [8_usize, 48, 256, 4096] {
        let (mut producer, mut consumer) = line_ring();
        let from = vec![1_u8; len];
        let mut to = vec![0_u8; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("line_ring/{len}"), |bencher| {
            bencher.iter(|| {
                let from = black_box(from.as_slice());
                let mut room = producer.reserve(from.len() as u32).expect("room");
                room.write_bytes(0, from);
                room.publish(1, 7);
                let record = consumer.peek().expect("honest").expect("a record");
                assert!(record.read_bytes(0, &mut to));
                consumer.pop();
            });
        });
    }
    let mem = heap(shared::area_len(SLOTS));
    let mut producer = SharedProducer::new(mem.clone(), SLOTS, 1).expect("geometry");
    let mut consumer = SharedConsumer::new(mem, SLOTS).expect("geometry");
    let (from, mut to) = ([1_u8; 8], [0_u8; 8]);
    group.throughput(Throughput::Bytes(8));
    group.bench_function("shared_ring/8", |bencher| {
        bencher.iter(|| {
            let from = black_box(from.as_slice());
            let mut room = producer.reserve(from.len() as u32).expect("room");
            room.write_bytes(0, from);
            room.publish(1, 7);
            match consumer.peek() {
                Ok(Peek::Ready(_, record)) => assert!(record.read_bytes(0, &mut to)),
                other => panic!("no record: {other:?}"),
            }
            consumer.pop();
        });
    });
    let (_, mut idle) = line_ring();
    group.throughput(Throughput::Elements(1));
    group.bench_function("line_ring/empty_poll", |bencher| {
        bencher.iter(|| black_box(idle.peek().is_ok_and(|record| record.is_none())));
    });
    group.finish();
}

/// Sends one message of 8 bytes, waiting for room.
fn send(producer: &mut LineProducer<Mapped>, value: u64) {
    loop {
        if let Some(mut room) = producer.reserve(8) {
            room.write_bytes(0, &value.to_ne_bytes());
            room.publish(1, value);
            return;
        }
        spin_loop();
    }
}

/// Receives one message of 8 bytes; `None` once `stop` says so.
fn receive(consumer: &mut LineConsumer<Mapped>, stop: &AtomicBool) -> Option<u64> {
    loop {
        if let Some(record) = consumer.peek().expect("honest") {
            let mut bytes = [0; 8];
            assert!(record.read_bytes(0, &mut bytes));
            consumer.pop();
            return Some(u64::from_ne_bytes(bytes));
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        spin_loop();
    }
}

/// Time of `rounds` one-way trips, from `rounds / 2` round trips.
fn timed(rounds: u64, mut round_trip: impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    for value in 1..=rounds.div_ceil(2) {
        round_trip(value);
    }
    start.elapsed()
}

/// A word on a cache line of its own (and of its neighbour's, which is fetched
/// with it).
#[repr(align(128))]
struct Flag(AtomicU64);

fn ping_pong(criterion: &mut Criterion) {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: ping_pong needs two processors");
        return;
    }
    let mut group = criterion.benchmark_group("ping_pong");
    let stop = Arc::new(AtomicBool::new(false));

    let flags = Arc::new([Flag(AtomicU64::new(0)), Flag(AtomicU64::new(0))]);
    let (echo_flags, echo_stop) = (Arc::clone(&flags), Arc::clone(&stop));
    let echo = thread::spawn(move || {
        let mut last = 0;
        while !echo_stop.load(Ordering::Relaxed) {
            let value = echo_flags[0].0.load(Ordering::Acquire);
            if value == last {
                spin_loop();
            } else {
                last = value;
                echo_flags[1].0.store(value, Ordering::Release);
            }
        }
    });
    let mut count = 0;
    group.bench_function("flag", |bencher| {
        bencher.iter_custom(|rounds| {
            timed(rounds, |_| {
                count += 1;
                flags[0].0.store(count, Ordering::Release);
                while flags[1].0.load(Ordering::Acquire) != count {
                    spin_loop();
                }
            })
        });
    });
    stop.store(true, Ordering::Relaxed);
    echo.join().expect("echo");

    stop.store(false, Ordering::Relaxed);
    let ((mut ping, mut ping_end), (mut pong, mut pong_end)) = (line_ring(), line_ring());
    let echo_stop = Arc::clone(&stop);
    let echo = thread::spawn(move || {
        while let Some(value) = receive(&mut ping_end, &echo_stop) {
            send(&mut pong, value);
        }
    });
    group.bench_function("line_ring/8", |bencher| {
        bencher.iter_custom(|rounds| {
            timed(rounds, |value| {
                send(&mut ping, value);
                assert_eq!(receive(&mut pong_end, &stop), Some(value));
            })
        });
    });
    stop.store(true, Ordering::Relaxed);
    echo.join().expect("echo");
    group.finish();
}

/// Throughput: one thread sends as fast as it can, the other takes off.
fn stream(criterion: &mut Criterion) {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: stream needs two processors");
        return;
    }
    let mut group = criterion.benchmark_group("stream");
    let (mut producer, mut consumer) = line_ring();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Flag(AtomicU64::new(0)));
    let (sink_stop, sink_seen) = (Arc::clone(&stop), Arc::clone(&seen));
    let sink = thread::spawn(move || {
        while let Some(value) = receive(&mut consumer, &sink_stop) {
            if value % 2 == 1 {
                sink_seen.0.fetch_add(1, Ordering::Release);
            }
        }
    });
    let mut batches = 0;
    group.throughput(Throughput::Elements(1));
    group.bench_function("line_ring/8", |bencher| {
        bencher.iter_custom(|rounds| {
            let start = Instant::now();
            for _ in 1..rounds {
                send(&mut producer, 0);
            }
            // The odd one ends the batch.
            send(&mut producer, 1);
            batches += 1;
            while seen.0.load(Ordering::Acquire) != batches {
                spin_loop();
            }
            start.elapsed()
        });
    });
    stop.store(true, Ordering::Relaxed);
    sink.join().expect("sink");
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = one_thread, ping_pong, stream
}
criterion_main!(benches);
