//! Messages in fragments, where other peers hold the staging pool.

use limic_policy::select::LONGEST_EAGER;

use super::{attach_both, open_fragmenting, tags, turn};
use crate::engine::Engine;
use crate::engine::protocol::receive;
use crate::raw::Posted;
use crate::{Peer, Selector};

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
        let receive = unsafe {
            let room = [crate::raw::RawSliceMut::from(&mut room[..])];
            let selector = Selector::from((Peer(of_third), crate::Tag(3)));
            receive::post_recv(&mut sender.cx, &selector, &room, 0)
        };
        for _ in 0..10_000 {
            turn(&mut [&mut sender, &mut third]);
        }
        let done = |engine: &Engine, posted: &Posted| match posted {
            Posted::Done(outcome) => outcome.is_ok(),
            Posted::Pending(id) => engine.cx.requests.is_over(*id),
        };
        assert!(
            done(&sender, &there),
            "{staging_buffers} buffers: it does not go"
        );
        assert_eq!(tags(&mut third, of_sender), [2]);
        for posted in &backs {
            assert!(
                done(&third, posted),
                "{staging_buffers} buffers: nor does this one"
            );
        }
        assert!(done(&sender, &receive.expect("alive")));
        assert_eq!(tags(&mut sender, of_third), [3]);
    }
}
