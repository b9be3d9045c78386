//! An adapter of this side is gone, and others are there.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::contact::wait_for_tick;
use super::mending::{Memory, both_talk, read, settle_until};
use super::{Side, on, pair, settle, two_and_one, two_streams};
use crate::fabric::{ConnectionFailure, ConnectionId, TransferError};
use crate::fake::{Nature, adapters, net};

/// Two adapters at each end, of which one was unplugged: any of the four. Nothing may have told of
/// that yet. Or only its completion queue has failed.
#[test]
fn an_adapter_that_is_gone_prevents_no_connection() {
    for (gone, how) in (0..4).flat_map(|gone| [0, 1, 2].map(|how| (gone, how))) {
        adapters(&[Nature::PLAIN; 4]);
        let mut a = Side::open(1, two_streams(&["fake0", "fake2"]));
        let mut b = Side::open(2, two_streams(&["fake1", "fake3"]));
        net(|net| {
            net.impatient = true;
            match how {
                0 => net.break_queues(gone),
                _ => net.unplug(gone),
            }
        });
        if how == 1 {
            wait_for_tick();
            settle(&mut [&mut a, &mut b]);
        }
        let there = a.connect(&b);
        meet_and_talk((&mut a, there), &mut b);
    }
}

/// The peer has heard of a queue pair there, or not.
#[test]
fn an_adapter_that_goes_in_the_middle_of_a_greeting_ends_no_attempt() {
    for is_heard in [false, true] {
        adapters(&[Nature::PLAIN; 4]);
        let mut a = Side::open(1, two_streams(&["fake0", "fake2"]));
        let mut b = Side::open(2, two_streams(&["fake1", "fake3"]));
        let there = a.connect(&b);
        if is_heard {
            a.progress();
            b.progress();
        }
        net(|net| {
            net.impatient = true;
            net.unplug(0);
        });
        meet_and_talk((&mut a, there), &mut b);
    }
}

/// The attempt of `a` comes to its end, and both can talk.
fn meet_and_talk((a, there): (&mut Side, ConnectionId), b: &mut Side) {
    settle_until(&mut [a, b], "a connection", |sides| {
        sides.iter().all(|side| side.connected.len() == 1)
    });
    let back = b.connected[0];
    both_talk((a, there), (b, back), b"hello");
    assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
}

/// Its driver says that it is gone, and nothing else does: requests there never end.
#[test]
fn an_adapter_that_is_gone_ends_what_only_it_could_do() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), (b, _)) = pair(on);
    let (into, offered) = (Memory::of(&a, vec![0; 100]), Memory::of(&b, vec![7; 100]));
    net(|net| net.unplug(0));
    read(&mut a, there, offered.remote(), &into);
    settle_until(&mut [&mut a], "the end", |sides| {
        !sides[0].failed.is_empty()
    });
    let [(connection, why @ ConnectionFailure::Local(said))] = &a.failed[..] else {
        panic!("{:?}", a.failed);
    };
    assert_eq!(*connection, there);
    assert!(said.contains("fake0"), "{said}");
    assert_eq!(a.transferred, [Err(TransferError::Failed(why.clone()))]);
    for fd in a.fabric.wake_fds() {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec::default()));
        assert_eq!(ready, Ok(0), "a sleeper is woken for ever");
    }
    let address = b.fabric.address();
    let refused = a.fabric.connect(&address, 2, !2).expect_err("no adapter");
    assert!(refused.to_string().contains("fake0"), "{refused}");
}

/// An adapter goes, and a read is begun. Its room, and what it reads.
pub(super) fn unplugged_in_mid_read(
    (a, there): (&mut Side, ConnectionId),
    b: &Side,
    gone: usize,
    impatient: bool,
) -> (Memory, Memory) {
    let into = Memory::of(a, vec![0; 40_000]);
    let offered = Memory::of(b, vec![7; 40_000]);
    net(|net| {
        net.impatient = impatient;
        net.unplug(gone);
    });
    read(a, there, offered.remote(), &into);
    (into, offered)
}

/// The other adapter carries what was begun, also before the peer notices anything.
#[test]
fn an_adapter_that_is_gone_leaves_its_work_to_the_other() {
    for (gone, impatient) in [(0, true), (2, true), (0, false), (2, false)] {
        adapters(&[Nature::PLAIN; 3]);
        let ((mut a, there), (mut b, back)) = pair(two_and_one);
        let (into, offered) = unplugged_in_mid_read((&mut a, there), &b, gone, impatient);
        a.say(there, b"hello").expect("room");
        settle_until(&mut [&mut a, &mut b], "the read", |sides| {
            sides[0].transferred == [Ok(())] && sides[1].from(back) == [b"hello"]
        });
        assert_eq!(into.bytes, offered.bytes);
        assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
    }
}
