//! One endpoint from inside. The life of a message, file by file:
//!
//! 1. `short`, `send`: posted; goes through the ring at once, or in memory in `hand`, or into the backlog, or is offered;
//! 2. `attach`: if it is the first to this peer, the two endpoints meet;
//! 3. `inputs`: the receiver finds the record in a ring;
//! 4. `receive`: it meets its receive, if one is `posted`, or waits `unexpected` in the `stash`;
//!    a short one is there; one in pieces is `inbound`, since its sender sends it `in_pieces`;
//! 5. `rendezvous`: for a long one a path is picked, and its bytes move in `streams` through the `pool`,
//!    by `copies`, by `both_sides`, or not at all (`loans`);
//! 6. `requests`: the operation is done and waits to be asked for.
//!
//! Beside that: messages go `ahead` of receivers that lag, `fitting` to where peers run, on paths that are `measured`;
//! `one_sided` access, `idle` waiting, and `failure` of peers, also of some that live on (`given_up`).

mod accepting;
mod ahead;
pub(crate) mod arenas;
mod attach;
#[cfg_attr(not(feature = "cma"), path = "no_both_sides.rs")]
mod both_sides;
mod calls;
mod cancel;
mod closing;
mod connections;
mod copies;
mod direct;
mod direct_pieces;
mod exposed;
mod failure;
mod fitting;
mod given_up;
mod greeting;
mod hand;
mod hand_over;
mod idle;
mod in_hand;
pub(crate) mod in_pieces;
mod inbound;
mod inputs;
mod kept;
mod lender;
pub(crate) mod loans;
mod measured;
mod one_sided;
mod open;
mod operations;
mod pages;
mod peer_arenas;
pub(crate) mod peers;
mod poller;
mod pool;
mod posted;
mod receive;
mod regions;
#[cfg_attr(not(feature = "ibverbs"), path = "no_remote.rs")]
mod remote;
mod rendezvous;
pub(crate) mod requests;
mod send;
pub(crate) mod short;
mod stash;
mod streams;
#[cfg(test)]
mod test_peers;
mod to_self;
mod told;
mod unexpected;
mod waiting;
mod wire;

use std::collections::VecDeque;

use limic_matching::HeapMatcher;
use limic_shm::control::{Bell, Event, EventSet, Listener, Timer};
use limic_shm::ring::sleep::{Barrier, Sleeper};
use limic_shm::segment::OwnSegment;

use crate::counters::{Counters, Tally, Traffic};
use crate::error::PeerFailure;
use crate::kmod::Device;
use crate::policy::Skew;
use crate::raw::{ClaimId, RequestId};
use crate::settings::{Settings, Spin};
use crate::single_copy::Probe;
use crate::topology::Whereabouts;
use crate::{Address, Peer};

use self::arenas::Arenas;
use self::given_up::GivenUp;
use self::inputs::Inputs;
use self::peers::Peers;
use self::pool::Pool;
use self::regions::Regions;
use self::requests::{Requests, Slot};
use self::stash::Stash;

/// Progress calls between two looks at the sockets while messages flow.
const SOCKETS_WHILE_BUSY: u32 = 4096;

/// What has to be pushed from time to time.
#[derive(Default)]
pub(crate) struct Work {
    /// Peers with a backlog.
    backlogged: Vec<u32>,
    /// Sends that go through chunks.
    streams: VecDeque<Slot>,
    /// Single copies under way.
    copies: VecDeque<Slot>,
}

