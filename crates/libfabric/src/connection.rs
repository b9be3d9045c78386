//! One connection.

use std::collections::{BTreeMap, VecDeque};

use limic_ofi_abi::fi_addr_t;

use crate::pool::Slot;

/// What the peer has given to this side: its packets show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The peer's number of the connection.
    pub(crate) number: u32,
    pub(crate) token: u64,
}

/// A connection that is over here, and may not be at its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    /// What the peer's packets show.
    pub(crate) token: u64,
    /// What the peer's side is called, if it has said so.
    pub(crate) remote: Option<Remote>,
    pub(crate) address: fi_addr_t,
}

/// A packet that is to go: its bytes are those up to `len`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) slot: Slot,
    pub(crate) len: usize,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The peer.
    pub(crate) id: u64,
    /// Its secret: nobody else calls in its name.
    pub(crate) secret: u64,
    pub(crate) address: fi_addr_t,
    /// What this side has given to the peer.
    pub(crate) token: u64,
    /// `None` until the peer has answered, or called.
    pub(crate) remote: Option<Remote>,
    /// The packet that messages are copied into.
    pub(crate) open: Option<Outgoing>,
    /// Messages follow at once: they wait for each other.
    pub(crate) corked: bool,
    /// Packets that the provider has not taken yet.
    pub(crate) queue: VecDeque<Outgoing>,
    /// Packets that it has, whose completion was not read.
    pub(crate) posted: usize,
    /// Reads that it has.
    pub(crate) reading: usize,
    /// Packets of messages so far.
    pub(crate) sent: u64,
    /// The number of the next packet of the peer.
    pub(crate) expected: u64,
    /// The same at the last look at the clock.
    pub(crate) seen: u64,
    /// Packets that have overtaken it; whether they say goodbye.
    pub(crate) early: BTreeMap<u64, (bool, Vec<u8>)>,
    /// It is in the list of those whose packets are to be tried again.
    pub(crate) listed: bool,
    /// A message was refused since: the caller has more for this peer, and will call again.
    pub(crate) refused: bool,
    /// It is among those that hold messages back.
    pub(crate) holds: bool,
    /// A wait for room was given up, and all that waited is not out yet.
    pub(crate) had_time: bool,
    /// This side has said goodbye, which answers that of the peer too.
    pub(crate) leaving: bool,
    /// Something came since the clock was looked at.
    pub(crate) heard: bool,
    /// Something has gone since.
    pub(crate) moved: bool,
    /// Looks at the clock at which nothing could go, or a packet was missing.
    pub(crate) stuck: u32,
    pub(crate) missing: u32,
}

impl Connection {
    pub(crate) fn new(id: u64, secret: u64, address: fi_addr_t, token: u64) -> Self {
        Self {
            id,
            secret,
            address,
            token,
            remote: None,
            open: None,
            corked: false,
            queue: VecDeque::new(),
            posted: 0,
            reading: 0,
            sent: 0,
            expected: 0,
            seen: 0,
            early: BTreeMap::new(),
            listed: false,
            refused: false,
            holds: false,
            had_time: false,
            leaving: false,
            heard: false,
            moved: false,
            stuck: 0,
            missing: 0,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.remote.is_some()
    }

    /// Packets that are neither free nor gone.
    pub(crate) fn packets(&self) -> usize {
        self.posted + self.queue.len() + usize::from(self.open.is_some())
    }

    /// Keeps count of the connections that hold messages. A caller that has more for a peer than
    /// there is room for has to call again in any case, and other calls do not wait for that peer.
    /// `by_looks`: what is posted moves only when it is polled.
    pub(crate) fn note_held(&mut self, by_looks: bool, holding: &mut u32) {
        let posted = if by_looks { self.posted } else { 0 };
        let waits = posted + self.queue.len() + usize::from(self.open.is_some()) > 0;
        self.had_time &= waits;
        self.refused &= waits;
        let holds = self.is_ready() && waits && !self.refused && !self.had_time;
        let held = core::mem::replace(&mut self.holds, holds);
        *holding = *holding + u32::from(holds) - u32::from(held);
    }
}
