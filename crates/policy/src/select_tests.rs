//! What a sender does with what its receiver has said, where that differs from the table.

use super::*;
use crate::RowSource;

/// Whether the receiver has said so.
#[derive(Clone, Copy)]
struct Granted(bool);

impl SendState for Granted {
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
        u64::MAX
    }
    fn is_granted(&self, _: u64) -> bool {
        self.0
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
    assert_eq!(routes.select(LEN, &Granted(false)), SendPlan::Offer);
    let plan = |len| routes.select(len, &Granted(true));
    assert_eq!(plan(LEN), SendPlan::Fragments);
    assert_eq!(plan(LONGEST_RECYCLED), SendPlan::Fragments);
    assert_eq!(plan(LONGEST_RECYCLED + 1), SendPlan::Offer);
}

#[test]
fn what_goes_by_a_path_that_was_asked_for_is_offered() {
    let source = RowSource::Environment("LIMIC_LONG");
    for path in [Path::Cma, Path::Pipeline] {
        let routes = far(&Table::built_in().with_long_path(path, &source));
        let plan = routes.select(128 << 10, &Granted(true));
        assert_eq!(plan, SendPlan::Offer, "{path}");
    }
}
