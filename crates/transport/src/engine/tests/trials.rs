//! A path on trial that cannot be taken: what comes in its place does not speak for it.

use limic_policy::{Path, PathSet};

use super::{is_over, meet, open_with, post, post_receive, turns, until, wait_for};
use crate::Peer;
use crate::engine::Engine;
use crate::engine::control::autotune;
use crate::engine::peer::pair::ShmPair;

const LEN: usize = 128 << 10;

/// A sender and a receiver that have met, and the number of each at the other.
struct Pair {
    from: Engine,
    to: Engine,
    of_to: u32,
    of_from: u32,
}

impl Pair {
    /// Sends a message before its receive is posted. The receiver does something else for so many
    /// turns while it is under way.
    fn exchange(&mut self, away: u32) {
        let (data, mut room) = (vec![7; LEN], vec![0; LEN]);
        let Self { from, to, .. } = self;
        // SAFETY: it is done when this returns, or the test fails.
        let send = unsafe { post(from, self.of_to, 1, &data) };
        turns(10, &mut [from, to]);
        // SAFETY: as above.
        let receive = unsafe { post_receive(to, (Peer(self.of_from), 1), &mut room) };
        turns(away, &mut [to]);
        until(&mut [from, to], |engines| {
            is_over(engines[0], &send) && is_over(engines[1], &receive)
        });
        assert_eq!(room, data);
    }

    /// What the receiver knows of the sender.
    fn receiver(&mut self) -> &mut ShmPair {
        self.to.cx.peers.pair(self.of_from).expect("shared memory")
    }

    /// Whether each path but the pipeline has lost a try. With one processor none is tried.
    fn is_settled(&mut self) -> bool {
        let pair = self.receiver();
        let paths = pair.conditions.capabilities.paths;
        let autotuner = pair.autotuner.as_ref();
        autotuner.is_none_or(|it| it.is_settled(LEN as u64, Path::Pipeline, paths))
    }
}

#[test]
fn messages_without_a_key_do_not_speak_for_the_kernel_module() {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    let open = || open_with(|with| with.allowed(paths.with(Path::Pipeline)));
    let (from, to, of_to, of_from) = meet(open(), open());
    let mut pair = Pair {
        from,
        to,
        of_to,
        of_from,
    };
    wait_for(|| {
        pair.exchange(1000);
        pair.is_settled()
    });
    // There is none here: what the receiver wants by it comes in fragments, and faster than before.
    let paths = &mut pair.receiver().conditions.capabilities.paths;
    *paths = paths.with(Path::Kmod);
    wait_for(|| {
        pair.exchange(0);
        assert!(autotune::tuned(&pair.to.cx).is_empty(), "it moved nothing");
        pair.is_settled()
    });
}
