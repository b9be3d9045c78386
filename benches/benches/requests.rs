//! Each step of a non-blocking message for itself, and loans: both ends in one thread, all in
//! cache, so instructions and no moves.
//!
//! `post_send`, `post_receive`: the call that starts it. `wait`: its end, with the messages in the
//! ring already. `test`: a look at one that is not done. `window`: all of it, 64 at a time. `loan`:
//! room borrowed and given back; sent, taken and given back. `counters`: all counts of an endpoint
//! read at once.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use limic::Endpoint;
use limic_benches::{Pair, TAG};

/// Messages at a time.
const WINDOW: usize = 64;
/// Bytes of a message, as of a request's usual answer.
const LEN: usize = 8;

/// Repeats windows until `count` messages have passed; each gives the time of the part of it that
/// is measured.
fn windows(count: u64, mut window: impl FnMut() -> limic::Result<Duration>) -> Duration {
    let windows = count.div_ceil(WINDOW as u64);
    let time: Duration = (0..windows).map(|_| window().expect("a window")).sum();
    // Of `count` messages, though whole windows were measured.
    time.mul_f64(count as f64 / (windows * WINDOW as u64) as f64)
}

fn steps(criterion: &mut Criterion) {
    let pair = Pair::open().expect("two endpoints");
    let message = [1_u8; LEN];
    let mut rooms = [[0_u8; LEN]; WINDOW];
    let mut group = criterion.benchmark_group("requests");
    group.throughput(Throughput::Elements(1));
    group.bench_function("post_send", |bencher| {
        bencher.iter_custom(|count| {
            windows(count, || {
                let time = pair.sender.scope(|scope| {
                    let begin = Instant::now();
                    let sends =
                        [(); WINDOW].map(|()| scope.isend(pair.to, TAG, black_box(&message)));
                    let time = begin.elapsed();
                    sends
                        .into_iter()
                        .try_for_each(|send| send?.wait().map(drop))?;
                    Ok(time)
                })?;
                pair.empty(WINDOW, &mut [0; LEN])?;
                Ok(time)
            })
        });
    });
    for what in ["post_receive", "wait", "window"] {
        group.bench_function(what, |bencher| {
            bencher.iter_custom(|count| {
                windows(count, || {
                    pair.receiver.scope(|scope| {
                        let posting = Instant::now();
                        let receives = rooms
                            .each_mut()
                            .map(|room| scope.irecv((pair.from, TAG), room));
                        let posted = posting.elapsed();
                        pair.fill(WINDOW, black_box(&message))?;
                        let waiting = Instant::now();
                        receives
                            .into_iter()
                            .try_for_each(|receive| receive?.wait().map(drop))?;
                        Ok(match what {
                            "post_receive" => posted,
                            "wait" => waiting.elapsed(),
                            _ => posting.elapsed(),
                        })
                    })
                })
            });
        });
    }
    group.bench_function("test", |bencher| {
        let mut room = [0; LEN];
        let done = pair.receiver.scope(|scope| {
            let mut receive = scope.irecv((pair.from, TAG), &mut room)?;
            bencher.iter(|| receive.test());
            pair.fill(1, &message)?;
            receive.wait().map(drop)
        });
        done.expect("a receive");
    });
    group.bench_function("counters", |bencher| {
        bencher.iter(|| pair.receiver.counters());
    });
    group.finish();
}

fn loans(criterion: &mut Criterion) {
    let pair = Pair::open().expect("two endpoints");
    let mut group = criterion.benchmark_group("loan");
    for len in [64, 1 << 20] {
        group.bench_function(format!("borrow+return/{len}"), |bencher| {
            bencher.iter(|| drop(pair.sender.loan(black_box(len)).expect("a loan")));
        });
        group.bench_function(format!("send+take/{len}"), |bencher| {
            bencher.iter(|| {
                let loan = pair.sender.loan(black_box(len)).expect("a loan");
                loan.send(pair.to, TAG).expect("send");
                drop(
                    pair.receiver
                        .recv_loaned((pair.from, TAG))
                        .expect("receive"),
                );
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = steps, loans
}
criterion_main!(benches);
