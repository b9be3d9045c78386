//! Memory that others read and write by themselves: every rank leaves a note in the region of every
//! other.
//!
//! `limic run -n 4 target/debug/examples/one_sided`

use limic::{Endpoint, RegionKey, World};

const NOTE: usize = 32;

fn main() -> Result<(), limic::Error> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let region = world.region(vec![0; NOTE * size as usize])?;

    // A peer that is given the key may read and write the region. Nobody else can guess it.
    let mut keys = vec![[0; 8]; size as usize];
    let mine = region.key().0.to_le_bytes();
    world.scope(|scope| {
        for (other, key) in (0..).zip(&mut keys) {
            scope.irecv((world.peer(other)?, 1), key)?;
            scope.isend(world.peer(other)?, 1, &mine)?;
        }
        Ok(())
    })?;

    let mut note = [0; NOTE];
    let text = format!("rank {rank} was here");
    note[..text.len()].copy_from_slice(text.as_bytes());
    world.scope(|scope| {
        for (other, key) in (0..).zip(&keys) {
            let key = RegionKey(u64::from_le_bytes(*key));
            let place = NOTE as u64 * u64::from(rank);
            scope.iwrite(world.peer(other)?, key, place, &note)?;
        }
        Ok(()) // The end of the scope waits until the notes are in place.
    })?;
    world.barrier()?;

    for other in 0..size {
        region.read_at(NOTE as u64 * u64::from(other), &mut note)?;
        let expected = format!("rank {other} was here");
        assert_eq!(&note[..expected.len()], expected.as_bytes());
    }
    println!("rank {rank} has {size} notes");
    // The memory comes back. Regions borrow the world, so they end before it.
    drop(region.revoke()?);
    world.finalize()
}