/// Everything but the rings that are read: so a record can be handled while its ring is borrowed.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) address: Address,
    whereabouts: Whereabouts,
    peers: Peers,
    requests: Requests,
    matcher: HeapMatcher,
    stash: Stash,
    remote: remote::Remote,
    pool: Pool,
    arenas: Arenas,
    regions: Regions,
    given_up: GivenUp,
    tally: Tally,
    work: Work,
    /// Private rings that nobody has.
    free_rings: Vec<u32>,
    /// Private rings that were switched to and are not read yet.
    opened: Vec<(u32, u32)>,
    /// Meet words that no copy uses.
    meets: Vec<u32>,
    /// Connections that ended; the peers fail after their last records were read.
    endings: Vec<(u32, PeerFailure)>,
    /// Peers that are gone, with the ring they had.
    dead_links: Vec<(u32, Option<u32>)>,
    /// Deaths that no receive from any source has reported yet.
    unreported: Vec<(u32, PeerFailure)>,
    /// They report none.
    any_outlives: bool,
    /// Peers whose first contact was put off.
    waiting_to_connect: Vec<u32>,
    /// Loans that went as ordinary messages.
    loans_in_flight: Vec<(RequestId, u64)>,
    /// Reads of regions under way.
    region_users: Vec<(RequestId, u32)>,
    /// Messages with this tag under this mask are not for matching, but for `take_aside`.
    aside: Option<(u64, u64)>,
    /// Those that have come, in order.
    set_aside: VecDeque<ClaimId>,
    /// A sender stands between claim and publication in the shared ring.
    stalled: bool,
    closed: bool,
    /// The process that opened the endpoint: a forked child has a copy of it that is not its own.
    process: u32,
    /// Senders were asked to offer instead of sending, since too much waits unexpected.
    pressed: bool,
    owner: u32,
    /// Pieces of long messages that go through chunks, since the peer does not run at the same time.
    crowded: u32,
    /// Since when no message has gone ahead of its receiver; 0 if that is not known.
    none_ahead_since_ns: u64,
    /// The peer to whose hand-over is looked next.
    next_to_look_at: u32,
    /// Polls before yielding.
    spins: u32,
    /// Those of a wait, which are fewer if what it waits for needs this processor.
    polls_alone: u32,
    sleeper: Sleeper<limic_shm::ring::Mapped>,
    /// Whoever polls the descriptor.
    poller: poller::Poller,
    barrier: Barrier,
    probe_word: Probe,
    device: Device,
    connections: Vec<Option<connections::Connection>>,
    events: EventSet,
    event_buffer: Vec<Event>,
    /// The adapters' completion channels, which lie in the set of events.
    _adapters: Vec<std::os::fd::OwnedFd>,
    listener: Listener,
    /// Given up when no other descriptors are free for those that a peer sends.
    spare: Vec<std::os::fd::OwnedFd>,
    /// The effective user when the endpoint was opened.
    user: u32,
    /// Since when nobody is accepted, or some are not heard, if so.
    deaf_since: Option<std::time::Instant>,
    /// The last connection was accepted, and heard; if not, that was said.
    accepts: bool,
    /// The last first contact met no limit of this process; if it did, that was said.
    connects: bool,
    bell: Bell,
    /// Ends sleeps on the descriptor of the event set that nobody rings for; made when the first one needs it.
    timer: Option<Timer>,
    segment: OwnSegment,
}

/// An endpoint.
pub(crate) struct Engine {
    inputs: Inputs,
    pub(crate) core: Core,
    calls: u32,
    /// Receives that went past the queues, or tried to, since all had their turn.
    directly: u32,
}

impl core::fmt::Debug for Engine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine")
            .field("address", &self.core.address)
            .field("peers", &self.core.peers)
            .field("requests", &self.core.requests)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Moves everything on once. True if anything moved.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        self.progress_but(None)
    }

    /// The same without a look at the private ring of a peer.
    #[inline]
    pub(crate) fn progress_but(&mut self, peer: Option<u32>) -> bool {
        let mut moved = self.inputs.drain(&mut self.core, peer);
        self.calls = self.calls.wrapping_add(1);
        if self.core.has_chores() || self.calls.is_multiple_of(SOCKETS_WHILE_BUSY) {
            moved |= self.chores();
        }
        moved
    }

    /// What is not there to do in most calls.
    #[cold]
    fn chores(&mut self) -> bool {
        let mut moved = false;
        if self.calls.is_multiple_of(SOCKETS_WHILE_BUSY) {
            self.core.look_where_it_runs();
            self.core.look_at_a_hand_over();
            self.core.give_back_room_ahead();
            self.core.look_at_a_hand(self.calls / SOCKETS_WHILE_BUSY);
        }
        for (ring, peer) in core::mem::take(&mut self.core.opened) {
            self.inputs.open(&mut self.core, ring, peer);
            moved = true;
        }
        if self.core.remote.is_open() {
            moved |= self.core.poll_remote();
        }
        moved |= self.core.push_work();
        if self.core.stalled || self.calls.is_multiple_of(SOCKETS_WHILE_BUSY) {
            self.core.stalled = false;
            moved |= self.core.poll_events(Some(core::time::Duration::ZERO));
        }
        moved | self.bury_dead()
    }

    /// Fails the peers whose connections ended, after what they had published was read. True if one was failed.
    pub(crate) fn bury_dead(&mut self) -> bool {
        if self.core.endings.is_empty() && self.core.dead_links.is_empty() {
            return false;
        }
        for (peer, why) in core::mem::take(&mut self.core.endings) {
            self.inputs.take_last_words(&mut self.core, peer);
            self.core.fail_peer(peer, why);
        }
        for (peer, ring) in core::mem::take(&mut self.core.dead_links) {
            let Some(ring) = ring else { continue };
            self.inputs.leave(ring);
            let kept = self.core.given_up.lives(peer) && self.core.given_up.keep_ring(peer, ring);
            if !kept {
                self.inputs.make_ready(&mut self.core, ring);
            }
        }
        true
    }
}

