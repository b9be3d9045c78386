//! A peer that shares memory with this endpoint: its segment, mapped here, and what this pair can
//! do.

use core::cell::Cell;

use limic_heap::place_of;
use limic_policy::autotune::Autotuner;
use limic_policy::select::{Routes, SendState, longest_record};
use limic_policy::slow_receiver::SlowReceiver;
use limic_policy::{Capabilities, LatencyProbe, ReceiverPace};
use limic_pools::arena::PeerArenas;
use limic_pools::staging::{StagingPair, StagingPool, bytes_of_pages};
use limic_shm::control::PeerDoorbell;
use limic_shm::owner::region::{PeerAccess, PeerRegionTable};
use limic_shm::owner::split::PeerSplits;
use limic_shm::owner::status::PeerStatus;
use limic_shm::processor;
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::wakeup::Waker;
use limic_shm::ring::{Mapped, PackedFlags, ReleaseFlags};
use limic_shm::segment::{PeerSegment, ReadOnly};
use limic_topology::{Locality, Place};

use super::copies::SingleCopy;
use crate::counters::Row;
use crate::engine::outbound::Outbound;
use crate::engine::request::EagerAssembly;
use crate::raw::RawSlice;

/// Regions of one peer that are found again at once.
pub(crate) const REGION_CACHE: usize = 8;

/// A pair of endpoints that share memory.
pub(crate) struct ShmPair {
    pub(crate) out: Outbound,
    pub(crate) staging: StagingPair,
    pub(crate) arenas: PeerArenas,
    pub(crate) copies: SingleCopy,
    pub(crate) segment: PeerSegment,
    pub(crate) status: PeerStatus<ReadOnly>,
    pub(crate) regions: PeerRegions,
    pub(crate) splits: PeerSplits<ReadOnly>,
    pub(crate) routes: Routes,
    pub(crate) conditions: Conditions,
    pub(crate) pace: Pace,
    /// The eager message from the peer that is coming in fragments.
    pub(crate) assembly: Option<EagerAssembly>,
    /// The last message to the peer in fragments had to wait for room.
    pub(crate) waited: bool,
    /// Long messages that the peer takes without an offer, by its own word.
    pub(crate) unasked: Unasked,
    /// What was measured of long messages from the peer; made at the first one.
    pub(crate) autotuner: Option<Box<Autotuner>>,
    pub(crate) latency: LatencyProbe,
}

/// Messages that go without an offer, since their receiver has said so of one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unasked {
    /// Bit n is set if it has said so of a message of 2^n bytes or more, and less than twice as
    /// many. Of other lengths it may know a faster path.
    lengths: u64,
    /// Bytes that may still go so.
    left: u64,
}

impl Unasked {
    /// Bytes until some messages are offered again, so that their receiver measures whether another
    /// path is faster by now.
    const BYTES: u64 = 256 << 20;

    /// The receiver says so of a message of `len` bytes.
    pub(crate) fn grant(&mut self, len: u64) {
        self.lengths |= Self::bit(len);
        self.left = Self::BYTES;
    }

    /// Whether it has said so of messages as long as this.
    #[inline]
    fn holds(self, len: u64) -> bool {
        self.lengths & Self::bit(len) != 0
    }

    const fn bit(len: u64) -> u64 {
        match len.checked_ilog2() {
            Some(doublings) => 1 << doublings,
            None => 0,
        }
    }

    /// A message of `len` bytes goes so.
    #[inline]
    pub(crate) fn goes(&mut self, len: u64) {
        self.left = self.left.saturating_sub(len);
        if self.left == 0 {
            self.lengths = 0;
        }
    }
}

/// Where the two ends run, and what they can do: routes follow from it.
pub(crate) struct Conditions {
    /// Where the peer runs; `None` in this process.
    pub(crate) place: Option<Place>,
    pub(crate) locality: Locality,
    pub(crate) capabilities: Capabilities,
}

/// How the two ends keep up with each other.
pub(crate) struct Pace {
    /// How the peer keeps up with this endpoint, by its own word.
    pub(crate) peer: ReceiverPace,
    /// How this endpoint keeps up with the peer.
    pub(crate) own: SlowReceiver,
}

