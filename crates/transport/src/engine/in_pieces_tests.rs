use super::super::Engine;
use super::super::test_peers::{self, meet, open_in_pieces, tags, turn};
use super::*;
use crate::raw::Posted;
use crate::{Peer, Selector};

/// The endpoint has filled its pool with messages to two peers that compute. What it and a third one send each other arrives,
/// also the answers that stand behind a message that has begun.
#[test]
fn peers_that_take_nothing_leave_room_to_others() {
    // In the second case the first pieces of the two take all.
    for chunks in [128, 2] {
        let data = vec![7_u8; LONGEST as usize];
        // One that is offered, and one that goes in pieces.
        let back = [4 * LONGEST, LONGEST].map(|len| vec![7_u8; len as usize]);
        let mut room = vec![0; back[0].len()];
        let post = |from: &mut Engine, to, tag, data: &[u8]| {
            // SAFETY: the data outlives the endpoints, which are made behind it.
            unsafe { test_peers::post(from, to, tag, data) }
        };
        let [mut sender, mut first, mut second, mut third] =
            [(); 4].map(|()| open_in_pieces(chunks));
        for other in [&mut first, &mut second] {
            let (of_other, _) = meet(&mut sender, other);
            for _ in 0..100 {
                let _ = post(&mut sender, of_other, 1, &data);
            }
        }
        let (of_third, of_sender) = meet(&mut sender, &mut third);
        let there = post(&mut sender, of_third, 2, &data);
        let backs = back
            .each_ref()
            .map(|data| post(&mut third, of_sender, 3, data));
        // SAFETY: the room outlives the endpoint.
        let receive = unsafe {
            let room = [crate::raw::RawSliceMut::from(&mut room[..])];
            let selector = Selector::from((Peer(of_third), crate::Tag(3)));
            sender.core.post_recv(&selector, &room, 0)
        };
        for _ in 0..10_000 {
            turn(&mut [&mut sender, &mut third]);
        }
        let done = |engine: &Engine, posted: &Posted| match posted {
            Posted::Done(outcome) => outcome.is_ok(),
            Posted::Pending(id) => engine.is_done(*id),
        };
        assert!(done(&sender, &there), "{chunks} chunks: it does not go");
        assert_eq!(tags(&mut third, of_sender), [2]);
        for posted in &backs {
            assert!(done(&third, posted), "{chunks} chunks: nor does this one");
        }
        assert!(done(&sender, &receive.expect("alive")));
        assert_eq!(tags(&mut sender, of_third), [3]);
    }
}
