//! An endpoint is opened: a segment, a socket to be found at, and nothing else.

use std::os::fd::AsFd;

use limic_matching::HeapMatcher;
use limic_shm::control::{Bell, Event, EventSet, Listener, Trigger};
use limic_shm::ring::shared::SharedConsumer;
use limic_shm::ring::sleep::{Barrier, Sleeper};
use limic_shm::ring::{PackedFlags, ReleaseFlags};
use limic_shm::segment::{Geometry, LOAN_FLAGS, OwnSegment, Placement, Shape};

use super::arenas::Arenas;
use super::given_up::GivenUp;
use super::inputs::Inputs;
use super::peers::Peers;
use super::poller::Poller;
use super::pool::Pool;
use super::regions::Regions;
use super::requests::Requests;
use super::stash::Stash;
use super::{Core, Engine, Work, connections};
use crate::counters::{self, Tally};
use crate::kmod::Device;
use crate::policy::Path;
use crate::settings::Settings;
use crate::single_copy::Probe;
use crate::topology::Whereabouts;
use crate::{Address, Error, Result};

impl Engine {
    /// Opens an endpoint: a segment, a socket to be found at, and nothing else.
    pub(crate) fn open(settings: Settings) -> Result<Self> {
        let text = |error: &dyn core::fmt::Display| Error::Segment(error.to_string());
        let barrier = Barrier::detect();
        let wanted = settings.segment();
        let shape = Shape {
            shared_slots: wanted.shared_slots,
            private_rings: wanted.private_rings,
            ring_bytes: wanted.ring_bytes,
            chunks: wanted.chunks,
            chunk_bytes: wanted.chunk_bytes,
            ..Shape::DEFAULT
        };
        let geometry = Geometry::new(shape).map_err(|e| Error::Settings(e.to_string()))?;
        let whereabouts = Whereabouts::find_out();
        let placement = Placement {
            numa_node: settings
                .numa_node()
                .or_else(|| whereabouts.place().numa_node()),
            huge_pages: settings.huge_pages(),
        };
        let segment = OwnSegment::create(geometry, placement).map_err(|e| text(&e))?;
        let mut address = Address::generate()?;
        let remote = super::remote::Remote::open(&settings, &mut address)?;
        let listener =
            Listener::bind(address.id).map_err(|e| Error::system("listening socket", e))?;
        let events = EventSet::new().map_err(|e| Error::system("epoll", e))?;
        let bell = Bell::new().map_err(|e| Error::system("eventfd", e))?;
        bell.watch(&events, connections::BELL)
            .map_err(|e| Error::system("epoll", e))?;
        events
            .add(listener.as_fd(), connections::LISTENER, Trigger::Level)
            .map_err(|e| Error::system("epoll", e))?;
        let adapters = remote.wake_fds();
        for adapter in &adapters {
            events
                .add(adapter.as_fd(), connections::ADAPTER, Trigger::Level)
                .map_err(|e| Error::system("epoll", e))?;
        }
        let poller = Poller::new(&events).map_err(|e| Error::system("epoll", e))?;
        let sleeper = Sleeper::new(segment.sleep(), barrier).map_err(|e| text(&e))?;
        let pool_flags =
            ReleaseFlags::new(segment.pool_flags(), shape.pool_pages()).map_err(|e| text(&e))?;
        let loan_flags =
            PackedFlags::new(segment.loan_flags(), LOAN_FLAGS).map_err(|e| text(&e))?;
        let shared =
            SharedConsumer::new(segment.shared_ring(), shape.shared_slots).map_err(|e| text(&e))?;
        // Unknown to peers, who could else choose tags that all fall into one bin.
        let seed = crate::address::random()?;
        let mut matcher = HeapMatcher::with_seed(Default::default(), seed);
        matcher
            .reserve(1024, 1024)
            .map_err(|full| Error::NoMemory(format!("the matching queues: {full}")))?;
        let tally = Tally::new(address.id, placement.numa_node).map_err(|e| text(&e))?;
        if let Some(target) = settings.stats() {
            target.check().map_err(Error::Settings)?;
            counters::at_end::watch(&tally, address.id, target);
        }
        let mut core = Core {
            whereabouts,
            peers: Peers::new(tally.shared_row()),
            requests: Requests::new(),
            matcher,
            stash: Stash::new(),
            remote,
            pool: Pool::new(segment.pool(), pool_flags, shape.chunk_bytes),
            arenas: Arenas::new(
                loan_flags,
                placement,
                usize::try_from(settings.loan_bytes()).unwrap_or(usize::MAX),
            ),
            regions: Regions::default(),
            given_up: GivenUp::default(),
            tally,
            work: Work::default(),
            free_rings: (0..shape.private_rings).rev().collect(),
            opened: Vec::new(),
            meets: (0..shape.meet_words).rev().collect(),
            endings: Vec::new(),
            dead_links: Vec::new(),
            unreported: Vec::new(),
            any_outlives: false,
            waiting_to_connect: Vec::new(),
            loans_in_flight: Vec::new(),
            region_users: Vec::new(),
            aside: None,
            set_aside: std::collections::VecDeque::new(),
            stalled: false,
            closed: false,
            process: std::process::id(),
            pressed: false,
            owner: 0,
            crowded: 0,
            next_to_look_at: 0,
            none_ahead_since_ns: 0,
            spins: settings.spin_polls(1),
            polls_alone: settings.spin_polls(1),
            sleeper,
            poller,
            barrier,
            device: Device::open(settings.allowed().contains(Path::Kmod)),
            probe_word: Probe::new(address.secret.rotate_left(31)),
            connections: Vec::new(),
            events,
            event_buffer: vec![Event::default(); 64],
            _adapters: adapters,
            listener,
            spare: Vec::new(),
            user: rustix::process::geteuid().as_raw(),
            deaf_since: None,
            accepts: true,
            connects: true,
            bell,
            timer: None,
            segment,
            address,
            settings,
        };
        core.keep_spare();
        Ok(Self {
            inputs: Inputs::new(shared),
            core,
            calls: 0,
            directly: 0,
        })
    }
}
