//! Messages in fragments, where other peers hold the staging pool.

use limic_policy::select::LONGEST_EAGER;

use super::{
    attach_both, fragmenting, is_over, open_fragmenting, open_with, post_receive, tags, turns,
};
use crate::Peer;
use crate::engine::Engine;

/// The endpoint has filled its pool with messages to two peers that compute. What it and a third
/// one send each other arrives, also the answers that wait behind a message that has begun.
#[test]
fn peers_that_take_nothing_leave_room_to_others() {
    // In the second case the first fragments to the two take all.
    for staging_buffers in [128, 2] {
        let data = vec![7_u8; LONGEST_EAGER as usize];
        // One that is offered, and one that goes in fragments.
        let back = [4 * LONGEST_EAGER, LONGEST_EAGER].map(|len| vec![7_u8; len as usize]);
        let mut room = vec![0; back[0].len()];
        let post = |from: &mut Engine, to, tag, data: &[u8]| {
            // SAFETY: the data outlives the endpoints, which are made behind it.
            unsafe { super::post(from, to, tag, data) }
        };
        let [mut sender, mut first, mut second, mut third] =
            [(); 4].map(|()| open_fragmenting(staging_buffers));
        for other in [&mut first, &mut second] {
            let (of_other, _) = attach_both(&mut sender, other);
            for _ in 0..100 {
                let _ = post(&mut sender, of_other, 1, &data);
            }
        }
        let (of_third, of_sender) = attach_both(&mut sender, &mut third);
        let there = post(&mut sender, of_third, 2, &data);
        let backs = back
            .each_ref()
            .map(|data| post(&mut third, of_sender, 3, data));
        // SAFETY: the room outlives the endpoint.
        let receive = unsafe { post_receive(&mut sender, (Peer(of_third), 3), &mut room) };
        turns(10_000, &mut [&mut sender, &mut third]);
        assert!(
            is_over(&sender, &there),
            "{staging_buffers} buffers: it does not go"
        );
        assert_eq!(tags(&mut third, of_sender), [2]);
        for posted in &backs {
            assert!(
                is_over(&third, posted),
                "{staging_buffers} buffers: nor does this one"
            );
        }
        assert!(is_over(&sender, &receive));
        assert_eq!(tags(&mut sender, of_third), [3]);
    }
}

/// The pool is full, and a message to a third peer is a record that no slot of the shared ring
/// holds.
#[test]
fn peers_that_take_nothing_leave_the_shared_ring_to_others() {
    let long = vec![7_u8; LONGEST_EAGER as usize];
    let short = vec![8_u8; 1000];
    let mut room = vec![0; short.len()];
    let [mut sender, mut first, mut second, mut third] =
        [(); 4].map(|()| open_with(|settings| fragmenting(settings, 2).private_rings(0)));
    let post = |from: &mut Engine, to, data: &[u8]| {
        // SAFETY: the data outlives the endpoints, which are made behind it.
        unsafe { super::post(from, to, 1, data) }
    };
    for other in [&mut first, &mut second] {
        let (of_other, _) = attach_both(&mut sender, other);
        for _ in 0..100 {
            let _ = post(&mut sender, of_other, &long);
        }
    }
    let (of_third, of_sender) = attach_both(&mut sender, &mut third);
    // SAFETY: the room outlives the endpoint.
    let receive = unsafe { post_receive(&mut third, (Peer(of_sender), 1), &mut room) };
    let sent = post(&mut sender, of_third, &short);
    turns(10_000, &mut [&mut sender, &mut third]);
    assert!(is_over(&sender, &sent), "it does not go");
    assert!(is_over(&third, &receive));
    assert_eq!(room, short);
}
