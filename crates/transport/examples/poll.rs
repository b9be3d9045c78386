//! An endpoint in a poll loop, beside other descriptors: messages of the other ranks, and letters
//! of a socket.
//!
//! `limic run -n 4 target/debug/examples/poll`

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use limic::{Endpoint, Selector, Tag, World};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const MESSAGES: u32 = 20;
const LETTERS: &[u8] = b"a letter, eight bytes at a time";
const TAG: Tag = Tag(1);

fn main() -> Result<(), Box<dyn Error>> {
    let world = World::init()?;
    let root = world.peer(0)?;
    if world.rank() > 0 {
        for number in 0..MESSAGES {
            world.send(root, TAG, &number.to_le_bytes())?;
        }
        return Ok(world.finalize()?);
    }

    let (mut socket, mut other) = UnixStream::pair()?;
    other.write_all(LETTERS)?;
    let (mut messages, mut letters) = (MESSAGES * (world.size() - 1), Vec::new());
    while messages > 0 || letters.len() < LETTERS.len() {
        // All that has come, until there is nothing more.
        while world.probe(Selector::any_source(TAG))?.is_some() {
            world.recv(Selector::any_source(TAG), &mut [0; 4])?;
            messages -= 1;
        }
        // `arm` says false if something came meanwhile: then there is no reason to sleep.
        let sleep = messages == 0 || world.arm();
        let wake = world.wake_fd();
        let mut wanted = [
            PollFd::new(&wake, PollFlags::IN),
            PollFd::new(&socket, PollFlags::IN),
        ];
        let at_once = Timespec::default();
        poll(&mut wanted, (!sleep).then_some(&at_once))?;
        let readable = !wanted[1].revents().is_empty();
        world.progress();
        if readable {
            let mut some = [0; 8];
            let read = socket.read(&mut some)?;
            letters.extend_from_slice(&some[..read]);
        }
    }
    assert_eq!(letters, LETTERS);
    println!("rank 0 has all messages and all letters");
    Ok(world.finalize()?)
}
