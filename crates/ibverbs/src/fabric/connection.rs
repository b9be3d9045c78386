//! One connection: its streams, and what is on its way through them.

use std::collections::VecDeque;
use std::time::Instant;

use super::FabricAddress;
use super::doubt::Doubt;
use super::greeting::Offer;
use super::ring::{Pause, RingIn, RingOut};
use super::spread::Spread;
use super::transfer::Part;
use crate::VerbsError;
use crate::objects::{Bytes, QueuePair, QueuePairState};
use crate::packet::{Form, Packing, Sequence};

/// Something that was posted and has not completed.
#[derive(Debug)]
pub(super) enum Posted {
    /// A packet, in one of the packet buffers.
    Packet { buffer: u32, len: u32 },
    /// A part of a transfer.
    Part(Part),
    /// A question whether the peer lives.
    Ping,
}

/// A queue pair and its account.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) pair: QueuePair,
    pub(super) rail: usize,
    /// The peer's, whose keys count.
    pub(super) rail_there: usize,
    /// Free entries of the send queue.
    pub(super) free: u16,
    pub(super) unsignalled: u16,
    /// In the order of posting, with their numbers.
    pub(super) posted: VecDeque<(u32, Posted)>,
    pub(super) next: u32,
}

impl Stream {
    /// Whether the next request has to ask for a completion: half of the entries are without, or it
    /// is needed.
    pub(super) fn must_signal(&self, entries: u16) -> bool {
        self.unsignalled + 1 >= entries.div_ceil(2)
    }
}

/// A stream that is made anew (`mending`).
#[derive(Debug)]
pub(super) struct Mend {
    pub(super) place: usize,
    pub(super) rail: usize,
    pub(super) rail_there: usize,
    /// The peer is told at each of its rails in turn, since the stream goes by another rail now.
    pub(super) in_turn: bool,
    /// What there is of it.
    pub(super) stream: Option<Stream>,
    pub(super) since: Instant,
    /// When the peer is told of it, and how often it was.
    pub(super) next: Instant,
    pub(super) tries: u32,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Greetings go out until the peer is known and has heard this side.
    Greeting {
        since: Instant,
        next: Instant,
        tries: u32,
        /// Why the last one did not go out.
        unsent: Option<VerbsError>,
    },
    Ready,
}

/// What is known of a peer beyond its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The last connection.
    pub(super) connection: u32,
    /// The last attempt of the peer that was heard and is over: its greetings may come late.
    pub(super) over: u32,
}

/// A packet that waits for an entry, and takes further messages meanwhile.
#[derive(Debug)]
pub(super) struct OpenPacket {
    pub(super) buffer: u32,
    pub(super) packing: Packing,
    /// A wait for an entry was given up.
    pub(super) had_time: bool,
}

/// The ring that a peer writes into.
#[derive(Debug)]
pub(super) struct OwnRing {
    // The registration before its memory.
    pub(super) _registered: Spread,
    pub(super) memory: Bytes,
    pub(super) reader: RingIn,
    pub(super) pause: Pause,
    /// How often it was paused.
    pub(super) pauses: u32,
    /// Packets that came otherwise since then.
    pub(super) beside: u32,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) secret: u64,
    pub(super) address: FabricAddress,
    pub(super) stage: Stage,
    /// This side's count of its attempts to connect, and the peer's as heard.
    pub(super) attempt: u32,
    pub(super) heard: u32,
    /// What the peer says about itself to the layer above.
    pub(super) hello: Vec<u8>,
    /// The stream's place never changes; one that failed is `None`.
    pub(super) streams: Vec<Option<Stream>>,
    /// Those that are made anew, and how often the stream of each place was.
    pub(super) mends: Vec<Mend>,
    pub(super) rounds: Vec<u32>,
    /// An adapter of this side was left, perhaps with packets that the peer sends no more.
    pub(super) doubt: Option<Doubt>,
    /// Times that the last stream has failed since a request succeeded.
    pub(super) in_vain: u32,
    /// Bytes of the largest packet that both take.
    pub(super) packet_bytes: u32,
    pub(super) sequence: u32,
    pub(super) last_sent: Option<Form>,
    pub(super) open: Option<OpenPacket>,
    /// More messages follow at once: the open packet waits for them even if an entry is free.
    pub(super) corked: bool,
    /// Packets of a stream that failed, which wait to go by another: buffer and length.
    pub(super) again: VecDeque<(u32, u32)>,
    pub(super) ring_out: Option<RingOut>,
    pub(super) ring_in: Option<Box<OwnRing>>,
    /// The peer asked for a pause of its ring, and waits for the answer.
    pub(super) owes_pause: bool,
    pub(super) arrivals: Sequence,
    pub(super) last_received: Option<Form>,
    /// Packets received, to know who talks a lot.
    pub(super) received: u32,
    /// Parts of transfers that wait for an entry.
    pub(super) waiting: VecDeque<Part>,
    /// The stream that the next part goes to.
    pub(super) turn: usize,
    pub(super) heard_at: Instant,
    pub(super) pinged_at: Instant,
}

impl Connection {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Since when nothing goes to the peer until it makes a call.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        match self.stage {
            Stage::Greeting { since, .. } => Some(since),
            Stage::Ready if self.live_streams() > 0 => None,
            Stage::Ready => self.mends.iter().map(|mend| mend.since).max(),
        }
    }

    /// Whether there is no stream, and none is made anew.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_ready() && self.live_streams() == 0 && self.mends.is_empty()
    }

    /// Whether packets may come that nobody gives notice of.
    pub(super) fn must_be_polled(&self) -> bool {
        let ring = self.ring_in.as_ref();
        ring.is_some_and(|ring| ring.pause != Pause::Granted)
    }

    /// Its streams, as the peer is told of them.
    pub(super) fn offers(&self) -> Vec<Offer> {
        let offer = |place: usize, stream: &Stream, is_used| Offer {
            place: place as u8,
            rail: stream.rail as u8,
            round: self.rounds[place],
            is_connected: stream.pair.state() == QueuePairState::Connected,
            is_used,
            pair: stream.pair.as_remote(),
        };
        let used = self.streams.iter().enumerate();
        let used = used
            .filter_map(|(place, stream)| Some(offer(place, stream.as_ref()?, self.is_ready())));
        let mends = self.mends.iter();
        let mends = mends.filter_map(|mend| Some(offer(mend.place, mend.stream.as_ref()?, false)));
        used.chain(mends).collect()
    }

    /// The queue pair of a rail with this number.
    pub(super) fn pair(&self, rail: usize, number: u32) -> Option<&QueuePair> {
        let mends = self.mends.iter().filter_map(|mend| mend.stream.as_ref());
        let mut streams = self.streams.iter().flatten().chain(mends);
        let found = streams.find(|it| it.rail == rail && it.pair.number() == number)?;
        Some(&found.pair)
    }

    pub(super) fn live_streams(&self) -> usize {
        self.streams.iter().flatten().count()
    }

    /// The stream for packets: the first that is alive: small messages go on a fixed one.
    pub(super) fn control_stream(&mut self) -> Option<(usize, &mut Stream)> {
        self.streams
            .iter_mut()
            .enumerate()
            .find_map(|(number, stream)| Some((number, stream.as_mut()?)))
    }
}
