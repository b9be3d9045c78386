//! How a message goes: the only place that decides it.
//!
//! [`Routes`] are what follows, for one pair, from the table of paths, the settings, and where its
//! two ends run; an endpoint keeps them per peer. A sender asks [`Routes::select`] for each
//! message, and a receiver asks [`answer`] and [`is_shared`] for each message that was offered to
//! it. All are pure: whatever else the choice depends on, they ask a [`SendState`] for. `limic info
//! --why` asks the same, so it gives the answer of the engine. [`network`] decides for peers over
//! networks, and [`module`] where the kernel module matches.

pub mod fragments;
pub mod module;
pub mod network;

use super::{Capabilities, Locality, Path, Query, ReceiverPace, Table, Thresholds};

/// Shorter messages go in a record of the ring rather than in a recycled staging buffer: those of
/// up to four cache lines with the record's header. A receiver that waits for them has as many
/// lines on their way at once as the last record had, while it knows nothing of a buffer before it
/// has read the record.
const SHORTEST_BUFFER: u64 = 3 * 64 + 48 + 1;

/// Shorter messages never go ahead of a slow receiver: its ring holds hundreds of them.
const SHORTEST_AHEAD: u64 = 1024;

/// Longest eager message that is no reply, in bytes: what the receiver may have to keep of one that
/// nobody expects.
pub const LONGEST_EAGER: u64 = 64 << 10;

/// Where shorter messages than this are offered, a copy costs too much for a reply as well.
const SHORTEST_OFFER: u64 = 48 << 10;

/// Longest message that goes without asking, in bytes: all that one peer may keep of recycled
/// staging buffers. Of a longer one they would take a part, and then what goes to and fro would go
/// in less.
pub const LONGEST_RECYCLED: u64 = 1 << 20;

/// Longest eager message in one record, in bytes: 20 cache lines with its header. In a stream, a
/// longer one takes less time through a staging buffer, though more instructions
/// (docs/decisions/0025).
pub(crate) const LONGEST_RECORD: u64 = 1264;

/// Shorter messages go by two copies also out of memory that the receiver may read: they are there
/// before it has found the record.
const SHORTEST_PEER_READABLE: u64 = (12 << 10) + 1;

/// Shorter messages out of such memory are copied by the receiver alone.
const SHORTEST_SHARED: u64 = 1 << 20;

/// The most that goes in one record, in bytes, to a peer with private rings of so many bytes, from
/// a pool with staging buffers of so many.
#[must_use]
pub fn longest_record(ring_bytes: u32, buffer_bytes: u64) -> u64 {
    // A record may take a quarter of a private ring; the pool must hold what does not fit the
    // shared one.
    LONGEST_RECORD
        .min(u64::from(ring_bytes / 4))
        .min(buffer_bytes)
}

/// What the routes of a pair follow from.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The table of paths.
    pub table: &'a Table,
    /// How far apart the two are.
    pub locality: Locality,
    /// Between cores of one package that are far apart, bytes come sooner by memory than out of a
    /// cache.
    pub far_by_memory: bool,
    /// What they can do.
    pub capabilities: Capabilities,
    /// The most that goes in one record, in bytes.
    pub longest_record: u64,
    /// Bytes of a fragment that are set.
    pub fragment_bytes: u32,
    /// Bytes of a staging buffer.
    pub buffer_bytes: u64,
    /// Staging buffers that may be on their way to one peer.
    pub window: u32,
    /// Bytes of unexpected messages that an endpoint keeps.
    pub unexpected_budget: u64,
}

