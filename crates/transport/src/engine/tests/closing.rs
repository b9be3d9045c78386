//! An endpoint closes in good order.

use core::time::Duration;

use super::{attach_both, open, open_with};
use crate::engine::protocol::{receive, send};
use crate::error::PeerFailure;
use crate::raw::{Posted, RawSlice, RawSliceMut, SendOptions};
use crate::{Error, Selector};

/// The places of regions are given anew, and handles of those before the end are still there.
#[test]
fn a_closed_endpoint_exposes_nothing() {
    let mut engine = open(0);
    let (before, _) = engine.expose(vec![1; 8]).expect("a region");
    engine.close();
    let refused = Error::PeerFailed {
        peer: engine.myself(),
        why: PeerFailure::Closed,
    };
    assert_eq!(engine.expose(vec![2; 8]), Err(refused));
    assert_eq!(engine.revoke(before), Err(Error::UnknownRequest));
}

/// The word that it was received waits for room in the sender's ring, which is full.
#[test]
fn a_send_that_was_received_ends_well_though_its_receiver_closes() {
    let patient = |settings: crate::settings::SettingsBuilder| {
        settings.private_rings(0).linger(Duration::from_secs(600))
    };
    let (mut receiver, mut sender) = (open_with(patient), open(0));
    let (of_sender, at_sender) = attach_both(&mut receiver, &mut sender);
    let (data, mut room) = (vec![7_u8; 1 << 20], vec![0_u8; 1 << 20]);
    // SAFETY: the data outlives the endpoint.
    let sent = unsafe {
        let data = [RawSlice::from(&data[..])];
        sender.post_send_slow(at_sender, 1, SendOptions::default(), &data)
    };
    let Ok(Posted::Pending(send)) = sent else {
        panic!("a long message is offered: {sent:?}");
    };
    sender.progress();
    // SAFETY: there are no slices.
    while unsafe { send::try_send(&mut receiver.cx, of_sender, 2, None, &[]) }.expect("alive") {}
    // SAFETY: the room outlives the endpoint.
    let posted = unsafe {
        let room = [RawSliceMut::from(&mut room[..])];
        receive::post_recv(&mut receiver.cx, &Selector::any(), &room, 0)
    };
    let Ok(Posted::Pending(receive)) = posted else {
        panic!("nothing has come yet: {posted:?}");
    };
    while !receiver
        .cx
        .requests
        .find(receive)
        .is_some_and(|slot| receiver.cx.requests.is_done(slot))
    {
        receiver.progress();
    }
    assert!(!receiver.cx.peers.backlogged.is_empty(), "the ring is full");
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sender.wait(send));
        receiver.close();
        waiting.join().expect("no panic")
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    drop((receiver, sender));
    assert_eq!(room, data);
}
