//! Messages that are built and read in shared memory, and never copied: each rank passes a picture
//! on to the next.
//!
//! `limic run -n 4 target/debug/examples/loan`

use limic::{Endpoint, World};

const PIXELS: usize = 1 << 20;

fn main() -> Result<(), limic::Error> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let right = world.peer((rank + 1) % size)?;
    let left = world.peer((rank + size - 1) % size)?;
    for turn in 0..10 {
        let shade = |rank: u32| (rank + 7 * turn) as u8;
        // A loan is a `&mut [u8]`. Its memory comes back when the receiver has dropped it.
        let mut picture = world.loan(PIXELS)?;
        picture.fill(shade(rank));
        let sent = picture.isend(right, 1)?;

        // Its sender can still write the bytes: they are read one by one, or copied out.
        let picture = world.recv_loaned((left, 1))?;
        let expected = shade(left.index());
        assert!(picture.bytes().iter().all(|pixel| pixel.load() == expected));
        let mut row = [0; 1000];
        picture.copy_to(5000, &mut row)?;
        assert_eq!(row, [expected; 1000]);
        sent.wait()?;
    }
    println!("rank {rank} has passed on 10 pictures of {PIXELS} bytes");
    world.finalize()
}
