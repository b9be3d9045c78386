//! What decides how a message goes over a network.

/// What a connection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the longest message.
    pub longest: u64,
    /// Longer messages go by [`Fabric::begin`](crate::Fabric::begin), without a copy, and come in
    /// parts.
    pub in_place_from: u64,
    /// Peers read memory that was [offered](crate::Fabric::offer).
    pub has_reads: bool,
    /// Each send costs as much as many messages together, so those that follow each other at once
    /// are better sent [together](crate::Fabric::cork).
    pub sends_cost: bool,
}

impl Limits {
    /// Those of a connection that there is not: it takes nothing.
    pub const NOTHING: Self = Self {
        longest: 0,
        in_place_from: u64::MAX,
        has_reads: false,
        sends_cost: false,
    };
}