/// Limits for the messages to one peer, in bytes.
///
/// Those beyond eager messages, by the built-in rows:
///
/// | cores | `eager_below` | `pipeline_below` | `reply_below` | `granted_below` |
/// |---|---|---|---|---|
/// | with a common near cache | 64K | all | 1M | 1M |
/// | of one package, far | 48K | 48K | 48K, or 1M if far by memory | 1M |
/// | of two packages | 2K | 2K | none | none |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Shorter messages go in one record, whatever their receiver holds.
    pub inline_below: u64,
    /// Shorter messages go in one record.
    pub record_below: u64,
    /// Shorter messages go without asking the receiver.
    eager_below: u64,
    /// Longer messages than eager ones, but shorter than this, are offered, and go in fragments.
    pipeline_below: u64,
    /// Shorter messages go without asking if they are likely to be a reply.
    reply_below: u64,
    /// Shorter messages go without asking if the receiver has said so.
    granted_below: u64,
    /// The longest message that goes whole in one staging buffer.
    longest_single_buffer: u64,
    /// Shorter messages go ahead of a slow receiver.
    send_ahead_below: u64,
    /// Messages of this length and longer ones stay where they are, if the receiver may read there.
    peer_readable_from: u64,
    /// Bytes of a staging buffer that a fragment fills.
    longest_fragment: u64,
    /// Most bytes in staging buffers that the peer has not returned.
    pub window: u64,
}

/// How a message leaves its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPlan {
    /// At once, in one record.
    Record,
    /// At once, in one staging buffer.
    Buffer,
    /// At once, in fragments.
    Fragments,
    /// Into an arena, ahead of a slow receiver.
    Ahead,
    /// The receiver is asked, and says how the bytes go.
    Offer,
}

impl SendPlan {
    /// The path of a message of `len` bytes that leaves so; `None` if its receiver picks one.
    #[inline(always)]
    pub fn path(self, routes: &Routes, len: u64) -> Option<Path> {
        match self {
            Self::Record if len < routes.inline_below => Some(Path::Inline),
            Self::Record | Self::Buffer => Some(Path::Eager),
            Self::Fragments => Some(Path::EagerFragments),
            Self::Ahead => Some(Path::SendAhead),
            Self::Offer => None,
        }
    }
}

/// What the choice depends on beside the routes. Each is looked up only where it matters.
pub trait SendState {
    /// The receiver holds too many unexpected bytes, and wants to be asked.
    fn is_over_budget(&self) -> bool;
    /// The receiver does not keep up with this sender.
    fn is_slow(&self) -> bool;
    /// The ring had no room for the message.
    fn is_full(&self) -> bool;
    /// The bytes lie in memory that peers may read.
    fn is_peer_readable(&self) -> bool;
    /// There is any use in asking for a recycled buffer for so many bytes.
    fn may_recycle(&self, len: u64) -> bool;
    /// The longest message that recycled buffers hold in fragments, in bytes.
    fn reply_bytes(&self) -> u64;
    /// The receiver has said that it takes messages of this length as they come.
    fn is_granted(&self, len: u64) -> bool;
    /// Bytes that the peer has sent, and may keep in buffers for its replies.
    fn reply_credit(&self) -> u64;
}

impl Routes {
    /// The routes of a pair.
    #[must_use]
    pub fn new(pair: &Pair<'_>) -> Self {
        let Pair {
            table,
            locality,
            capabilities,
            ..
        } = *pair;
        let thresholds = table.thresholds(locality, ReceiverPace::Steady, &capabilities);
        // A message that goes ahead lies in an arena, and no ring limits it.
        let mut ahead = capabilities;
        ahead.max_eager = pair.unexpected_budget;
        let ahead = table.thresholds(locality, ReceiverPace::Slow, &ahead);
        let granted_below = granted_below(pair, thresholds);
        let far_by_memory = locality == Locality::SamePackage && pair.far_by_memory;
        Self {
            inline_below: thresholds.inline_below,
            record_below: thresholds.eager_below.min(pair.longest_record + 1),
            eager_below: thresholds.eager_below,
            pipeline_below: thresholds.pipeline_below,
            // Recycled buffers are faster than the single copy, between such cores at any length.
            reply_below: match far_by_memory {
                true => granted_below,
                false => granted_below.min(thresholds.pipeline_below),
            },
            granted_below,
            longest_single_buffer: longest_single_buffer(locality).min(pair.buffer_bytes),
            send_ahead_below: ahead.eager_below,
            peer_readable_from: peer_readable_from(pair),
            longest_fragment: fragments::longest(pair.fragment_bytes, pair.buffer_bytes),
            window: u64::from(pair.window) * pair.buffer_bytes,
        }
    }

