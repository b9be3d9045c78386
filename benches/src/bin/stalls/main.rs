//! Times of hot paths for `cargo xtask stalls`, in steps of a loop that depends on the core alone.
//!
//! Both ends are in one thread and all is in cache, so that the processor's clock is all that
//! changes a time, and what else runs on its core. Short runs of all cases are taken in turn, and
//! the least of each counts: nothing interrupted it. Messages are sent many at a time and received
//! then, as between two processes, where no record is read right after it was written.

mod reference;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use limic::{Endpoint, Result};
use limic_benches::{Pair, TAG};

/// Runs of each case.
const RUNS: usize = 200;
/// Messages of one run, and looks for some. The pair's ring has room for them.
const MESSAGES: usize = 64;
/// Long messages of one run.
const LONG_MESSAGES: usize = 8;

fn main() -> Result<()> {
    let pair = Pair::open()?;
    let mut times = Times::default();
    let mut words = [0; 64];
    for _ in 0..RUNS {
        times.take("wait", reference::STEPS, reference::wait);
        times.take("work", reference::TURNS, || reference::work(&mut words));
        times.take("progress, nothing there", MESSAGES, || {
            for _ in 0..MESSAGES {
                black_box(pair.receiver.progress());
            }
        });
        there::<8>(&pair, &mut times, ["send 8", "receive 8"], MESSAGES)?;
        there::<64>(&pair, &mut times, ["send 64", "receive 64"], MESSAGES)?;
        there::<1024>(&pair, &mut times, ["send 1K", "receive 1K"], MESSAGES)?;
        let names = ["send 16K", "receive 16K"];
        there::<{ 16 << 10 }>(&pair, &mut times, names, LONG_MESSAGES)?;
        posted(&pair, &mut times)?;
    }
    times.print();
    Ok(())
}

/// Sends messages, and receives them then.
fn there<const LEN: usize>(
    pair: &Pair,
    times: &mut Times,
    [send, receive]: [&'static str; 2],
    count: usize,
) -> Result<()> {
    let (message, mut room) = ([1; LEN], [0; LEN]);
    times.take(send, count, || pair.fill(count, black_box(&message)))?;
    times.take(receive, count, || pair.empty(count, &mut room))
}

/// Posts receives, and completes them once their messages are there.
fn posted(pair: &Pair, times: &mut Times) -> Result<()> {
    let mut rooms = [[0; 8]; MESSAGES];
    pair.receiver.scope(|scope| {
        let mut requests = [const { None }; MESSAGES];
        times.take("post 8", MESSAGES, || -> Result<()> {
            for (request, room) in requests.iter_mut().zip(&mut rooms) {
                *request = Some(scope.irecv((pair.from, TAG), room)?);
            }
            Ok(())
        })?;
        pair.fill(MESSAGES, &[1; 8])?;
        times.take("complete 8", MESSAGES, || {
            let mut requests = requests.into_iter().flatten();
            requests.try_for_each(|request| request.wait().map(drop))
        })
    })
}

/// The least time of each case, and the operations of one run.
#[derive(Default)]
struct Times(BTreeMap<&'static str, (Duration, usize)>);

impl Times {
    fn take<T>(&mut self, case: &'static str, operations: usize, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        let took = start.elapsed();
        let (least, _) = self.0.entry(case).or_insert((took, operations));
        *least = took.min(*least);
        result
    }

    /// Steps of [`reference::wait`] that an operation of each case takes as long as.
    fn print(self) {
        let each = |(least, operations): (Duration, usize)| least.as_secs_f64() / operations as f64;
        let step = self.0.get("wait").map_or(f64::NAN, |wait| each(*wait));
        for (case, time) in self.0 {
            println!("{case}: {:.2}", each(time) / step);
        }
    }
}
