use super::super::test_peers::{meet, open, send, tags, turn};
use crate::counters::Event;
use crate::raw::{RawSlice, RawSliceMut};
use crate::{Peer, Selector, Tag};

#[test]
fn a_message_with_a_word_that_a_receive_waits_for_is_not_unexpected() {
    let (mut receiver, mut sender) = (open(1), open(1));
    let (of_sender, at_sender) = meet(&mut receiver, &mut sender);
    for _ in 0..10 {
        send(&mut sender, at_sender, 1);
        turn(&mut [&mut receiver, &mut sender]);
    }
    assert_eq!(tags(&mut receiver, of_sender).len(), 10);
    assert!(receiver.inputs.private_ring_of(of_sender).is_some());
    let before = receiver.core.tally.page().counters.event(Event::Unexpected);
    let (data, mut room) = ([5_u8; 8], [0_u8; 8]);
    // SAFETY: both outlive the calls, after which they are done.
    let received = unsafe {
        let data = [RawSlice::from(&data[..])];
        let sent = sender.core.send_at_once(at_sender, 2, Some(77), &data);
        assert_eq!(sent, Ok(true));
        let room = [RawSliceMut::from(&mut room[..])];
        receiver.recv_blocking(&Selector::from((Peer(of_sender), Tag(2))), &room)
    };
    assert_eq!(received.expect("it was sent").immediate, Some(77));
    assert_eq!(room, data);
    let unexpected = receiver.core.tally.page().counters.event(Event::Unexpected);
    assert_eq!(unexpected, before);
}
