//! What a runtime that has an endpoint to itself asks of it.

use core::fmt::Debug;
use core::time::Duration;

use super::ClaimId;
use super::sealed::Sealed;
use crate::{Peer, Result, Selector, Status, Tag};

/// What a runtime that has an endpoint to itself asks of it: a libfabric provider, a C library, a
/// start-up.
pub trait Runtime: Debug + Send + Sealed {
    /// From now on, receives and probes from any source do not fail because a peer died: only those
    /// that name it do, as libfabric and UCX have it. Otherwise a death fails all receives from any
    /// source that are posted, or the next one if none is.
    fn keep_any_source_receives(&self);

    /// Keeps messages whose tag agrees with `tag` in the bits of `mask` out of matching from now
    /// on, unless a receive is posted for them. For the messages of a runtime to itself.
    fn reserve_tags(&self, tag: Tag, mask: u64);

    /// The oldest message that [`reserve_tags`](Self::reserve_tags) kept, already claimed. No
    /// progress.
    fn take_reserved(&self) -> Option<(Status, ClaimId)>;

    /// Whether the settings ask that this peer is met when the job starts, not at the first message
    /// (`LIMIC_VERBS_CONNECT`).
    ///
    /// # Errors
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer).
    fn connects_at_start(&self, peer: Peer) -> Result<bool>;

    /// After what time a call says what it waits for (`LIMIC_PATIENCE_MS`); zero: never.
    fn patience(&self) -> Duration;

    /// Says, as a warning, that a call of this name has waited so long for such a message.
    fn say_awaited(&self, call: &'static str, selector: &Selector);

    /// Says, as a warning, that a call has waited so long for the first contact with a peer.
    fn say_contact(&self, peer: Peer);

    /// Says, as a warning, that a call of this name has waited so long for any of the operations
    /// under way.
    fn say_under_way(&self, call: &'static str);

    /// Whether a call of this endpoint is under way. Only a signal handler, or what runs in one
    /// when the process ends, can find it so; it must make no other call of the endpoint then,
    /// which would panic.
    fn is_busy(&self) -> bool;
}