    /// Whether a message of `len` bytes may leave whole: in one record, or in one buffer.
    #[inline(always)]
    pub fn may_go_whole(&self, len: u64) -> bool {
        len <= self.longest_single_buffer || len < self.record_below || len < self.inline_below
    }

    /// Whether a message of `len` bytes is offered and goes in fragments, by the table.
    #[must_use]
    pub fn goes_in_fragments(&self, len: u64) -> bool {
        len >= self.eager_below && len < self.pipeline_below
    }

    /// Whether a message of `len` bytes stays where it is, if the receiver may read there.
    #[inline(always)]
    pub fn may_stay(&self, len: u64) -> bool {
        len >= self.peer_readable_from
    }

    /// How a message of `len` bytes leaves.
    #[inline(always)]
    pub fn select(&self, len: u64, state: &(impl SendState + Copy)) -> SendPlan {
        if len < self.inline_below || (len < self.record_below && !state.is_over_budget()) {
            return if len >= SHORTEST_AHEAD && state.is_full() && self.goes_ahead(len, state) {
                SendPlan::Ahead
            } else if len >= SHORTEST_BUFFER && state.may_recycle(len) {
                SendPlan::Buffer
            } else {
                SendPlan::Record
            };
        }
        self.select_long(len, *state)
    }

    /// Not inlined, and with a state of its own: its questions would take registers from the short
    /// messages, or have the state stored for each of them.
    #[inline(never)]
    fn select_long(&self, len: u64, state: impl SendState) -> SendPlan {
        let state = &state;
        if self.goes_ahead(len, state) {
            return SendPlan::Ahead;
        }
        let stays = self.may_stay(len) && state.is_peer_readable();
        if stays || state.is_over_budget() {
            return SendPlan::Offer;
        }
        // A message that fits the recycled buffers of a peer is likely to be a reply, for which
        // that peer waits. Where the receives are there in time, or there is a stream, an answer to
        // each offer would cost a gap.
        let goes_unasked = len < self.eager_below
            || (len < self.reply_below && len <= state.reply_bytes())
            || (len < self.granted_below && state.is_granted(len));
        if goes_unasked {
            return if len <= self.longest_single_buffer {
                SendPlan::Buffer
            } else {
                SendPlan::Fragments
            };
        }
        // Fragments that receivers ask for name buffers that may be kept. Where long messages go by
        // single copy, which names none, the first reply names them.
        let first_reply = len >= self.pipeline_below && len < self.reply_below;
        if first_reply && len <= state.reply_credit() {
            return SendPlan::Fragments;
        }
        SendPlan::Offer
    }

    #[inline]
    fn goes_ahead(&self, len: u64, state: &impl SendState) -> bool {
        len >= SHORTEST_AHEAD && len < self.send_ahead_below && state.is_slow()
    }
}

/// The longest message that goes whole in one staging buffer: longer ones gain more by the overlap
/// of two copies than the records of fragments cost, of which the receiver waits for each. Between
/// cores without a common cache these cost more.
const fn longest_single_buffer(locality: Locality) -> u64 {
    match locality {
        Locality::SamePackage | Locality::OtherPackage => 32 << 10,
        _ => 12 << 10,
    }
}

/// From how many bytes on a message stays where it is, if the receiver may read there.
fn peer_readable_from(pair: &Pair<'_>) -> u64 {
    // In one process, each buffer can be read.
    let is_near = pair.locality <= Locality::SameProcess;
    if is_near || !pair.capabilities.paths.contains(Path::PeerReadable) {
        return u64::MAX;
    }
    SHORTEST_PEER_READABLE
}

