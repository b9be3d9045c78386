//! What comes over the fabric: records, and the reads of long messages.

use limic_ibverbs::fabric::{ConnectionFailure, ConnectionId, Event, Inbox, RemoteRange};
use limic_ibverbs::objects::Access;

use super::super::Core;
use super::super::requests::{Incoming, ReceiveStage, Slot};
use super::super::stash::Offer;
use super::contact::failure;
use crate::RequestId;
use crate::buffer::{Source, words};
use crate::policy::Path;

/// Events handled before the rings get their turn.
const BATCH: usize = 32;

/// A payload that came in a packet: a private copy.
struct Came<'a>(&'a [u8]);

impl Source for Came<'_> {
    fn len(&self) -> u64 {
        Source::len(self.0)
    }
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { Source::get(self.0, at, to, len) }
    }
}

impl Core {
    /// Takes what came over the fabric. True if anything did.
    pub(crate) fn poll_remote(&mut self) -> bool {
        let mut inbox = core::mem::take(&mut self.remote.inbox);
        let mut moved = false;
        for _ in 0..BATCH {
            let event = self.remote.fabric.as_mut().and_then(|f| f.poll(&mut inbox));
            let Some(event) = event else { break };
            moved = true;
            self.on_event(event, &inbox);
        }
        self.remote.inbox = inbox;
        self.remote.publish(&self.tally);
        moved
    }

    fn on_event(&mut self, event: Event, inbox: &Inbox) {
        match event {
            Event::Messages => {
                let from = self.remote.peers.get(&inbox.connection()).copied();
                let Some(from) = from else { return };
                for (form, payload) in inbox.messages() {
                    self.on_record(from, form.kind, form.tag, &Came(payload));
                }
            }
            Event::Connected {
                connection,
                peer,
                hello,
            } => self.on_connected(connection, peer, &hello),
            Event::Transferred { token, result } => {
                self.on_read(token, result.err().map(|error| error.to_string()));
            }
            Event::Failed { connection, why } => {
                if let Some(number) = self.remote.peers.remove(&connection) {
                    if why != ConnectionFailure::Closed {
                        tracing::warn!("the connection with peer {number} is over: {why}");
                    }
                    self.fail_peer(number, failure(why));
                }
            }
        }
    }

    /// Starts the transfer of a matched message: a read by RDMA if both ends are registered, else in packets.
    pub(crate) fn accept_remote(
        &mut self,
        slot: Slot,
        offer: &Offer,
        incoming: Incoming,
        wire: u32,
    ) {
        let id = self.requests.id(slot);
        let room =
            self.requests
                .receiving(slot)
                .and_then(|receiving| match receiving.into.slices() {
                    [one] => Some(*one),
                    _ => None,
                });
        if offer.key != 0
            && let Some(room) = room
            && let Some(fabric) = &mut self.remote.fabric
        {
            let len = incoming.wanted as usize;
            // SAFETY: the room is the operation's until it is over, which is when the read is, or when its queue pairs are
            // destroyed (`disconnect`). The registration is dropped before the operation completes, or kept: peers have no key for
            // it, so that only reads which this endpoint starts write there.
            let read = unsafe { fabric.register_again(room.start, len, Access::LOCAL) }
                .map_err(|error| error.to_string())
                .and_then(|spread| {
                    let remote = RemoteRange {
                        start: offer.address,
                        keys: offer.key,
                    };
                    // SAFETY: as above.
                    unsafe { fabric.read(ConnectionId(wire), remote, &spread, 0, len, id.0) }
                        .map_err(|error| error.to_string())?;
                    Ok(spread)
                });
            match read {
                Ok(spread) => {
                    self.remote.reading.insert(id.0, spread);
                    let mut incoming = incoming;
                    incoming.path = Path::RcRendezvous;
                    if let Some(receiving) = self.requests.receiving(slot) {
                        receiving.stage = ReceiveStage::Reading(incoming);
                    }
                    return;
                }
                Err(why) => tracing::debug!("a message comes in packets: {why}"),
            }
        }
        let mut incoming = incoming;
        incoming.path = Path::RcEager;
        self.ask_for_stream(slot, &incoming);
    }

    /// A read is over.
    fn on_read(&mut self, token: u64, failed: Option<String>) {
        self.remote.reading.remove(&token);
        let Some(slot) = self.requests.find(RequestId(token)) else {
            return;
        };
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let ReceiveStage::Reading(incoming) = receiving.stage else {
            return;
        };
        match failed {
            None => self.finish_receive(slot, &incoming),
            Some(why) => {
                tracing::warn!(
                    "rc-rendezvous with peer {}: {why}; using packets",
                    incoming.from
                );
                self.ask_for_stream(slot, &incoming);
            }
        }
    }

    /// A peer wants to be asked before it is sent to, or does no longer.
    pub(crate) fn on_pressed(&mut self, from: u32, source: &impl Source) {
        let [pressed] = words::<1>(source);
        self.remote.ask_first.retain(|peer| *peer != from);
        if pressed != 0 {
            self.remote.ask_first.push(from);
        }
    }
}
