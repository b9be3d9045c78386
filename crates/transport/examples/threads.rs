//! An endpoint for each thread: every thread talks to its like in the next rank.
//!
//! `limic run -n 2 target/debug/examples/threads`
//!
//! An endpoint is `Send` and not `Sync`: it moves to the thread that uses it.

use limic::{Endpoint, HybridEndpoint, Peer, World};

const THREADS: usize = 4;

fn main() -> Result<(), limic::Error> {
    let mut world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let right = world.peer((rank + 1) % size)?;
    let left = world.peer((rank + size - 1) % size)?;
    let endpoints = world.endpoints(THREADS, HybridEndpoint::open)?;
    std::thread::scope(|threads| {
        let started: Vec<_> = (0..)
            .zip(endpoints)
            .map(|(thread, endpoint)| threads.spawn(move || pass(&endpoint, thread, left, right)))
            .collect();
        started
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;
    println!("rank {rank}: all {THREADS} threads have passed on 1000 messages");
    world.finalize()
}

/// Passes messages on to the right. The same tags serve in all threads, since each has an endpoint.
fn pass(endpoint: &HybridEndpoint, thread: u64, left: Peer, right: Peer) -> limic::Result<()> {
    for number in 0..1000 {
        let mine = (thread << 32 | number).to_le_bytes();
        let mut theirs = [0; 8];
        endpoint.send_recv(right, 1, &mine, (left, 1), &mut theirs)?;
        assert_eq!(mine, theirs);
    }
    Ok(())
}
