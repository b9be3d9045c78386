//! Every rank greets the next one. `limic run -n 4 target/debug/examples/hello`

use limic::{Endpoint, World};

fn main() -> Result<(), limic::Error> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let right = world.peer((rank + 1) % size)?;
    let left = world.peer((rank + size - 1) % size)?;

    let greeting = format!("hello from rank {rank}");
    let mut inbox = [0; 64];
    let status = world.send_recv(right, 7, greeting.as_bytes(), (left, 7), &mut inbox)?;

    let text = String::from_utf8_lossy(&inbox[..status.len as usize]);
    println!("rank {rank} of {size} got '{text}' from {}", status.peer);
    world.finalize()
}
