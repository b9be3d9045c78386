//! Who owns the buffers of operations under way: scopes, owned requests, loans, regions, claimed
//! messages. Over an endpoint on the heap, so that Miri sees each access.

mod loopback;
mod state;

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loopback::Loopback;

use crate::{
    Endpoint, Error, Peer, Selector, wait_all, wait_all_timeout, wait_any, wait_some,
    wait_some_timeout,
};

const ME: Peer = Peer(0);

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| seed.wrapping_add(at as u8)).collect()
}

#[test]
fn owned_buffers_go_and_come_back_wherever_their_handles_move() {
    let endpoint = Loopback::default();
    let send = Box::new(endpoint.isend(ME, 1, bytes(1, 100)).unwrap());
    let mut receives = vec![endpoint.irecv((ME, 1), vec![0; 100]).unwrap()];
    receives.reserve(100);
    let receive = receives.remove(0);
    let (status, found) = receive.wait().unwrap();
    assert_eq!((status.len, found), (100, bytes(1, 100)));
    assert_eq!(send.wait().unwrap(), bytes(1, 100));
}

#[test]
fn a_message_that_is_too_long_gives_the_room_back() {
    let endpoint = Loopback::default();
    let mut send = endpoint.isend(ME, 1, bytes(1, 100)).unwrap();
    let receive = endpoint.irecv((ME, 1), vec![0; 10]).unwrap();
    let (outcome, found) = receive.wait_buffer();
    assert!(matches!(outcome, Err(Error::Truncated { .. })));
    assert_eq!(found, bytes(1, 10));
    assert!(send.test());
}

#[test]
fn dropped_handles_leave_their_buffers_until_the_end() {
    let endpoint = Loopback::default();
    drop(endpoint.isend(ME, 1, bytes(1, 100)).unwrap());
    drop(endpoint.irecv((ME, 2), vec![0; 100]).unwrap());
    drop(endpoint.isend(ME, 2, bytes(2, 100)).unwrap());
    let mut found = [0; 100];
    endpoint.recv((ME, 1), &mut found).unwrap();
    assert_eq!(found[..], bytes(1, 100));
    while endpoint.progress() {}
    assert_eq!(endpoint.probe(Selector::any()), Ok(None));
}

#[test]
fn a_leaked_handle_frees_nothing() {
    let endpoint = Loopback::default();
    let receive = endpoint.irecv((ME, 1), vec![0; 8]).unwrap();
    // Its buffer is never freed, so that the message that comes has room.
    let leaked = Box::leak(Box::new(receive));
    endpoint.send(ME, 1, &bytes(1, 8)).unwrap();
    assert!(leaked.test());
    // SAFETY: made by `Box::leak`, and not used any more. Miri reports memory that is leaked.
    drop(unsafe { Box::from_raw(leaked) });
}

#[test]
fn cancelled_operations_give_their_buffers_back() {
    let endpoint = Loopback::default();
    let receive = endpoint.irecv((ME, 1), bytes(3, 50)).unwrap();
    let send = endpoint.isend(ME, 2, bytes(4, 50)).unwrap();
    receive.cancel().unwrap();
    send.cancel().unwrap();
    assert_eq!(receive.wait_buffer(), (Err(Error::Cancelled), bytes(3, 50)));
    assert_eq!(send.wait_buffer(), (Err(Error::Cancelled), bytes(4, 50)));
}

#[test]
fn lists_of_handles_give_each_its_own_buffer() {
    let endpoint = Loopback::default();
    let receive = |tag: u64| endpoint.irecv((ME, tag), vec![0; 30]).unwrap();
    let send = |tag: u64| endpoint.isend(ME, tag, bytes(tag as u8, 30)).unwrap();
    let mut receives: Vec<_> = (0..4).map(receive).collect();
    let sends: Vec<_> = (0..4).rev().map(send).collect();
    let (first, (outcome, found)) = wait_any(&endpoint, &mut receives).unwrap();
    let tag = outcome.unwrap().tag.0;
    assert_eq!((first as u64, found), (tag, bytes(tag as u8, 30)));
    let mut left = wait_some(&endpoint, &mut receives);
    left.extend(wait_some_timeout(&endpoint, &mut receives, Duration::MAX));
    assert!(wait_all_timeout(&mut receives, Duration::MAX));
    let left = left.into_iter().map(|(_, result)| result);
    for (outcome, found) in left.chain(wait_all(receives)) {
        assert_eq!(found, bytes(outcome.unwrap().tag.0 as u8, 30));
    }
    for (tag, (outcome, data)) in (0..4).rev().zip(wait_all(sends)) {
        assert_eq!((outcome.is_ok(), data), (true, bytes(tag, 30)));
    }
}

