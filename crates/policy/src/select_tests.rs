//! What a sender does with what its receiver has said, where that differs from the table.

use super::*;
use crate::RowSource;

/// What a sender knows: whether the receiver has said so, and whether it has buffers for replies.
#[derive(Clone, Copy)]
struct Knows {
    granted: bool,
    replies: bool,
}

impl Knows {
    const fn granted(granted: bool) -> Self {
        Self {
            granted,
            replies: true,
        }
    }
}

impl SendState for Knows {
    fn is_over_budget(&self) -> bool {
        false
    }
    fn is_slow(&self) -> bool {
        false
    }
    fn is_full(&self) -> bool {
        false
    }
    fn is_peer_readable(&self) -> bool {
        false
    }
    fn may_recycle(&self, _: u64) -> bool {
        false
    }
    fn reply_bytes(&self) -> u64 {
        // Buffers hold more than that, from other messages.
        if self.replies { u64::MAX } else { 0 }
    }
    fn is_granted(&self, _: u64) -> bool {
        self.granted
    }
    fn reply_credit(&self) -> u64 {
        0
    }
}

/// The routes between far cores of a package that share a cache: by split copy, the table says.
fn far(table: &Table) -> Routes {
    Routes::new(&Pair {
        table,
        locality: Locality::SamePackage,
        far_by_memory: false,
        capabilities: Capabilities::ALL,
        longest_record: LONGEST_RECORD,
        fragment_bytes: crate::PIPELINE_FRAGMENT,
        buffer_bytes: 32 << 10,
        window: 8,
        unexpected_budget: 16 << 20,
    })
}

#[test]
fn what_the_receiver_takes_as_it_comes_needs_no_offer_whatever_the_table_says() {
    const LEN: u64 = 128 << 10;
    let routes = far(&Table::built_in());
    assert_eq!(routes.select(LEN, &Knows::granted(false)), SendPlan::Offer);
    let plan = |len| routes.select(len, &Knows::granted(true));
    assert_eq!(plan(LEN), SendPlan::Fragments);
    assert_eq!(plan(LONGEST_RECYCLED), SendPlan::Fragments);
    assert_eq!(plan(LONGEST_RECYCLED + 1), SendPlan::Offer);
}

#[test]
fn between_far_cores_replies_are_offered_as_streams_are() {
    const LONGEST: u64 = 48 << 10;
    let routes = far(&Table::built_in());
    for replies in [true, false] {
        let state = Knows {
            granted: false,
            replies,
        };
        assert_eq!(routes.select(LONGEST, &state), SendPlan::Fragments);
        assert_eq!(routes.select(LONGEST + 1, &state), SendPlan::Offer);
    }
}

#[test]
fn what_goes_by_a_path_that_was_asked_for_is_offered() {
    let source = RowSource::Environment("LIMIC_LONG");
    for path in [Path::Cma, Path::Pipeline] {
        let routes = far(&Table::built_in().with_long_path(path, &source));
        let plan = routes.select(128 << 10, &Knows::granted(true));
        assert_eq!(plan, SendPlan::Offer, "{path}");
    }
}

#[test]
fn both_sides_copy_what_is_long_where_the_table_says_split_copy() {
    let table = Table::built_in();
    let is_shared = |path, len, locality| {
        let offered = Offered {
            len,
            vectored: false,
            peer_readable: path == Path::PeerReadable,
            whole: true,
            pace: ReceiverPace::Steady,
        };
        is_shared(&table, &offered, path, locality, Capabilities::ALL)
    };
    let far = Locality::SamePackage;
    assert!(is_shared(Path::SplitCopy, 64 << 10, far));
    assert!(!is_shared(Path::Cma, 4 << 20, far));
    assert!(is_shared(Path::PeerReadable, SHORTEST_SHARED, far));
    assert!(!is_shared(Path::PeerReadable, SHORTEST_SHARED - 1, far));
    assert!(!is_shared(
        Path::PeerReadable,
        4 << 20,
        Locality::SharedCache
    ));
}
