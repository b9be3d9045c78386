//! The rows that limic is built with.
//!
//! They hold for a machine that nobody has measured, and follow from how long a cache line takes
//! from one core to the other (`super::line_latency`). Where two cores share a cache, two
//! overlapped copies beat any single copy, which pays per page. Up to 64 KiB the answer to an offer
//! would take a good part of that time, so these go eagerly. Where they share none, each hand-over
//! costs more than the copy of a line, and a copy by both sides wins; up to 48 KiB the answer to an
//! offer costs more still. A host's own figures belong into a profile ([`RowSource::Profile`]),
//! which wins over these rows. docs/decisions/0010 has what was measured.

use std::borrow::Cow;

use super::{Locality, Path, ReceiverPace, Row, RowSource};

/// Bytes of payload that fit a ring slot's first cache line beside the header.
pub const INLINE_CAPACITY: u64 = 48;

/// Bytes of a fragment of the pipeline, unless a setting asks for others.
pub const PIPELINE_FRAGMENT: u32 = 32 << 10;
/// Longest fragment of the pipeline that a setting may ask for, in bytes.
pub const MAX_FRAGMENT: u32 = 16 << 20;
/// Shortest fragment of the pipeline that a setting may ask for, in bytes.
pub const MIN_FRAGMENT: u32 = 1 << 10;

/// Eager limit towards a receiver that lags, in bytes. What does not fit the ring lies in an
/// arena of the sender: several times the usual limit, and short enough that a budget of megabytes
/// holds many.
pub const SLOW_RECEIVER_EAGER: u64 = 256 << 10;

/// A row of long messages: up to how many bytes, by which path, and why.
type LongRow = (u64, Path, &'static str);

/// Every built-in row, in no particular order.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |locality, when, up_to_bytes, path, reason: &'static str| {
        rows.push(Row {
            locality,
            when,
            up_to_bytes,
            path,
            source: RowSource::BuiltIn,
            reason: Cow::Borrowed(reason),
        });
    };
    const ALL: u64 = u64::MAX;
    const INLINE: &str = "fits the slot's first cache line: one line moves";

    for when in ReceiverPace::ALL {
        row(
            Locality::Itself,
            when,
            ALL,
            Path::SelfCopy,
            "one plain copy, no ring",
        );
    }
    for when in [ReceiverPace::Steady, ReceiverPace::Slow] {
        let locality = Locality::SameProcess;
        row(locality, when, INLINE_CAPACITY, Path::Inline, INLINE);
        row(
            locality,
            when,
            if when == ReceiverPace::Slow {
                SLOW_RECEIVER_EAGER
            } else {
                4 << 10
            },
            Path::Eager,
            "the sender is done at once; a second copy this short costs less than waiting",
        );
        row(
            locality,
            when,
            ALL,
            Path::SameProcess,
            "one plain copy out of the sender's buffer: same address space",
        );
    }
    const NEAR: &[LongRow] = &[(
        ALL,
        Path::Pipeline,
        "two overlapped copies through the shared cache; cross-memory attach pays per page",
    )];
    const FAR: &[LongRow] = &[(
        ALL,
        Path::SplitCopy,
        "one copy, by two cores: each line crosses once",
    )];
    const FARTHER: &[LongRow] = &[
        (
            64 << 10,
            Path::Cma,
            "one copy: each line crosses once, and the processor fetches ahead",
        ),
        (
            ALL,
            Path::SplitCopy,
            "one copy, by two cores: each line crosses once",
        ),
    ];
    for (locality, eager, eager_reason, long) in [
        (
            Locality::SharedCache,
            64 << 10,
            "the two copies overlap in pieces, and neither side waits for an answer",
            NEAR,
        ),
        (
            Locality::SamePackage,
            48 << 10,
            "an answer to an offer would cost several hand-overs",
            FAR,
        ),
        (
            Locality::OtherPackage,
            2 << 10,
            "each line crosses the interconnect twice, so the limit is lower",
            FARTHER,
        ),
    ] {
        row(
            locality,
            ReceiverPace::Steady,
            INLINE_CAPACITY,
            Path::Inline,
            INLINE,
        );
        row(
            locality,
            ReceiverPace::Steady,
            eager,
            Path::Eager,
            eager_reason,
        );
        for (up_to, path, reason) in long {
            row(locality, ReceiverPace::Steady, *up_to, *path, reason);
        }
        row(
            locality,
            ReceiverPace::Slow,
            INLINE_CAPACITY,
            Path::Inline,
            INLINE,
        );
        row(
            locality,
            ReceiverPace::Slow,
            SLOW_RECEIVER_EAGER,
            Path::Eager,
            "the receiver lags: its sender copies the bytes aside and does not wait for it",
        );
        for (up_to, path, reason) in long
            .iter()
            .filter(|(up_to, ..)| *up_to > SLOW_RECEIVER_EAGER)
        {
            row(locality, ReceiverPace::Slow, *up_to, *path, reason);
        }
    }
    rows
}
