//! What a runtime that has an endpoint to itself asks of it.

use core::fmt::Debug;
use core::time::Duration;

use super::sealed::Sealed;
use super::{Access, Inbox, Reserved};
use crate::{Peer, Result, Selector, Tag};

/// What a runtime that has an endpoint to itself asks of it: a libfabric provider, a C library, a
/// start-up.
pub trait Runtime: Debug + Send + Sealed {
    /// From now on, receives and probes from any source do not fail because a peer died: only those
    /// that name it do, as libfabric and UCX have it. Otherwise a death fails all receives from any
    /// source that are posted, or the next one if none is.
    fn keep_any_source_receives(&self);

    /// Keeps messages whose tag agrees with `tag` in the bits of `mask` out of matching from now
    /// on. For the messages of a runtime to itself: no receive of it asks for such tags.
    fn reserve_tags(&self, tag: Tag, mask: u64);

    /// Whether short reserved messages that come whole go to an inbox, which
    /// [`take_inbox`](Self::take_inbox) hands over. At first they do not. An endpoint over the
    /// kernel module has none.
    fn use_inbox(&self, used: bool);

    /// Whether something was kept by [`reserve_tags`](Self::reserve_tags). No progress.
    fn has_reserved(&self) -> bool;

    /// Takes the messages of the inbox, in exchange for one whose messages are over. They are older
    /// than any message or failure that [`take_reserved`](Self::take_reserved) gives next. No
    /// progress.
    fn take_inbox(&self, inbox: &mut Inbox);

    /// Counts of accesses first, which have no order. Then the oldest reserved message that is in
    /// no inbox, already claimed; or the failure of a peer, which comes behind all that it sent,
    /// with its last receipt. No progress.
    fn take_reserved(&self) -> Option<Reserved>;

    /// From now on, [`take_reserved`](Self::take_reserved) tells of accesses of these kinds to the
    /// region under this key, by peers and by this endpoint. There need not be a region yet: the
    /// first access to it is told too. The wish is one about the key. It outlives the region, until
    /// it is taken back with [`Access::NONE`], which forgets what was not told yet. Endpoints over
    /// the kernel module, and those that reach themselves alone, tell of none.
    fn report_accesses(&self, key: u64, kinds: Access);

    /// Whether a peer can be given a receipt: it sends through a ring of its own. It can from then
    /// on, as long as it lives. No progress.
    fn takes_receipts(&self, peer: Peer) -> bool;

    /// Gives a peer a receipt, in place of the one before: a number by which the two ends mean what
    /// was done of the peer's messages. It wakes the peer. Without effect on one that
    /// [takes](Self::takes_receipts) none.
    fn give_receipt(&self, peer: Peer, receipt: u64);

    /// The last receipt of a peer: 0 before the first one, and for a peer that gives none. It is
    /// the peer's word, which may be any. No progress.
    fn receipt_of(&self, peer: Peer) -> u64;

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
