//! PMI-1: lines as both sides cut and read them, and a launcher that answers a rank with anything.
#![no_main]

use std::time::Duration;

use limic::bootstrap::wire::{LineBuffer, Message};
use limic::bootstrap::{Bootstrap, Pmi1};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType};

/// Far longer than a wait for bytes that are here, or for an end that is.
const LIMIT: Duration = Duration::from_secs(60);

/// Fewer than a socket takes whole.
const MOST: usize = 1 << 15;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut lines = LineBuffer::default();
    for piece in bytes.chunks(7) {
        lines.push(piece);
        while let Ok(Some(line)) = lines.next_line() {
            if let Ok(message) = Message::parse(&line) {
                assert_eq!(Message::parse(&message.encode()), Ok(message));
            }
        }
    }
    answer(&bytes[..bytes.len().min(MOST)]);
});

/// A rank that hears these answers, and then that its launcher is gone.
fn answer(bytes: &[u8]) {
    let flags = SocketFlags::CLOEXEC;
    let (mine, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .expect("two sockets");
    let sent = rustix::net::send(&theirs, bytes, SendFlags::empty()).expect("room for all");
    assert_eq!(sent, bytes.len());
    rustix::net::shutdown(&theirs, Shutdown::Write).expect("a connected socket");
    if let Ok(mut rank) = Pmi1::from_socket(mine, 1, 3, Some(LIMIT)) {
        let blobs = rank.all_gather(b"blob");
        assert!(blobs.is_err() || blobs.is_ok_and(|blobs| blobs.len() == 3));
        let _gone = rank.barrier();
        let _gone = rank.finalize();
    }
}
