//! Messages out of memory that peers may read: the conformance suite, with each long block of the
//! program in such memory, and what is said of buffers.

use limic::counters::Counters;
use limic::heap::PeerReadable;
use limic::settings::Path;
use limic::{Endpoint, Error, HybridEndpoint};
use limic_tests::conformance::settings;
use limic_tests::{Cast, Rank, conformance};

#[global_allocator]
static HEAP: PeerReadable = PeerReadable::new();

fn endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.skew(false))?)
}

conformance!(heap, endpoint);

const DATA: u64 = 5;
const LEN: usize = 100_000;

fn received(counters: &Counters, by: Path) -> u64 {
    let paths = counters.received_paths.iter();
    let mut messages = paths
        .filter(|(path, _)| *path == by)
        .map(|(_, traffic)| traffic.messages);
    messages.next().unwrap_or(0)
}

fn of(message: usize, at: usize) -> u8 {
    (message * 31 + at * 7 + at / 251) as u8
}

/// Opens an endpoint in each of two ranks; gives the other one.
fn open(rank: &Rank) -> (HybridEndpoint, limic::Peer) {
    let endpoint = endpoint().expect("open");
    let other = rank.connect(&endpoint)[1 - rank.rank as usize];
    (endpoint, other)
}

#[test]
fn a_message_out_of_a_buffer_is_copied_once_as_often_as_it_is_sent() {
    let cast = Cast::new("a_message_out_of_a_buffer_is_copied_once_as_often_as_it_is_sent");
    cast.run(|rank| {
        let (endpoint, other) = open(rank);
        let mut buffer = endpoint.buffer(LEN).expect("memory");
        for message in 0..20 {
            // A part of it too, and one that begins anywhere.
            let from = if message % 2 == 0 { 0 } else { 4099 };
            if rank.rank == 0 {
                for (at, byte) in buffer.iter_mut().enumerate() {
                    *byte = of(message, at);
                }
                endpoint.send(other, DATA, &buffer[from..]).expect("sent");
            } else {
                let mut into = vec![0; LEN - from];
                endpoint.recv((other, DATA), &mut into).expect("a message");
                let wrong = (from..LEN).find(|at| into[at - from] != of(message, *at));
                assert_eq!(wrong, None, "message {message}");
            }
        }
        if rank.rank == 1 {
            assert_eq!(received(&endpoint.counters(), Path::PeerReadable), 20);
        }
        rank.link.meet(&endpoint);
    });
}

#[test]
fn memory_that_was_given_back_and_made_again_is_read_where_it_is() {
    let cast = Cast::new("memory_that_was_given_back_and_made_again_is_read_where_it_is");
    cast.run(|rank| {
        let (endpoint, other) = open(rank);
        // Longer than blocks that share an arena: each buffer has one of its own.
        let len = 33 << 20;
        for message in 0..5 {
            if rank.rank == 0 {
                let mut buffer = endpoint.buffer(len).expect("memory");
                assert!(buffer.iter().step_by(4096).all(|byte| *byte == 0));
                buffer.fill(message);
                endpoint.send(other, DATA, &buffer).expect("sent");
            } else {
                let mut into = vec![0xff; len];
                endpoint.recv((other, DATA), &mut into).expect("a message");
                assert!(
                    into.iter().all(|byte| *byte == message),
                    "message {message}"
                );
            }
        }
        rank.link.meet(&endpoint);
    });
}

/// Where the table says split copy, as these settings make it say everywhere.
#[test]
fn both_sides_copy_long_messages_out_of_buffers() {
    const MESSAGES: usize = 8;
    const LEN: usize = (3 << 20) + 5;
    let cast = Cast::new("both_sides_copy_long_messages_out_of_buffers");
    cast.run(|rank| {
        let settings = settings(|with| {
            let paths = "inline,eager,split-copy,peer-readable".parse();
            with.skew(false).allowed(paths.expect("paths"))
        });
        let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let mut buffer = endpoint.buffer(LEN).expect("memory");
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = of(1, at);
        }
        // One at a time, and several under way.
        for window in [1, MESSAGES] {
            if rank.rank == 0 {
                endpoint
                    .scope(|scope| {
                        for message in 0..window {
                            scope.isend(other, DATA, &buffer[message..])?;
                        }
                        Ok(())
                    })
                    .expect("sent");
            } else {
                let mut rooms = vec![vec![0; LEN]; window];
                endpoint
                    .scope(|scope| {
                        for room in &mut rooms {
                            scope.irecv((other, DATA), room)?;
                        }
                        Ok(())
                    })
                    .expect("messages");
                for (message, room) in rooms.iter().enumerate() {
                    let len = LEN - message;
                    let wrong = (0..len).find(|at| room[*at] != of(1, at + message));
                    assert_eq!(wrong, None, "message {message}");
                }
            }
        }
        if rank.rank == 1 {
            let by = received(&endpoint.counters(), Path::PeerReadable);
            assert_eq!(by, 1 + MESSAGES as u64);
        }
        rank.link.meet(&endpoint);
    });
}

#[test]
fn a_setting_keeps_messages_to_two_copies() {
    let cast = Cast::new("a_setting_keeps_messages_to_two_copies");
    cast.run(|rank| {
        let paths = "inline,eager,pipeline".parse().expect("paths");
        let settings = limic::Settings::builder()
            .without_environment()
            .allowed(paths);
        let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let buffer = endpoint.buffer(LEN).expect("memory");
        if rank.rank == 0 {
            endpoint.send(other, DATA, &buffer).expect("sent");
        } else {
            let mut into = vec![1; LEN];
            endpoint.recv((other, DATA), &mut into).expect("a message");
            assert!(into.iter().all(|byte| *byte == 0));
            assert_eq!(received(&endpoint.counters(), Path::PeerReadable), 0);
        }
        rank.link.meet(&endpoint);
    });
}

#[test]
fn a_buffer_that_no_memory_can_hold_is_refused() {
    let endpoint = endpoint().expect("open");
    assert!(matches!(
        endpoint.buffer(usize::MAX / 2),
        Err(Error::NoMemory(_))
    ));
}
