//! Bucket sort of integers, as NAS IS does it: the ranks tell each other how many keys they will
//! send, then send them. Checked against a serial sort of the same keys.
//!
//! `limic run -n 4 target/release/examples/bucket_sort [KEYS PER RANK]`
//!
//! Keys are kept as bytes (one load all the same), so that they travel from and to where they lie.

use std::process::ExitCode;
use std::time::Instant;

use limic::{Endpoint, Tag, World};

/// The bytes of a `u32`.
type Key = [u8; 4];
const KEY_BITS: u32 = 20;

const COUNTS: Tag = Tag(1);
const KEYS: Tag = Tag(2);

/// The keys that a rank begins with: the mean of four random numbers, so that the middle buckets
/// are fuller than the outer ones (NAS IS does the same).
fn generate(rank: u32, count: usize) -> impl Iterator<Item = u32> {
    let mut state = u64::from(rank);
    // splitmix64 (Steele, Lea, Flood 2014)
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state.wrapping_mul(u64::from(2 * rank + 1));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> (64 - KEY_BITS)
    };
    (0..count).map(move |_| ((random() + random() + random() + random()) / 4) as u32)
}

/// The rank whose bucket a key falls into.
fn owner(key: u32, size: u32) -> usize {
    ((u64::from(key) * u64::from(size)) >> KEY_BITS) as usize
}

/// Sends `outgoing[r]` to each rank r, and receives what it sent into `incoming[r]`.
fn all_to_all<const N: usize>(
    world: &World,
    tag: Tag,
    outgoing: &[Vec<[u8; N]>],
    incoming: &mut [Vec<[u8; N]>],
) -> limic::Result<()> {
    let (rank, size) = (world.rank(), world.size());
    world.scope(|scope| {
        // All receives first: what arrives finds its place, and no message waits in between.
        for (from, buffer) in (0..size).zip(incoming.iter_mut()) {
            scope.irecv((world.peer(from)?, tag), buffer.as_flattened_mut())?;
        }
        // Each begins with its neighbour, so that not everybody sends to rank 0 first.
        for to in (rank..size).chain(0..rank) {
            scope.isend(world.peer(to)?, tag, outgoing[to as usize].as_flattened())?;
        }
        Ok(())
    })
}

/// Returns this rank's bucket, sorted.
fn sort(world: &World, keys: impl Iterator<Item = u32>) -> limic::Result<Vec<u32>> {
    let size = world.size();
    let mut outgoing: Vec<Vec<Key>> = vec![Vec::new(); size as usize];
    for key in keys {
        outgoing[owner(key, size)].push(key.to_le_bytes());
    }

    // One message for each count, as in MPI_Alltoall: eight bytes, the length of what follows.
    let counts: Vec<Vec<[u8; 8]>> = outgoing
        .iter()
        .map(|keys| vec![(keys.len() as u64).to_le_bytes()])
        .collect();
    let mut expected = vec![vec![[0; 8]]; size as usize];
    all_to_all(world, COUNTS, &counts, &mut expected)?;

    // Then the keys, as in MPI_Alltoallv.
    let mut incoming: Vec<Vec<Key>> = expected
        .iter()
        .map(|count| vec![[0; 4]; u64::from_le_bytes(count[0]) as usize])
        .collect();
    all_to_all(world, KEYS, &outgoing, &mut incoming)?;

    let mut bucket: Vec<u32> = incoming
        .iter()
        .flatten()
        .map(|key| u32::from_le_bytes(*key))
        .collect();
    bucket.sort_unstable();
    Ok(bucket)
}

fn main() -> Result<ExitCode, limic::Error> {
    let argument = std::env::args().nth(1);
    let count = argument
        .and_then(|word| word.parse().ok())
        .unwrap_or(200_000);

    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    world.barrier()?;
    let start = Instant::now();
    let bucket = sort(&world, generate(rank, count))?;
    world.barrier()?;
    let took = start.elapsed();

    // Everybody's keys once more, sorted here alone; this rank's bucket is a part of them.
    let mut serial: Vec<u32> = (0..size).flat_map(|rank| generate(rank, count)).collect();
    serial.sort_unstable();
    let begin = serial.partition_point(|key| owner(*key, size) < rank as usize);
    let end = serial.partition_point(|key| owner(*key, size) <= rank as usize);
    let right = bucket == serial[begin..end];

    println!(
        "rank {rank}: {} keys of {}, {}",
        bucket.len(),
        serial.len(),
        if right {
            "sorted as in the serial run"
        } else {
            "WRONG"
        }
    );
    if rank == 0 {
        println!(
            "{size} ranks sorted {} keys in {:.1} ms",
            serial.len(),
            took.as_secs_f64() * 1e3
        );
    }
    world.finalize()?;
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
