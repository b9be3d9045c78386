//! Long messages one way: which of them are offered.

use super::staging::eager;
use super::{fragmenting, is_over, meet, open_with, post, post_receive, tags, turns, until};
use crate::Peer;
use crate::engine::Engine;

const LEN: usize = 128 << 10;
const WINDOW: u8 = 8;

/// Two endpoints that have met, and the number of each at the other.
struct Stream {
    from: Engine,
    to: Engine,
    of_to: u32,
    of_from: u32,
}

impl Stream {
    fn new() -> Self {
        // Nothing is measured, so no other path is to be tried first.
        let open = || open_with(|settings| fragmenting(settings, 128).autotune(false));
        let (from, to, of_to, of_from) = meet(open(), open());
        Self {
            from,
            to,
            of_to,
            of_from,
        }
    }

    /// Sends a window of messages, which are received two by two, each into its own room.
    fn window(&mut self) {
        let data: Vec<_> = (0..WINDOW).map(|fill| vec![fill; LEN]).collect();
        let mut rooms = vec![vec![0; LEN]; data.len()];
        let (of_to, of_from) = (self.of_to, self.of_from);
        let Self { from, to, .. } = self;
        // SAFETY: all are done when this returns, or the test fails.
        let sends: Vec<_> = data
            .iter()
            .map(|data| unsafe { post(from, of_to, 1, data) })
            .collect();
        for two in rooms.chunks_mut(2) {
            // SAFETY: as above.
            let receives: Vec<_> = two
                .iter_mut()
                .map(|room| unsafe { post_receive(to, (Peer(of_from), 1), room) })
                .collect();
            until(&mut [from, to], |engines| {
                receives.iter().all(|receive| is_over(engines[1], receive))
            });
        }
        until(&mut [from, to], |engines| {
            sends.iter().all(|send| is_over(engines[0], send))
        });
        assert_eq!(rooms, data, "each in its turn");
    }

    /// Sends one message, before or after its receive is posted.
    fn one(&mut self, len: usize, expected: bool) {
        let (data, mut room) = (vec![3; len], vec![0; len]);
        let (of_to, at) = (self.of_to, (Peer(self.of_from), 1));
        let Self { from, to, .. } = self;
        // SAFETY: both are done when this returns, or the test fails.
        let (send, receive) = unsafe {
            if expected {
                let receive = post_receive(to, at, &mut room);
                (post(from, of_to, 1, &data), receive)
            } else {
                let send = post(from, of_to, 1, &data);
                turns(100, &mut [from, to]);
                (send, post_receive(to, at, &mut room))
            }
        };
        until(&mut [from, to], |engines| {
            is_over(engines[0], &send) && is_over(engines[1], &receive)
        });
        assert_eq!(room, data);
    }

    /// Sends a message for which nobody waits, and gives everybody time for it. Its bytes stay for
    /// ever.
    fn too_early(&mut self) {
        let data: &'static [u8] = vec![9; LEN].leak();
        // SAFETY: the data stays for ever.
        let _ = unsafe { post(&mut self.from, self.of_to, 7, data) };
        turns(100, &mut [&mut self.from, &mut self.to]);
    }
}

#[test]
fn a_stream_is_offered_until_its_receiver_takes_it_as_it_comes() {
    let mut stream = Stream::new();
    stream.window();
    assert_eq!(eager(&stream.from), 0, "all were sent at once");
    for windows in 1..10 {
        stream.window();
        assert_eq!(eager(&stream.from), windows * u64::from(WINDOW));
    }
}

#[test]
fn messages_one_at_a_time_before_their_receives_are_offered() {
    let mut stream = Stream::new();
    for _ in 0..50 {
        stream.one(LEN, false);
    }
    assert_eq!(eager(&stream.from), 0);
}

#[test]
fn messages_one_at_a_time_for_which_a_receive_waits_are_offered_once() {
    let mut stream = Stream::new();
    for _ in 0..50 {
        stream.one(LEN, true);
    }
    assert_eq!(eager(&stream.from), 49);
}

#[test]
fn what_the_receiver_has_said_holds_for_messages_about_as_long() {
    let mut stream = Stream::new();
    stream.one(LEN, true);
    for (len, unasked) in [
        (LEN - 1, 0),
        (2 * LEN, 0),
        (2 * LEN - 1, 1),
        (LEN, 2),
        (2 * LEN + 1, 3),
    ] {
        stream.one(len, true);
        assert_eq!(eager(&stream.from), unasked, "{len} bytes");
    }
}

#[test]
fn a_stream_is_offered_again_if_its_receiver_is_not_there() {
    let mut stream = Stream::new();
    stream.window();
    stream.window();
    let before = eager(&stream.from);
    stream.too_early();
    assert_eq!(eager(&stream.from), before + 1);
    stream.too_early();
    assert_eq!(
        eager(&stream.from),
        before + 1,
        "the first one was too much"
    );
    assert_eq!(tags(&mut stream.to, stream.of_from), [7, 7]);
    stream.window();
    assert_eq!(eager(&stream.from), before + 1, "not at once");
    for _ in 0..20 {
        stream.window();
    }
    assert!(eager(&stream.from) > before + u64::from(WINDOW));
}