#[test]
fn a_scope_lends_what_lives_outside_of_it() {
    let endpoint = Loopback::default();
    let data = bytes(7, 64);
    let (mut first, mut second) = ([0; 32], [0; 64]);
    endpoint
        .scope(|scope| {
            let (head, tail) = first.split_at_mut(16);
            let one = scope.irecv((ME, 1), head)?;
            let two = scope.irecv((ME, 2), tail)?;
            // These two are left to the end of the scope.
            scope.irecv((ME, 3), &mut second)?;
            scope.isend_vectored(ME, 3, [&data[..10], &data[10..]])?;
            scope.isend(ME, 2, &data[16..32])?;
            scope.isend(ME, 1, &data[..16])?;
            let (_, tail) = two.wait()?;
            tail[0] ^= 0xff;
            let (_, head) = one.wait()?;
            assert_eq!(head, &data[..16]);
            Ok(())
        })
        .unwrap();
    first[16] ^= 0xff;
    assert_eq!((&first[..], &second[..]), (&data[..32], &data[..]));
}

#[test]
fn a_scope_that_fails_or_panics_takes_its_borrows_back() {
    let endpoint = Loopback::default();
    let mut room = [5; 16];
    let failed = endpoint.scope(|scope| {
        scope.irecv((ME, 1), &mut room)?;
        Err::<(), _>(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    room[0] = 6;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        endpoint.scope(|scope| -> crate::Result<()> {
            scope.irecv((ME, 1), &mut room)?;
            resume_unwind(Box::new("in a scope"))
        })
    }));
    assert!(panicked.is_err());
    room[1] = 7;
    // Neither of the two receives is left.
    endpoint
        .scope(|scope| scope.isend(ME, 1, &[1; 16])?.cancel())
        .unwrap_err();
    assert_eq!(room[..3], [6, 7, 5]);
}

#[test]
fn loans_are_written_sent_and_read_in_place() {
    let endpoint = Loopback::default();
    let mut loan = endpoint.loan(100).unwrap();
    loan.copy_from_slice(&bytes(1, 100));
    loan[0] ^= 1;
    let send = loan.isend_first(60, ME, 4).unwrap();
    let loaned = endpoint.recv_loaned((ME, 4)).unwrap();
    assert!(send.wait().is_ok());
    // It moves, also to another thread, with its bytes where they are.
    let moved = std::thread::spawn(move || {
        let loaned = Box::new(loaned);
        let mut part = [0; 4];
        loaned.copy_to(56, &mut part).unwrap();
        assert!(loaned.copy_to(57, &mut part).is_err());
        assert_eq!(part[..], bytes(57, 4));
        let first = loaned.bytes()[0].load();
        (first, loaned.to_vec())
    });
    let (first, all) = moved.join().unwrap();
    assert_eq!((first, all.len()), (0, 60));
    drop(endpoint.loan(10).unwrap());
    drop(endpoint.loan(8).unwrap().isend(ME, 5).unwrap());
    assert_eq!(endpoint.recv_loaned((ME, 5)).unwrap().len(), 8);
    assert_eq!(endpoint.kept(), 0);
}

#[test]
fn claimed_messages_are_received_or_thrown_away() {
    let endpoint = Loopback::default();
    let sends: Vec<_> = (0..3)
        .map(|n| endpoint.isend(ME, 1, bytes(n, 20)).unwrap())
        .collect();
    let claim = || endpoint.matched_probe((ME, 1)).unwrap().expect("a message");
    let (first, second, third) = (claim(), claim(), claim());
    assert_eq!(second.recv_vec().unwrap(), bytes(1, 20));
    drop(first);
    let mut room = [0; 20];
    third.recv(&mut room).unwrap();
    assert_eq!(room[..], bytes(2, 20));
    assert!(wait_all(sends).iter().all(|(outcome, _)| outcome.is_ok()));
}

#[test]
fn regions_are_read_and_written_by_copies() {
    let endpoint = Loopback::default();
    let region = endpoint.region(bytes(0, 64)).unwrap();
    let mut found = [0; 4];
    region.read_at(60, &mut found).unwrap();
    assert_eq!(found[..], bytes(60, 4));
    region.write_at(0, &[9; 4]).unwrap();
    let read = endpoint.iread(ME, region.key(), 0, vec![0; 8]).unwrap();
    let write = endpoint.iwrite(ME, region.key(), 8, vec![8; 8]).unwrap();
    assert_eq!(read.wait().unwrap().1, [9, 9, 9, 9, 4, 5, 6, 7]);
    drop(write);
    let outside = endpoint.iread(ME, region.key(), 60, vec![0; 8]);
    assert!(matches!(outside, Err(Error::OutOfRegion { .. })));
    assert_eq!(region.revoke().unwrap()[6..12], [6, 7, 8, 8, 8, 8]);
    drop(endpoint.region(vec![1; 10]).unwrap());
    assert_eq!(endpoint.kept(), 0);
}
