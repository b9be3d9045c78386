//! An endpoint is opened: a segment, a socket to be found at, and nothing else.

use limic_copy::KmodBackend;
use limic_policy::Path;
use limic_policy::select::LONGEST_RECYCLED;
use limic_policy::select::fragments::BUFFERS_IN_FRAGMENT;
use limic_pools::arena::Arenas;
use limic_pools::staging::{self, StagingPool};
use limic_shm::idle::{Poller, Wakeup};
use limic_shm::owner::OwnSplits;
use limic_shm::ring::shared::SharedConsumer;
use limic_shm::ring::wakeup::{AsymmetricFence, Sleeper};
use limic_shm::ring::{PackedFlags, ReleaseFlags, instructions};
use limic_shm::segment::{Geometry, LOAN_FLAGS, OwnSegment, Placement, Shape};
use limic_topology::OwnPlace;

use super::cx::Cx;
use super::fabric::FabricChannel;
use super::identity::Identity;
use super::matching::Matching;
use super::memory::OwnMemory;
use super::peer::greeting;
use super::peer::quarantine::Quarantine;
use super::peer::sockets::Sockets;
use super::peer::table::Peers;
use super::progress::rings::ReceiveRings;
use super::regions::Regions;
use super::request::Requests;
use super::transfers::Transfers;
use crate::counters::{self, Recorder};
use crate::settings::{Settings, is_oversubscribed};
use crate::{Address, Error, Result};

// What the selector sends as a reply in recycled buffers, the peer may keep.
const _: () = assert!(LONGEST_RECYCLED == staging::LONGEST_RECYCLED);

/// The rings that a new endpoint reads, and everything else of it.
pub(crate) fn open(settings: Settings) -> Result<(ReceiveRings, Cx)> {
    let text = |error: &dyn core::fmt::Display| Error::Segment(error.to_string());
    instructions::choose(settings.copy().wanted());
    let fence = AsymmetricFence::detect();
    let geometry = geometry(&settings)?;
    let place = OwnPlace::find_out();
    let placement = Placement {
        numa_node: settings.numa_node().or_else(|| place.place().numa_node()),
        huge_pages: settings.huge_pages(),
    };
    let segment = OwnSegment::create(geometry, placement).map_err(|e| text(&e))?;
    let shape = segment.shape();
    let mut address = Address::generate()?;
    let mut fabric = FabricChannel::open(&settings, &mut address)?;
    fabric.set_hello(&greeting::hello(&address));
    let sockets = Sockets::new(address.id, fabric.wake_fds())?;
    let poller = Poller::new(sockets.events()).map_err(|e| Error::system("epoll", e))?;
    let oversubscribed = is_oversubscribed(1);
    let spins = settings.spin_polls(oversubscribed);
    let sleeper = Sleeper::new(segment.sleep(), fence).map_err(|e| text(&e))?;
    let staging_flags =
        ReleaseFlags::new(segment.staging_flags(), shape.staging_pages()).map_err(|e| text(&e))?;
    let loan_flags = PackedFlags::new(segment.loan_flags(), LOAN_FLAGS).map_err(|e| text(&e))?;
    let shared =
        SharedConsumer::new(segment.shared_ring(), shape.shared_slots).map_err(|e| text(&e))?;
    let seed = crate::address::random()?;
    let counters = Recorder::new(address.id, placement.numa_node).map_err(|e| text(&e))?;
    if let Some(target) = settings.stats() {
        counters::exit_report::watch(&counters, address.id, target).map_err(Error::Settings)?;
    }
    let loan_bytes = usize::try_from(settings.loan_bytes()).unwrap_or(usize::MAX);
    let cx = Cx {
        identity: Identity::new(address, place),
        requests: Requests::new(),
        matching: Matching::new(seed, settings.unexpected_budget_bytes())?,
        peers: Peers::new(counters.shared_row()),
        sockets,
        quarantine: Quarantine::default(),
        staging: StagingPool::new(
            segment.staging(),
            staging_flags,
            shape.staging_buffer_bytes,
            BUFFERS_IN_FRAGMENT * u64::from(shape.staging_buffer_bytes),
        ),
        arenas: Arenas::new(loan_flags, placement, loan_bytes),
        regions: Regions::default(),
        transfers: Transfers::new(
            KmodBackend::open(settings.allowed().contains(Path::Kmod)),
            OwnSplits::new(&segment),
        ),
        fabric,
        wakeup: Wakeup::new(sleeper, poller, fence, spins, oversubscribed),
        counters,
        memory: OwnMemory::new(segment),
        settings,
    };
    Ok((ReceiveRings::new(shared), cx))
}

fn geometry(settings: &Settings) -> Result<Geometry> {
    let wanted = settings.segment();
    let shape = Shape {
        shared_slots: wanted.shared_slots,
        private_rings: wanted.private_rings,
        ring_bytes: wanted.ring_bytes,
        staging_buffers: wanted.staging_buffers,
        staging_buffer_bytes: wanted.staging_buffer_bytes,
        ..Shape::DEFAULT
    };
    Geometry::new(shape).map_err(|e| Error::Settings(e.to_string()))
}
