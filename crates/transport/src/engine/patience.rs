//! A blocking call that waits for long says once what it waits for: most often a message that
//! nobody sends, or ranks that wait in a circle. So does a caller that polls in a loop.

use core::cell::Cell;
use core::time::Duration;
use limic_shm::system::Instant;

use limic_bootstrap::launcher;
use limic_matching::{Selector as Query, Source};

use super::cx::Cx;
use super::matching::posted::query;
use super::peer::table::PeerState;
use super::protocol::regions;
use super::request::{Operation, Requests, SendStage};
use crate::raw::{RegionId, RequestId};
use crate::{Selector, warning};

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited<'a> {
    Operation(RequestId),
    OneOf(&'a [RequestId]),
    /// A message that a call of this name looks for again and again.
    Message(&'static str, &'a Selector),
    /// The first contact with a peer.
    Contact(u32),
    /// Nobody accesses a region any more that is taken back.
    Region(RegionId),
    /// Any of the operations under way, in a call of this name.
    UnderWay(&'static str),
    /// The same, by a caller that polls and may have none under way.
    Polled,
    /// Peers take what was sent, until this time is over.
    Taking(Instant),
}

impl Awaited<'_> {
    /// How long the caller may sleep at most.
    pub(crate) fn longest_sleep(self) -> Option<Duration> {
        match self {
            Self::Taking(end) => Some(end.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }
}

/// Time between two looks at a caller that polls.
const LOOK: Duration = Duration::from_millis(10);
/// The most that one look counts: a caller that does not poll does not wait.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// How long a caller has polled while operations were under way, and none was done.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    last: Option<Instant>,
    /// Operations that were done by then.
    done: u64,
    waited: Duration,
    was_said: bool,
    /// A call has waited since the last look.
    in_call: bool,
}

impl Polled {
    /// A blocking call waits, and says itself what for; or the caller sleeps in a loop of its own.
    #[inline(always)]
    pub(crate) fn in_call(&mut self) {
        self.in_call = true;
    }

    /// A look now and then. True if it is to be said now which operations are under way, after so
    /// long; 0 is never.
    pub(crate) fn is_over(&mut self, requests: &Requests, patience: Duration) -> bool {
        if self.in_call {
            *self = Self::default();
        }
        let now = Instant::now();
        let passed = now.saturating_duration_since(*self.last.get_or_insert(now));
        if passed < LOOK {
            return false;
        }
        self.last = Some(now);
        if self.done != requests.completed() || requests.is_empty() {
            self.done = requests.completed();
            self.waited = Duration::ZERO;
            self.was_said = false;
            return false;
        }
        self.waited += passed.min(LONGEST_LOOK);
        let over = !patience.is_zero() && self.waited >= patience && !self.was_said;
        self.was_said |= over;
        over
    }
}

thread_local! {
    /// A call that is made of others, while it is under way.
    static CALL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Does what a call is made of, so that a wait in it is said to be in this call.
pub(crate) fn in_call<T>(name: &'static str, parts: impl FnOnce() -> T) -> T {
    /// Also where a panic ends the call.
    struct End(Option<&'static str>);
    impl Drop for End {
        fn drop(&mut self) {
            CALL.set(self.0);
        }
    }
    let _end = End(CALL.replace(Some(name)));
    parts()
}

/// Says what a call waits for, if it is an engine's.
#[cold]
pub(crate) fn say(cx: &mut Cx, awaited: Awaited<'_>) {
    if let Some(what) = describe(cx, awaited) {
        say_line(cx.identity.address.id, cx.settings.patience(), &what);
    }
}

/// Says what a call of the endpoint with this id waits for.
#[cold]
pub(crate) fn say_line(id: u64, patience: Duration, what: &str) {
    let who = match launcher::rank() {
        Some(rank) => format!("rank {rank}"),
        None => format!("endpoint {id:016x}"),
    };
    let call = CALL.get().map(|call| format!("{call}: "));
    warning::say(&format!(
        "{who} has waited for {patience:?} in {}{what}",
        call.unwrap_or_default()
    ));
}

fn describe(cx: &mut Cx, awaited: Awaited<'_>) -> Option<String> {
    match awaited {
        Awaited::Operation(id) => operation(cx, id),
        Awaited::OneOf(ids) => one_of(ids, |id| operation(cx, id)),
        Awaited::Message(call, selector) => {
            let from = selector.source.map(|peer| name(cx, peer.0));
            Some(message(call, &query(selector), from))
        }
        Awaited::Contact(peer) => Some(format!("a first contact with {}", name(cx, peer))),
        Awaited::Region(id) => {
            let peers = regions::accessors(cx, id).into_iter();
            let peers = peers.map(|peer| name(cx, peer)).collect::<Vec<_>>();
            // The last of them may have ended just now.
            (!peers.is_empty()).then(|| format!("revoke of a region in use by {}", listed(peers)))
        }
        Awaited::UnderWay(call) => {
            let ids = cx.requests.ids();
            Some(under_way(call, &ids, |id| operation(cx, id)))
        }
        Awaited::Polled => {
            let ids = cx.requests.ids();
            let what = listed(ids.into_iter().filter_map(|id| operation(cx, id)));
            (!what.is_empty()).then(|| format!("calls that poll, for {what}"))
        }
        Awaited::Taking(_) => None,
    }
}

/// One of several operations, each of which is said by `operation`.
pub(crate) fn one_of(
    ids: &[RequestId],
    operation: impl FnMut(RequestId) -> Option<String>,
) -> Option<String> {
    let what = listed(ids.iter().copied().filter_map(operation));
    Some(match ids {
        _ if what.is_empty() => return None,
        [_] => what,
        _ => format!("wait_any for {} operations: {what}", ids.len()),
    })
}

/// Any of the operations under way, in a call of this name.
pub(crate) fn under_way(
    call: &str,
    ids: &[RequestId],
    operation: impl FnMut(RequestId) -> Option<String>,
) -> String {
    let what = listed(ids.iter().copied().filter_map(operation));
    if what.is_empty() {
        return format!("{call}, and no operation is under way");
    }
    format!("{call} for {what}")
}

/// Things in a row, each once, and no more than a line can hold.
fn listed(all: impl IntoIterator<Item = String>) -> String {
    const MOST: usize = 8;
    // Most often they are few; where they are many, most are alike.
    const MOST_LOOKED_AT: usize = 1000;
    let mut named: Vec<String> = Vec::new();
    for one in all.into_iter().take(MOST_LOOKED_AT) {
        if named.contains(&one) {
            continue;
        }
        if named.len() == MOST {
            named.push("others".into());
            break;
        }
        named.push(one);
    }
    named.join("; ")
}

/// A message that a call looks for, from a peer of this name or any.
pub(crate) fn message(call: &str, selector: &Query, from: Option<String>) -> String {
    let from = from.unwrap_or_else(|| "any peer".into());
    format!("{call} of {} from {from}", tag(selector))
}

fn operation(cx: &mut Cx, id: RequestId) -> Option<String> {
    let slot = cx.requests.find(id)?;
    let in_fifo = cx.requests.fifo().find(|(waits, _)| *waits == slot);
    let selector = match in_fifo {
        Some((_, selector)) => Some(selector),
        None => {
            let posted = cx.requests.posted_as(slot);
            posted.and_then(|posted| cx.matching.selector_of(posted))
        }
    };
    if let Some(selector) = selector {
        let from = match selector.source {
            Source::Is(peer) => Some(name(cx, peer)),
            Source::Any => None,
        };
        return Some(message("recv", &selector, from));
    }
    match cx.requests.under_way(slot)? {
        Operation::Send(sending) => {
            let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
            let stage = sending.stage;
            let to = name(cx, to);
            Some(match stage {
                SendStage::Put { .. } => format!("write of {len} bytes to a region of {to}"),
                SendStage::Queued => format!("send of tag {tag} to {to}, which takes nothing"),
                SendStage::Offered { .. } => {
                    format!("send of tag {tag} to {to}, which has no receive for it")
                }
                _ => format!("send of tag {tag} to {to}, which has begun to receive it"),
            })
        }
        Operation::Receive(receiving) => {
            let peer = receiving.stage.peer()?;
            let begun = receiving.stage.sender().is_some();
            let from = name(cx, peer);
            Some(if begun {
                format!("recv of a message that has begun to come from {from}")
            } else {
                format!("read of a region of {from}")
            })
        }
        Operation::Over => None,
    }
}

fn tag(selector: &Query) -> String {
    let Query { tag, mask, .. } = *selector;
    if mask == u64::MAX {
        format!("tag {tag}")
    } else if tag & mask == 0 {
        "any tag".into()
    } else {
        format!("tag {tag:#x} under mask {mask:#x}")
    }
}

fn name(cx: &mut Cx, peer: u32) -> String {
    let unmet = cx
        .peers
        .get(peer)
        .is_some_and(|entry| matches!(entry.state, PeerState::Unmet { .. }));
    let note = if unmet { " (not met yet)" } else { "" };
    format!("peer {peer}{note}")
}
