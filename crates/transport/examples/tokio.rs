//! An endpoint in a tokio runtime: requests are awaited beside a timer.
//!
//! `limic run -n 4 target/debug/examples/tokio`
//!
//! Requests borrow their endpoint and are not `Send`: the task that has them stays in its thread,
//! as the `current_thread` runtime or a `LocalSet` sees to. One task at a time waits for the
//! endpoint's descriptor.

use std::error::Error;
use std::os::fd::OwnedFd;
use std::time::Duration;

use limic::{Endpoint, OwnedRecv, World};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for a receive without keeping the thread.
async fn received<'e, E: Endpoint>(
    endpoint: &'e E,
    wake: &AsyncFd<OwnedFd>,
    mut receive: OwnedRecv<'e, E>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    while !receive.test() {
        // `arm` says false if something came meanwhile: then there is no reason to sleep.
        if endpoint.arm() {
            wake.readable().await?.clear_ready();
        }
        endpoint.progress();
    }
    let (status, mut buffer) = receive.wait()?;
    buffer.truncate(status.len as usize);
    Ok(buffer)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let right = world.peer((rank + 1) % size)?;
    let left = world.peer((rank + size - 1) % size)?;

    let wake = world.wake_fd().try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` has one descriptor, which is open until the `AsyncFd` drops it.
    let wake = unsafe { AsyncFd::register_with_interest(wake, Interest::READABLE) }?;
    let receive = world.irecv((left, 1), vec![0; 64])?;
    // The message is sent a little later, while the receive is awaited.
    let send = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let text = format!("hello from rank {rank}");
        Ok::<_, Box<dyn Error>>(world.isend(right, 1, text)?.wait()?)
    };
    let (text, _) = tokio::try_join!(received(world.endpoint(), &wake, receive), send)?;
    let text = String::from_utf8(text)?;
    assert_eq!(text, format!("hello from rank {}", left.index()));
    println!("rank {rank} got '{text}'");
    Ok(world.finalize()?)
}