impl Core {
    /// Anything to push that waits for others' credit.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        !(self.work.backlogged.is_empty()
            && self.work.streams.is_empty()
            && self.work.copies.is_empty()
            && self.waiting_to_connect.is_empty())
    }

    #[inline(always)]
    pub(crate) fn has_chores(&self) -> bool {
        self.has_work()
            | !self.opened.is_empty()
            | !self.endings.is_empty()
            | !self.dead_links.is_empty()
            | !self.loans_in_flight.is_empty()
            | !self.region_users.is_empty()
            | self.remote.is_open()
            | self.stalled
    }

    fn push_work(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(peer) = self.work.backlogged.get(at).copied() {
            moved |= self.flush(peer);
            match self.peers.get(peer) {
                Some(entry) if !entry.backlog.is_empty() => at += 1,
                entry => {
                    if let Some(entry) = entry {
                        entry.listed = false;
                    }
                    self.work.backlogged.swap_remove(at);
                }
            }
        }
        moved |= self.push_streams();
        moved |= self.push_copies();
        self.sweep_loans();
        self.sweep_region_users();
        moved
    }

    /// The next of the watched requests that are done.
    #[inline]
    pub(crate) fn next_finished(&mut self) -> Option<(u64, crate::error::Outcome)> {
        self.requests.next_finished()
    }

    /// The watched request of that name that is not done.
    pub(crate) fn watched(&self, name: u64) -> Option<RequestId> {
        self.requests.watched(name)
    }

    /// Sends that peers have not taken yet. Those to itself nobody takes while this is asked.
    fn has_sends(&mut self) -> bool {
        self.requests.slots().into_iter().any(|slot| {
            let sending = self.requests.sending(slot);
            sending.is_some_and(|sending| sending.stage != requests::SendStage::Local)
        })
    }

    /// What waits for room to peers that can be reached: also the word by which a sender learns that its message was received.
    fn has_backlog(&self) -> bool {
        self.peers.iter().any(|(_, peer)| {
            (peer.link.is_some() || peer.wire.is_some()) && !peer.backlog.is_empty()
        })
    }

    /// Whether there are more endpoints than CPUs, so that a peer may not run at the same time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.spins < streams::FEW_SPINS
    }

    /// More endpoints than CPUs: spinning would keep the very peer from running that is waited for.
    pub(crate) fn adapt_spins(&mut self) {
        let endpoints = self.peers.local.max(self.peers.attached + 1);
        self.spins = self.settings.spin_polls(endpoints);
        if self.remote.is_open() {
            // A poll of an adapter's queue takes some ten times as long as one of a ring.
            self.spins /= 8;
        }
        self.adapt_polls();
    }

    /// The work of an adapter that is none is done by threads of the kernel. Two ranks that poll on two processors leave them
    /// the end of a time slice, which is milliseconds away.
    pub(crate) fn adapt_polls(&mut self) {
        const BESIDE_THE_KERNEL: u32 = 4;
        let few = self.settings.spin() == Spin::Auto && self.remote.needs_processors();
        self.polls_alone = if few {
            self.spins.min(BESIDE_THE_KERNEL)
        } else {
            self.spins
        };
    }

    /// Moved so far.
    pub(crate) fn counters(&self) -> Counters {
        self.remote.publish(&self.tally);
        let peers = |pick: fn((Traffic, Traffic)) -> Traffic| {
            self.peers
                .iter()
                .map(|(number, peer)| (Peer(number), pick(peer.counts.traffic())))
                .collect()
        };
        Counters {
            sent: peers(|(sent, _)| sent),
            received: peers(|(_, received)| received),
            lagging: self.peers_where(|link| link.skew == Skew::Skewed),
            behind: self.peers_where(|link| link.lag.skew() == Skew::Skewed),
            corrections: self.corrections(),
            ..self.tally.page().counters
        }
    }
}
