//! Streams and connections end, and others go on.

use super::{Side, on, pair, settle};
use crate::fake::{Nature, adapters};

/// Adapters give the number of a queue pair to the next one.
#[test]
fn packets_of_a_dead_connection_are_not_its_successors() {
    for cleans in [false, true] {
        adapters(
            &[Nature {
                cleans,
                ..Nature::PLAIN
            }; 2],
        );
        let ((mut a, there), (mut b, back)) = pair(on);
        let mut c = Side::open(3, on("fake1"));
        b.say(back, b"of the dead").expect("room");
        b.progress();
        a.fabric.disconnect(there);
        let next = a.connect(&c);
        settle(&mut [&mut a, &mut c]);
        c.say(c.connected[0], b"of the living").expect("room");
        settle(&mut [&mut a, &mut c]);
        assert_eq!(a.from(next), [b"of the living"]);
        assert_eq!((a.came.len(), a.failed), (1, vec![]));
    }
}
