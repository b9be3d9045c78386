//! An endpoint closes in good order.

use core::time::Duration;
use std::os::fd::AsFd;

use limic_shm::control::Sent;

use super::{accessed_region, meet, met, open, open_with, pending, post, post_receive, until};
use crate::engine::protocol::{attempt, receive};
use crate::error::PeerFailure;
use crate::raw::Posted;
use crate::{Error, Selector};

/// Its goodbye finds a full queue, and a forked child holds its sockets.
#[test]
fn an_endpoint_that_closes_is_missed_though_its_goodbye_has_no_room() {
    let (mut leaving, mut left, _, of_leaving) =
        meet(open_with(|with| with.linger(Duration::ZERO)), open(0));
    let connection = leaving.cx.sockets.iter().next().expect("a connection");
    let held = connection.socket.as_fd().try_clone_to_owned();
    while let Ok(Sent::Done) = connection.socket.send(&[99; 4], &[]) {}
    leaving.close();
    until(&mut [&mut left], |engines| {
        !engines[0].cx.peers.is_alive(of_leaving)
    });
    drop(held);
}

/// The places of regions are given anew, and handles of those before the end are still there.
#[test]
fn a_closed_endpoint_exposes_nothing() {
    let mut engine = open(0);
    let (before, _) = engine.expose(vec![1; 8]).expect("a region");
    engine.close();
    let refused = PeerFailure::Closed.of(engine.myself());
    assert_eq!(engine.expose(vec![2; 8]), Err(refused));
    assert_eq!(engine.revoke(before), Err(Error::UnknownRequest));
}

/// Its memory is not free while a peer writes there.
#[test]
fn a_region_that_a_peer_accesses_is_taken_back_from_a_closed_endpoint() {
    let (mut owner, peer, ..) = met(1);
    let (region, end_access) = accessed_region(&mut owner, &peer);
    let (unused, _) = owner.expose(vec![2; 8]).expect("a region");
    owner.close();
    assert_eq!(owner.try_revoke(region), Ok(None));
    assert_eq!(owner.try_revoke(unused), Err(Error::UnknownRequest));
    end_access();
    assert_eq!(owner.try_revoke(region), Ok(Some(vec![1; 100])));
    assert_eq!(owner.try_revoke(region), Err(Error::UnknownRequest));
}

/// What a peer still has mapped of a closed endpoint names no memory any more.
#[test]
fn a_closed_endpoint_withdraws_what_it_exposed() {
    let (mut owner, mut peer, _, of_owner) = met(1);
    let (_, key) = owner.expose(vec![1; 8]).expect("a region");
    let pair = peer.cx.peers.pair(of_owner).expect("shared memory");
    assert!(pair.regions.table.look(0, key).is_some());
    owner.close();
    assert_eq!(pair.regions.table.look(0, key), None);
}

#[test]
fn a_claimed_message_to_itself_is_lost_with_its_endpoint() {
    let data = vec![7_u8; 4 << 20];
    let mut engine = open(0);
    let me = engine.myself();
    // SAFETY: the data outlives the endpoint.
    let Posted::Pending(send) = (unsafe { post(&mut engine, me.0, 1, &data) }) else {
        panic!("it is too long to be kept");
    };
    let claimed = engine.claim(&Selector::any()).expect("a message");
    let (_, claim) = claimed.expect("a message");
    engine.close();
    let lost = PeerFailure::Closed.of(me);
    assert_eq!(engine.test(send), Some(Err(lost.clone())));
    // SAFETY: there are no slices.
    let received = unsafe { receive::post_claimed(&mut engine.cx, claim, &[]) };
    assert!(
        matches!(&received, Ok(Posted::Done(Err(why))) if *why == lost),
        "{received:?}"
    );
}

/// The word that it was received waits for room in the sender's ring, which is full.
#[test]
fn a_send_that_was_received_ends_well_though_its_receiver_closes() {
    let patient = |settings: crate::settings::SettingsBuilder| {
        settings.private_rings(0).linger(Duration::from_secs(600))
    };
    let (mut receiver, mut sender, of_sender, at_sender) = meet(open_with(patient), open(0));
    let (data, mut room) = (vec![7_u8; 1 << 20], vec![0_u8; 1 << 20]);
    // SAFETY: the data outlives the endpoint.
    let send = pending(unsafe { post(&mut sender, at_sender, 1, &data) });
    sender.progress();
    // SAFETY: there are no slices.
    while unsafe { attempt::whole(&mut receiver.cx, of_sender, 2, None, &[]) } {}
    // SAFETY: the room outlives the endpoint.
    let receive = pending(unsafe { post_receive(&mut receiver, Selector::any(), &mut room) });
    while !receiver.cx.requests.is_over(receive) {
        receiver.progress();
    }
    assert!(
        receiver.cx.peers.backlogged(0).is_some(),
        "the ring is full"
    );
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sender.wait(send));
        receiver.close();
        waiting.join().expect("no panic")
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    drop((receiver, sender));
    assert_eq!(room, data);
}
