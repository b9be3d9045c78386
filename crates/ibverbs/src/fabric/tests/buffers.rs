//! Buffers come back: of packets to many peers, and of connections that end.

use super::{on, pair, settle};
use crate::fake::{Nature, adapters, net};

/// Packets that nobody has looked at when their connection ends lie in receives.
#[test]
fn receives_of_a_connection_that_ends_are_lent_again() {
    for cleans in [false, true] {
        adapters(
            &[Nature {
                cleans,
                ..Nature::PLAIN
            }; 2],
        );
        let ((mut a, there), (mut b, back)) = pair(on);
        let lent = net(|net| net.lent(0));
        for number in 0..5 {
            b.say(back, &[number; 600]).expect("room");
            b.progress();
        }
        assert_eq!(net(|net| net.lent(0)), lent - 5);
        a.fabric.disconnect(there);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(net(|net| net.lent(0)), lent, "the adapter cleans: {cleans}");
        assert_eq!(a.came, []);
    }
}
