//! How a message leaves its sender: the only place that decides it.
//!
//! [`Routes`] are what follows, for one pair, from the table of paths, the settings, and where its two
//! ends run; an endpoint keeps them per peer. [`Routes::select`] is asked for each message. It is pure:
//! whatever else it depends on, it asks a [`SendState`] for, so that `limic info --why` gets the answer
//! of the engine.

/// Shorter messages go in a record of the ring rather than in a recycled staging buffer: those of up to
/// four cache lines with the record's header. A receiver that waits for them has two lines on their way
/// at once, while it knows nothing of a buffer before it has read the record.
pub(crate) const SHORTEST_BUFFER: u64 = 3 * 64 + 48 + 1;

/// Shorter messages never go ahead of a slow receiver: its ring holds hundreds of them.
const SHORTEST_AHEAD: u64 = 1024;

/// Longest eager message that is no reply, in bytes: what the receiver may have to keep of one that
/// nobody expects.
pub(crate) const LONGEST_EAGER: u64 = 64 << 10;

/// Limits for the messages to one peer, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Routes {
    /// Shorter messages go in one record, whatever their receiver holds.
    pub(crate) inline_below: u64,
    /// Shorter messages go in one record.
    pub(crate) record_below: u64,
    /// Shorter messages go without asking the receiver.
    pub(crate) eager_below: u64,
    /// Longer messages than eager ones, but shorter than this, are offered, and go in fragments.
    pub(crate) pipeline_below: u64,
    /// Shorter messages go without asking if they are likely to be a reply.
    pub(crate) reply_below: u64,
    /// The longest message that goes whole in a recycled buffer.
    pub(crate) longest_single_buffer: u64,
    /// Shorter messages go ahead of a slow receiver.
    pub(crate) send_ahead_below: u64,
    /// Bytes of a fragment in the middle of a long message.
    pub(crate) fragment_bytes: u64,
    /// Most bytes in staging buffers that the peer has not returned.
    pub(crate) window: u64,
}

/// How a message leaves its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendPlan {
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

/// What the choice depends on beside the routes. Each is looked up only where it matters.
pub(crate) trait SendState {
    /// The receiver holds too many unexpected bytes, and wants to be asked.
    fn is_over_budget(&self) -> bool;
    /// The receiver does not keep up with this sender.
    fn is_slow(&self) -> bool;
    /// The ring had no room for the message.
    fn is_full(&self) -> bool;
    /// There is any use in asking for a recycled buffer for so many bytes.
    fn may_recycle(&self, len: u64) -> bool;
    /// A recycled buffer waits to be written.
    fn has_recycled(&self) -> bool;
    /// Bytes of the recycled buffers that are long enough for fragments.
    fn reply_bytes(&self) -> u64;
    /// Bytes that the peer has sent, and may keep in buffers for its replies.
    fn reply_credit(&self) -> u64;
}

impl Routes {
    /// How a message of `len` bytes leaves.
    #[inline(always)]
    pub(crate) fn select(&self, len: u64, state: &impl SendState) -> SendPlan {
        if len < self.inline_below || (len < self.record_below && !state.is_over_budget()) {
            return if len >= SHORTEST_AHEAD && state.is_full() && self.goes_ahead(len, state) {
                SendPlan::Ahead
            } else if len >= SHORTEST_BUFFER && state.may_recycle(len) {
                SendPlan::Buffer
            } else {
                SendPlan::Record
            };
        }
        self.select_long(len, state)
    }

    #[inline]
    fn select_long(&self, len: u64, state: &impl SendState) -> SendPlan {
        if self.goes_ahead(len, state) {
            return SendPlan::Ahead;
        }
        if state.is_over_budget() {
            return SendPlan::Offer;
        }
        // A message that fits the recycled buffers of a peer is likely to be a reply, for which that
        // peer waits.
        if len < self.eager_below || (len < self.reply_below && len <= state.reply_bytes()) {
            return if len <= self.longest_single_buffer && state.has_recycled() {
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
