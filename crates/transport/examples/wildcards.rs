//! Messages of unknown senders, tags and lengths: rank 0 takes what the others send, as it comes.
//!
//! `limic run -n 4 target/debug/examples/wildcards`

use limic::{Endpoint, Selector, Tag, World};

/// The upper half of a tag says what a message is, the lower half is a number.
const NUMBERS: u32 = 1;
const TEXT: u32 = 2;

fn main() -> Result<(), limic::Error> {
    let world = World::init()?;
    let root = world.peer(0)?;
    if world.rank() > 0 {
        for number in 0..world.rank() {
            let data = vec![world.rank() as u8; 1000 * number as usize];
            world.send(root, Tag::mpi(NUMBERS, number), &data)?;
        }
        let text = format!("{} messages", world.rank());
        world.send(root, Tag::mpi(TEXT, 0), text.as_bytes())?;
        return world.finalize();
    }

    let expected: u32 = (1..world.size()).sum();
    for _ in 0..expected {
        // Any source, and any tag of this half. The probe says how much room it needs.
        let numbers = Selector::mpi(None, NUMBERS, None);
        let found = world.wait_probe(numbers)?;
        let mut data = vec![0; found.len as usize];
        let status = world.recv((found.peer, found.tag), &mut data)?;
        assert_eq!(status, found);
        assert_eq!(data.len(), 1000 * status.tag.mpi_tag() as usize);
        assert!(
            data.iter()
                .all(|byte| u32::from(*byte) == status.peer.index())
        );
    }
    for _ in 1..world.size() {
        // A matched probe takes the message at once, so that no other receive can have it.
        let claimed = world.wait_matched_probe(Selector::mpi(None, TEXT, None))?;
        let rank = claimed.status().peer;
        let text = claimed.recv_vec()?;
        println!("{rank} has sent {}", String::from_utf8_lossy(&text));
    }
    world.finalize()
}
