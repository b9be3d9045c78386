//! One-sided access with the owner's help.

use super::{attach_both, open_with, turn};
use crate::engine::protocol::{regions, rma};
use crate::policy::{Path, PathSet};
use crate::raw::{Posted, RawSlice, RawSliceMut};

const LEN: usize = 200_000;

#[test]
fn access_with_the_owners_help_counts_at_the_side_that_asked() {
    let open = || open_with(|with| with.allowed(PathSet::EMPTY.with(Path::Pipeline)));
    let (mut owner, mut peer) = (open(), open());
    let (_, of_owner) = attach_both(&mut owner, &mut peer);
    let (_, key) = regions::expose(&mut owner.cx, vec![1; LEN]).expect("a region");
    let (data, mut room) = (vec![2_u8; LEN], vec![0_u8; LEN]);
    // SAFETY: both outlive the accesses, which are waited for.
    let posted = unsafe {
        [
            rma::post_read(
                &mut peer.cx,
                of_owner,
                key,
                0,
                &[RawSliceMut::from(&mut room[..])],
            ),
            rma::post_write(&mut peer.cx, of_owner, key, 0, &[RawSlice::from(&data[..])]),
        ]
    };
    for posted in posted {
        let Ok(Posted::Pending(id)) = posted else {
            panic!("the owner has to help: {posted:?}");
        };
        let outcome = loop {
            turn(&mut [&mut owner, &mut peer]);
            if let Some(outcome) = peer.test(id) {
                break outcome;
            }
        };
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let counters = [&owner, &peer].map(|engine| engine.cx.counters.page().counters);
    let messages = counters.map(|counters| {
        let all = |paths: &[(Path, crate::counters::Traffic)]| -> u64 {
            paths.iter().map(|(_, traffic)| traffic.messages).sum()
        };
        (all(&counters.sent_paths), all(&counters.received_paths))
    });
    assert_eq!(messages, [(0, 0), (1, 1)]);
}