/// Below how many bytes a message goes without asking if its receiver has said so, which knows the
/// fastest path by then: 0 if much shorter messages are to be asked for already.
fn granted_below(pair: &Pair<'_>, thresholds: Thresholds) -> u64 {
    if thresholds.eager_below <= SHORTEST_OFFER {
        return 0;
    }
    pair.table
        .asked_for_from(pair.locality, thresholds.eager_below - 1)
        .min(LONGEST_RECYCLED + 1)
        .min(pair.unexpected_budget.saturating_add(1))
}

/// Whether a loan is handed over to a peer that shares memory. To others its bytes go as those of
/// any message.
#[inline(always)]
#[must_use]
pub fn hands_over(capabilities: &Capabilities) -> bool {
    capabilities.paths.contains(Path::Loan)
}

/// How a peer's region is accessed: by single copy, or in fragments with the owner's help.
#[inline]
#[must_use]
pub fn one_sided(capabilities: &Capabilities) -> Path {
    if capabilities.paths.contains(Path::Cma) {
        Path::Cma
    } else {
        Path::Pipeline
    }
}

/// A message that was offered to its receiver, which knows both buffers.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Length in bytes.
    pub len: u64,
    /// The sender's bytes lie in several slices.
    pub vectored: bool,
    /// The sender's bytes lie in memory that this endpoint may read.
    pub peer_readable: bool,
    /// The receive buffer has one address.
    pub whole: bool,
    /// How its receiver keeps up.
    pub pace: ReceiverPace,
}

impl Offered {
    /// What the table is asked for this message.
    #[inline]
    #[must_use]
    pub fn query(&self, locality: Locality, mut capabilities: Capabilities) -> Query {
        // The message was offered, so the paths without asking are not open to it any more.
        capabilities.demote(Path::Inline);
        capabilities.demote(Path::Eager);
        if self.peer_readable {
            // No other backend is told where they lie.
            for path in [Path::Cma, Path::SplitCopy, Path::Kmod] {
                capabilities.demote(path);
            }
        }
        if !self.whole {
            // Each end writes into the memory of the other, or reads it, at one address.
            capabilities.demote(Path::SplitCopy);
        }
        Query {
            bytes: self.len,
            locality,
            pace: self.pace,
            vectored: self.vectored,
            peer_readable: self.peer_readable,
            capabilities,
        }
    }
}

/// Whether both sides copy a part of an offered message that goes by `path`. One in memory that the
/// receiver may read is written in part by its sender where the table says split copy for other
/// memory: the receiver alone would take longer.
#[must_use]
pub fn is_shared(
    table: &Table,
    offered: &Offered,
    path: Path,
    locality: Locality,
    capabilities: Capabilities,
) -> bool {
    match path {
        Path::SplitCopy => true,
        Path::PeerReadable if offered.len >= SHORTEST_SHARED => {
            let otherwise = Offered {
                peer_readable: false,
                ..*offered
            };
            answer(table, &otherwise.query(locality, capabilities)).0 == Path::SplitCopy
        }
        _ => false,
    }
}

/// How the bytes of an offered message come, and whether what is measured at run time may overrule
/// that. Where no allowed path can carry them, they come in fragments: every pair can do that.
#[inline]
#[must_use]
pub fn answer(table: &Table, query: &Query) -> (Path, bool) {
    if query.peer_readable && query.capabilities.paths.contains(Path::PeerReadable) {
        return (Path::PeerReadable, false);
    }
    match table.choose_tunable(query) {
        Some((path, tunable)) if path.is_rendezvous() => {
            // Messages in several slices have other paths, which those in one must not learn from.
            (path, tunable && !query.vectored)
        }
        Some((Path::SameProcess, _)) => (Path::SameProcess, false),
        _ => (Path::Pipeline, false),
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
