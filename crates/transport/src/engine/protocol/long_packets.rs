//! Long records over a network go out of the sender's buffer and come into the receiver's, part by
//! part, as the network has room and as they come.
//!
//! Nothing else goes over the connection between the parts of a record.

use core::mem::MaybeUninit;

use limic_fabric::Form;
use limic_policy::Path;
use limic_records::{self as frame, Frame, Transfer, Violation};
use limic_shm::bytes::Source;

use crate::engine::cx::Cx;
use crate::engine::fabric::{Coming, Link};
use crate::engine::matching::unexpected_store::UnexpectedStore;
use crate::engine::peer::table::Channel;
use crate::engine::protocol::receive_target::{Came, ReceiveTarget, UNWANTED};
use crate::engine::protocol::{assembly, send};
use crate::engine::request::{Destination, Fragments, Requests, SendStage, Slot};
use crate::raw::{RawSliceMut, RequestId};

/// Bytes that are read at a time where they do not go straight to their target.
const AT_A_TIME: usize = 16 << 10;

/// The turn of an eager message has come. True if all of it is out.
pub(crate) fn push_eager(cx: &mut Cx, to: u32, slot: Slot) -> bool {
    let Some(Channel::Fabric(link)) = cx.peers.channel(to) else {
        return false;
    };
    let link = *link;
    let Some(sending) = cx.requests.known_send(slot) else {
        return true;
    };
    let (data, len) = (&sending.data, sending.data.len());
    let (at, gone) = match sending.stage {
        SendStage::Fragments(Fragments { at, .. }) => (at, cx.fabric.go_on(link, data, at)),
        _ => {
            let immediate = sending.immediate;
            let form = (frame::message_kind(frame::EAGER, immediate), sending.tag);
            match cx.fabric.begin(link, form, immediate, data, (0, len)) {
                Some(gone) => (0, gone),
                None => return false,
            }
        }
    };
    let at = at + gone;
    if at == len {
        send::finish_send(cx, slot, Path::Network);
        return true;
    }
    sending.stage = SendStage::Fragments(Fragments::new(at, len));
    false
}

/// A long record has begun: its first bytes are here.
pub(crate) fn on_begun(cx: &mut Cx, from: u32, link: Link, form: Form, first: &[u8]) {
    if let Err(wrong) = begin(cx, from, link, form, first) {
        cx.peers.violated(from, wrong);
    }
}

fn begin(cx: &mut Cx, from: u32, link: Link, form: Form, first: &[u8]) -> Result<(), Violation> {
    let missing = u64::from(form.len).saturating_sub(first.len() as u64);
    let (coming, here) = match Frame::decode(from, form.kind, form.tag, first)? {
        Frame::Eager(envelope, body) => {
            let end = body.len() + missing;
            let to = assembly::destination(cx, envelope, (end, Path::Network), false)?;
            let cut = true;
            (Coming { to, end, cut }, body.len())
        }
        Frame::FragmentInline(Transfer::Asked { receive, at }, body) => {
            let end = at.checked_add(body.len() + missing).ok_or(UNWANTED)?;
            let to = Destination::Receive(RequestId(receive));
            let cut = false;
            (Coming { to, end, cut }, body.len())
        }
        _ => return Err("a long record of a kind of which all are short"),
    };
    cx.fabric.set_coming(link, coming);
    let bytes = &first[first.len() - here as usize..];
    let (requests, store) = (&mut cx.requests, cx.matching.store());
    let came = target(requests, store, from, coming, here + missing)?.take(bytes)?;
    came.note(cx, from);
    Ok(())
}

/// More of a long record may be there, of which so many bytes are missing. True if there was, or if
/// the connection has ended.
pub(crate) fn on_more(cx: &mut Cx, from: u32, link: Link, left: u64) -> bool {
    let Some(coming) = cx.fabric.coming(link) else {
        return false;
    };
    let taken = match receive(cx, from, link, coming, left) {
        Ok((taken, came)) => {
            if taken == left {
                cx.fabric.has_come(link);
            }
            came.note(cx, from);
            taken
        }
        Err(wrong) => {
            cx.peers.violated(from, wrong);
            0
        }
    };
    taken > 0 || !cx.fabric.is_connected(link)
}

/// Receives the next bytes of a record, of which so many are missing: to their target if that is in
/// one slice. Gives their number too.
fn receive(
    cx: &mut Cx,
    from: u32,
    link: Link,
    coming: Coming,
    left: u64,
) -> Result<(u64, Came), Violation> {
    let mut gathered = [MaybeUninit::<u8>::uninit(); AT_A_TIME];
    let (requests, store) = (&mut cx.requests, cx.matching.store());
    let mut target = target(requests, store, from, coming, left)?;
    let straight = target.memory(left, AT_A_TIME)?;
    let into = straight.unwrap_or(RawSliceMut {
        start: gathered.as_mut_ptr().cast(),
        len: AT_A_TIME.min(usize::try_from(left).unwrap_or(AT_A_TIME)),
    });
    // SAFETY: it is the room of a receive that is under way, spare room of a message that is kept,
    // or the array above; each has so many bytes.
    let got = unsafe { cx.fabric.receive(link, into.start, into.len) };
    let came = match straight {
        // SAFETY: so many bytes have just been written there.
        Some(_) => unsafe { target.has_come(got) },
        None => {
            // SAFETY: so many bytes have just been written there.
            target.take(unsafe { core::slice::from_raw_parts(gathered.as_ptr().cast(), got) })?
        }
    };
    Ok((got as u64, came))
}

/// Where the next bytes go of a record of which so many are missing.
fn target<'a>(
    requests: &'a mut Requests,
    store: &'a mut UnexpectedStore,
    from: u32,
    coming: Coming,
    left: u64,
) -> Result<ReceiveTarget<'a>, Violation> {
    let Coming { to, end, cut } = coming;
    let at = end.saturating_sub(left);
    ReceiveTarget::find(requests, store, from, to, (at, left), cut)
}