/// The regions that a peer has exposed.
pub(crate) struct PeerRegions {
    /// The peer's table.
    pub(crate) table: PeerRegionTable<ReadOnly>,
    /// Where the peer says which region it accesses.
    pub(crate) access: PeerAccess<ReadOnly>,
    /// Places in the table where regions were found last, by the low bits of their keys.
    pub(crate) cache: [Cell<u32>; REGION_CACHE],
}

impl PeerRegions {
    pub(crate) fn new(segment: &PeerSegment) -> Self {
        Self {
            table: PeerRegionTable::new(segment.regions(), segment.shape().regions),
            access: PeerAccess::new(segment.access()),
            cache: Default::default(),
        }
    }
}

/// What came with the greeting of a peer, mapped and checked, before the two have met.
pub(crate) struct MappedPeer {
    pub(crate) segment: PeerSegment,
    pub(crate) doorbell: PeerDoorbell,
    pub(crate) producer: SharedProducer<Mapped>,
    pub(crate) waker: Waker<Mapped>,
    pub(crate) released: ReleaseFlags<Mapped>,
    pub(crate) loans_released: PackedFlags<Mapped>,
}

impl ShmPair {
    /// A pair that has just met; its routes are to be found out. The peer knows this endpoint by
    /// `my_number`, and runs at `place`; what goes to it is counted in `counts`, and goes through
    /// staging buffers of so many bytes.
    pub(crate) fn new(
        mapped: MappedPeer,
        my_number: u32,
        place: Option<Place>,
        (copies, capabilities): (SingleCopy, Capabilities),
        counts: Row,
        buffer_bytes: u64,
    ) -> Self {
        let segment = mapped.segment;
        Self {
            out: Outbound::new(
                mapped.producer,
                mapped.waker,
                mapped.doorbell,
                counts,
                longest_record(segment.shape().ring_bytes, buffer_bytes),
            ),
            staging: StagingPair::new(segment.staging(), mapped.released),
            arenas: PeerArenas::new(mapped.loans_released),
            copies,
            status: PeerStatus::new(segment.status()),
            regions: PeerRegions::new(&segment),
            splits: PeerSplits::new(
                segment.split_in(),
                segment.split_out(),
                segment.shape().split_copies,
                my_number,
            ),
            segment,
            routes: Routes::default(),
            conditions: Conditions {
                place,
                locality: Locality::SameProcess,
                capabilities,
            },
            pace: Pace {
                peer: ReceiverPace::Steady,
                own: SlowReceiver::default(),
            },
            assembly: None,
            waited: false,
            unasked: Unasked::default(),
            autotuner: None,
            latency: LatencyProbe::new(processor::near_below_ns()),
        }
    }

    /// Whether a record holds an eager message of this length: mostly it waits until there is room
    /// for all of it.
    #[inline(always)]
    pub(crate) fn goes_in_record(&self, len: u64) -> bool {
        len < self.routes.record_below
    }

    /// Whether the peer reads what this endpoint writes from far away.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        self.conditions.locality >= Locality::SamePackage
    }
}

/// What the choice of a protocol for a message to the peer depends on.
#[derive(Clone, Copy)]
pub(crate) struct PairState<'a> {
    pub(crate) pair: &'a ShmPair,
    pub(crate) pool: &'a StagingPool,
    pub(crate) to: u32,
    pub(crate) data: &'a [RawSlice],
    /// The message was tried and did not go: most likely, the ring had no room for it.
    pub(crate) refused: bool,
}

impl SendState for PairState<'_> {
    #[inline(always)]
    fn is_over_budget(&self) -> bool {
        self.pair.status.is_over_budget()
    }

    #[inline(always)]
    fn is_slow(&self) -> bool {
        self.pair.pace.peer == ReceiverPace::Slow
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.refused
    }

    fn is_peer_readable(&self) -> bool {
        place_of(self.data).is_some()
    }

    #[inline(always)]
    fn may_recycle(&self, len: u64) -> bool {
        self.pair.staging.may_recycle(&self.pair.out, len)
    }

    #[inline]
    fn reply_bytes(&self) -> u64 {
        self.pair.staging.reply_bytes()
    }

    #[inline]
    fn is_granted(&self, len: u64) -> bool {
        self.pair.unasked.holds(len)
    }

    fn reply_credit(&self) -> u64 {
        // There must be room for what the peer would keep.
        let room = self.pool.recycled.room_for(self.to);
        let credit = self.pair.staging.credit(&self.pair.out);
        credit.min(bytes_of_pages(room))
    }
}
