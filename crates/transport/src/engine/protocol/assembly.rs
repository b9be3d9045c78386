//! The receiver's side of messages that go in fragments: see `fragments`.

use limic_policy::Path;
use limic_policy::select::{LONGEST_EAGER, LONGEST_RECYCLED};
use limic_policy::slow_receiver::LONG;
use limic_pools::staging::BufferDescriptor;
use limic_records::{Transfer, Update, Violation};
use limic_shm::bytes::{ReceiveBuffer, Source};

use crate::engine::control::{budget, counting, line_latency, pace};
use crate::engine::cx::Cx;
use crate::engine::envelope::Envelope;
use crate::engine::fabric::Coming;
use crate::engine::matching::unexpected_store::{
    UnexpectedBody, UnexpectedMessage, UnexpectedStore,
};
use crate::engine::outbox;
use crate::engine::peer::table::{Channel, PeerState};
use crate::engine::protocol::receive_target::{Came, ReceiveTarget};
use crate::engine::protocol::{receive, rendezvous, rma, unexpected};
use crate::engine::request::{
    Destination, EagerAssembly, Incoming, Operation, ReceiveStage, Receiving, Requests, Slot, sent,
};
use crate::raw::{Owner, Posted, RequestId};

/// An eager message begins. `waited`: its sender had to wait with the message before.
///
/// # Errors
/// It begins within another one, or is too long.
pub(crate) fn on_eager_fragmented(
    cx: &mut Cx,
    envelope: Envelope,
    len: u64,
    waited: bool,
) -> Result<(), Violation> {
    let from = envelope.from;
    let Some(pair) = cx.peers.pair(from) else {
        return Ok(());
    };
    if pair.assembly.is_some() || len == 0 || len > LONGEST_RECYCLED {
        return Err("an eager message that begins within another one, or is too long");
    }
    let to = destination(cx, envelope, (len, Path::EagerFragments), waited)?;
    if let Some(pair) = cx.peers.pair(from) {
        pair.assembly = Some(EagerAssembly { to, at: 0, len });
    }
    Ok(())
}

/// Where the bytes of an eager message go that has begun, by this path.
///
/// # Errors
/// There is no memory to keep it.
#[inline]
pub(crate) fn destination(
    cx: &mut Cx,
    envelope: Envelope,
    (len, path): (u64, Path),
    waited: bool,
) -> Result<Destination, Violation> {
    let Envelope { from, tag, .. } = envelope;
    let posted = cx.matching.take_posted(&mut cx.requests, from, tag, len);
    Ok(match posted {
        Some(slot) => {
            if waited {
                // There may be others before the next one, in the ring, where this endpoint does
                // not see them.
                pace::sender_blocked(cx, from);
                pace::sender_unblocked(cx, from, LONG);
            } else {
                pace::count_posted(cx, from);
            }
            let id = cx.requests.id(slot);
            if let Some(receiving) = cx.requests.known_receive(slot) {
                let incoming = Incoming {
                    path,
                    ..Incoming::new(envelope, len, receiving.into.len())
                };
                receiving.stage = ReceiveStage::Assembling(incoming);
                if incoming.wanted == 0 {
                    rendezvous::complete_receive(cx, slot, &incoming);
                }
            }
            Destination::Receive(id)
        }
        None => {
            if len > LONGEST_EAGER {
                too_early(cx, from, len);
            }
            let body = UnexpectedBody::Partial(cx.matching.store().buffer());
            let message = UnexpectedMessage {
                envelope,
                len,
                body,
            };
            Destination::Unexpected(unexpected::keep(cx, message)?)
        }
    })
}

/// A long message has come unasked, and has to be copied aside. For some time, its sender is to ask
/// before the next ones.
#[cold]
fn too_early(cx: &mut Cx, from: u32, len: u64) {
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    let knows = pair.staging.is_penalized(&pair.out);
    pair.staging
        .unsolicited_reply(&mut cx.staging, &mut pair.out, len);
    if !knows {
        outbox::answer(cx, from, Update::AskFirst(true).encode());
    }
}

/// A fragment came in a staging buffer.
///
/// # Errors
/// What is wrong with what the peer said.
#[inline]
pub(crate) fn on_fragment_staged(
    cx: &mut Cx,
    from: u32,
    transfer: Transfer,
    descriptor: BufferDescriptor,
) -> Result<(), Violation> {
    let Some(pair) = cx.peers.pair(from) else {
        return Ok(());
    };
    let (requests, store) = (&mut cx.requests, cx.matching.store());
    let (pool, out, assembly) = (&mut cx.staging, &mut pair.out, &mut pair.assembly);
    let stored = pair
        .staging
        .read_in_place(pool, out, from, &descriptor, |window| {
            store_fragment(requests, store, assembly, from, transfer, window)
        })?;
    stored.note(cx, from);
    Ok(())
}

/// A fragment came in its record.
///
/// # Errors
/// What is wrong with what the peer said.
#[inline]
pub(crate) fn on_fragment_inline(
    cx: &mut Cx,
    from: u32,
    transfer: Transfer,
    bytes: &impl Source,
) -> Result<(), Violation> {
    let (requests, store) = (&mut cx.requests, cx.matching.store());
    // Over networks no eager message comes in fragments.
    let mut none = None;
    let assembly = match cx.peers.pair(from) {
        Some(pair) => &mut pair.assembly,
        None => &mut none,
    };
    let stored = store_fragment(requests, store, assembly, from, transfer, bytes)?;
    stored.note(cx, from);
    Ok(())
}

/// Copies a fragment to where it belongs.
#[inline]
fn store_fragment(
    requests: &mut Requests,
    store: &mut UnexpectedStore,
    coming: &mut Option<EagerAssembly>,
    from: u32,
    transfer: Transfer,
    bytes: &impl Source,
) -> Result<Came, Violation> {
    let len = bytes.len();
    let (to, at, cut) = match transfer {
        Transfer::Asked { receive, at } => (Destination::Receive(RequestId(receive)), at, false),
        Transfer::Eager => {
            let fits = |assembly: &EagerAssembly| len > 0 && len <= assembly.len - assembly.at;
            let assembly = coming
                .filter(fits)
                .ok_or("a fragment of no message, or beyond its end")?;
            let at = assembly.at + len;
            *coming = (at < assembly.len).then_some(EagerAssembly { at, ..assembly });
            (assembly.to, assembly.at, true)
        }
    };
    ReceiveTarget::find(requests, store, from, to, (at, len), cut)?.take(bytes)
}

impl Came {
    /// Goes on with the message.
    #[inline]
    pub(crate) fn note(self, cx: &mut Cx, from: u32) {
        match self {
            Self::Part => {}
            Self::All(slot) => assembled(cx, slot),
            Self::Unexpected(bytes) => budget::count_more(cx, from, bytes as i64),
        }
    }
}

/// All bytes of a receive have come in fragments.
fn assembled(cx: &mut Cx, slot: Slot) {
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return;
    };
    match receiving.stage {
        ReceiveStage::Assembling(incoming) if incoming.confirm => {
            rendezvous::finish_receive(cx, slot, &incoming);
        }
        ReceiveStage::Assembling(incoming) => rendezvous::complete_receive(cx, slot, &incoming),
        ReceiveStage::Get { from, got, .. } => {
            counting::count_received_by(cx, from, Path::Pipeline, got);
            rma::access_is_over(cx, from);
            cx.requests.complete(slot, sent(from, 0, got));
        }
        _ => debug_assert!(false, "bytes come for a receive that takes parts"),
    }
}

/// An eager message begins, for a receive that takes its fragments itself. False if another one is
/// still coming.
pub(crate) fn begin_bypass(cx: &mut Cx, from: u32) -> bool {
    let free = cx
        .peers
        .pair(from)
        .is_some_and(|pair| pair.assembly.is_none());
    if free {
        pace::count_posted(cx, from);
    }
    free
}

/// All fragments of an eager message were received where they belong.
pub(crate) fn received_bypass(cx: &mut Cx, from: u32, len: u64) {
    pace::mark_active(cx, from);
    counting::count_received_by(cx, from, Path::EagerFragments, len);
    line_latency::probe_latency_if_due(cx, from);
}

/// The first `at` bytes of a message are where they belong; the others come in the ordinary way.
pub(crate) fn receive_remaining(
    cx: &mut Cx,
    mut incoming: Incoming,
    at: u64,
    into: ReceiveBuffer,
) -> Slot {
    incoming.got = at.min(incoming.wanted);
    let (from, len) = (incoming.from(), incoming.sent);
    let stage = ReceiveStage::Assembling(incoming);
    let slot = cx
        .requests
        .insert(Operation::Receive(Receiving { into, stage }));
    let to = Destination::Receive(cx.requests.id(slot));
    // The only message of this peer that is still coming.
    match cx.peers.get(from).map(|peer| &mut peer.state) {
        Some(PeerState::Up(Channel::Shm(pair))) => {
            pair.assembly = Some(EagerAssembly { to, at, len });
        }
        Some(PeerState::Up(Channel::Fabric(link))) => {
            let (end, cut) = (len, true);
            cx.fabric.set_coming(*link, Coming { to, end, cut });
        }
        _ => debug_assert!(false, "a message comes from a peer that is up"),
    }
    slot
}

/// Receives a message of which the first `bytes` have come.
pub(crate) fn receive_partial(
    cx: &mut Cx,
    mut incoming: Incoming,
    bytes: Vec<u8>,
    into: ReceiveBuffer,
    owner: Owner,
) -> Posted {
    budget::count_taken(cx, incoming.from(), bytes.len() as i64);
    let at = bytes.len() as u64;
    let got = at.min(incoming.wanted);
    into.copy_from(0, got, &bytes[..]);
    cx.matching.store().recycle(bytes);
    if at == incoming.sent {
        pace::mark_active(cx, incoming.from());
        counting::count_received_by(cx, incoming.from(), incoming.path, incoming.sent);
        return Posted::Done(incoming.outcome());
    }
    incoming.got = got;
    let slot = receive_remaining(cx, incoming, at, into);
    if got >= incoming.wanted {
        rendezvous::complete_receive(cx, slot, &incoming);
    }
    receive::posted(cx, slot, owner)
}
