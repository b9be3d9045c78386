//! An endpoint whose messages the kernel module matches. The life of a message, file by
//! file:
//!
//! 1. `send`: posted; the module copies it into a receive that waits, keeps it if it is short, or
//!    pins and queues it;
//! 2. `receive`: a receive from one peer goes to the module at once, and meets its message there,
//!    whoever comes first. One from any source waits in this process (`queue`) and finds its
//!    message by a probe, and so do receives that could otherwise overtake it;
//! 3. `completion`: how it went shows in mapped memory, and becomes the outcome of the request.
//!
//! Beside that: `peers`, which are the ranks of a group of the module, `regions` for one-sided
//! access, `loans`, `waiting`, `closing`. There is no shared segment and no socket: all that two
//! endpoints have in common is the module.

mod claims;
mod closing;
mod completion;
mod endpoint;
mod loans;
mod one_sided;
mod peers;
mod queue;
mod receive;
mod region_directory;
mod regions;
mod send;
mod waiting;

use std::os::fd::OwnedFd;

use limic_bootstrap::launcher;
use limic_copy::{
    Access, CallError, CopyEngine, Ended, Group, KmodPair, KmodPeer, LocalSlice, Messages, News,
    Posted as InModule, RemoteRange,
};
use limic_shm::bytes::{ReceiveBuffer, SendBuffer};
use limic_shm::process::Process;
use rustix::event::epoll;

use crate::counters::{self, Counters, Recorder, Traffic};
use crate::engine::matching::deaths::Deaths;
use crate::engine::request::{OperationKind, Requests, Slot};
use crate::error::Outcome;
use crate::settings::{Settings, is_oversubscribed};
use crate::{Address, Error, Result, Selector};

use claims::Claims;
pub use endpoint::KernelEndpoint;
use loans::Loans;
use peers::Peers;
use queue::Queue;
use regions::Regions;

/// Requests in the module at a time. Further ones wait in this process.
const SLOTS: u32 = 1024;
/// Unexpected messages that the module keeps for an endpoint. Senders wait while there are more.
const UNEXPECTED: u32 = 16384;

/// One operation.
enum Operation {
    /// None, or it is done.
    Over,
    Send(Sending),
    Receive(Receiving),
}

impl OperationKind for Operation {
    const OVER: Self = Self::Over;

    /// Never asked for: the posted queue is the module's.
    fn posted(_: limic_matching::PostedId, _: ReceiveBuffer) -> Self {
        Self::Over
    }
}

/// Where an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the module, in this of its slots.
    Module(u32),
    /// In this process: in the backlog, or among the receives that wait for a probe.
    Here,
}

impl Operation {
    /// Where it is, unless it is over.
    fn place(&self) -> Option<Place> {
        match self {
            Self::Send(sending) => Some(sending.place),
            Self::Receive(receiving) => Some(receiving.place),
            Self::Over => None,
        }
    }
}

struct Sending {
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: SendBuffer,
    /// The bytes, if they were in more slices than the module takes; `data` is about these then.
    #[expect(dead_code, reason = "keeps alive what `data` points to")]
    gathered: Option<Vec<u8>>,
    place: Place,
}

struct Receiving {
    selector: Selector,
    into: ReceiveBuffer,
    place: Place,
    /// The module could not take it, for want of memory that it may pin: found by probes, copied by
    /// this side.
    probing: bool,
}

/// An endpoint.
pub(crate) struct KernelEngine {
    settings: Settings,
    address: Address,
    group: u64,
    /// `None` once it is closed.
    module: Option<Module>,
    peers: Peers,
    requests: Requests<Operation>,
    queue: Queue,
    claims: Claims,
    deaths: Deaths,
    regions: Regions,
    loans: Loans,
    counters: Recorder,
    spins: u32,
    /// The process that opened the endpoint: the session is no forked child's.
    process: Process,
    wake: OwnedFd,
}

/// The session with the module, and what goes on in it.
struct Module {
    messages: Messages,
    /// For one-sided access: between this session and its whole group.
    pair: KmodPair,
    group: KmodPeer,
    /// Slots of the module that are free; one of them is kept for requests that are over within
    /// their call.
    free: Vec<u32>,
    /// Those in use, with the requests in them.
    posted: Vec<(u32, Slot)>,
    /// What the module had told when this side looked last.
    seen: News,
}

impl Module {
    /// A slot for a request that may stay.
    fn take(&mut self) -> Option<u32> {
        if self.free.len() > 1 {
            self.free.pop()
        } else {
            None
        }
    }
}

/// What became of a request that was offered to the module.
enum Offered {
    Over(Outcome),
    /// In this slot of the module.
    Queued(u32),
    /// Not now: all slots are in use, the module has no room for it, too much is pinned, or the
    /// endpoint is closed.
    Busy,
}

impl core::fmt::Debug for KernelEngine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KernelEngine")
            .field("address", &self.address)
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}

impl KernelEngine {
    /// Opens a session, joins the group, and exposes the list of regions.
    fn open(settings: Settings) -> Result<Self> {
        limic_shm::ring::instructions::choose(settings.copy().wanted());
        // Without a job, as under Hydra, which names none, it is the group of this user.
        let (wanted, job) = (settings.kernel_group(), launcher::job());
        let group = Group::named(wanted, &job.unwrap_or_default()).map_err(|wrong| {
            let wanted = wanted.unwrap_or_default();
            Error::Settings(format!("LIMIC_KERNEL_GROUP={wanted}: {wrong}"))
        })?;
        let messages = Messages::open(SLOTS, UNEXPECTED, group)
            .map_err(|refused| Error::Settings(format!("the kernel module: {refused}")))?;
        let (pair, members) = messages.shared();
        let regions = Regions::new();
        let listed = regions.list_bytes();
        let mut range = [RemoteRange::default()];
        // SAFETY: the list stays where it is until it is taken back, or the session is over, and is
        // written by atomics alone.
        unsafe { pair.expose(&[listed], Access::Read, &mut range) }
            .map_err(|error| Error::NoMemory(format!("the list of regions: {error}")))?;
        let mut address = Address::generate()?;
        address.id = range[0].key;
        address.secret = 0;
        let fingerprint = messages.group();
        peers::describe(&mut address, messages.rank(), fingerprint);
        let counters = Recorder::new(address.id, settings.numa_node())
            .map_err(|error| Error::Segment(error.to_string()))?;
        if let Some(target) = settings.stats() {
            counters::exit_report::watch(&counters, address.id, target).map_err(Error::Settings)?;
        }
        let wake = wake_fd(&messages).map_err(|error| Error::system("epoll", error))?;
        let peers = Peers::new(messages.rank(), counters.shared_row());
        Ok(Self {
            address,
            group: fingerprint,
            peers,
            requests: Requests::new(),
            queue: Queue::default(),
            claims: Claims::default(),
            deaths: Deaths::default(),
            regions,
            loans: Loans::new(settings.loan_bytes()),
            counters,
            spins: settings.spin_polls(is_oversubscribed(1)),
            process: Process::current(),
            wake,
            module: Some(Module {
                seen: messages.news(),
                messages,
                pair,
                group: members,
                free: (0..SLOTS).rev().collect(),
                posted: Vec::new(),
            }),
            settings,
        })
    }

    /// Moves everything on once. True if anything moved. In vain it costs one look at a cache line
    /// that the module writes when something happened.
    #[inline]
    fn poll(&mut self) -> bool {
        let Some(module) = &mut self.module else {
            return false;
        };
        let news = module.messages.news();
        if news == module.seen && !self.queue.look && self.queue.backlog.is_empty() {
            return false;
        }
        let before = core::mem::replace(&mut module.seen, news);
        self.move_on(before, news)
    }

    /// Hands a request to the module; `end` makes its outcome if it is over at once. One trap.
    fn offer(
        &mut self,
        call: impl FnOnce(&Messages, u32) -> core::result::Result<InModule, CallError>,
        end: impl FnOnce(&mut Self, Option<Ended>) -> Outcome,
    ) -> core::result::Result<Offered, CallError> {
        let Some(module) = &mut self.module else {
            return Ok(Offered::Busy);
        };
        let Some(slot) = module.take() else {
            return Ok(Offered::Busy);
        };
        let called = call(&module.messages, slot);
        if called == Ok(InModule::Pending) {
            return Ok(Offered::Queued(slot));
        }
        let ended = module.messages.ended(slot);
        module.free.push(slot);
        called.map(|_| Offered::Over(end(self, ended)))
    }

    fn move_on(&mut self, before: News, news: News) -> bool {
        let mut moved = false;
        if news.completions != before.completions {
            moved |= self.collect();
        }
        if self.queue.look || news.arrivals != before.arrivals {
            self.queue.look = false;
            moved |= self.serve();
            self.keep_reserved();
        }
        if news.departures != before.departures {
            moved |= self.look_who_left();
        }
        moved | self.flush()
    }

    /// What was moved so far.
    fn counters(&self) -> Counters {
        let peers = |pick: fn((Traffic, Traffic)) -> Traffic| {
            let rows = self.peers.traffic();
            rows.map(|(peer, traffic)| (peer, pick(traffic))).collect()
        };
        Counters {
            sent: peers(|(sent, _)| sent),
            received: peers(|(_, received)| received),
            ..self.counters.page().counters
        }
    }
}

/// A set with the session in it: unlike another descriptor of the session, it does not keep it
/// open.
fn wake_fd(messages: &Messages) -> rustix::io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &set,
        messages.descriptor(),
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN,
    )?;
    Ok(set)
}

/// Slices of a buffer as the module takes them.
fn local(slices: &[crate::raw::RawSlice]) -> Vec<LocalSlice> {
    let there = slices.iter().filter(|slice| slice.len > 0);
    there.map(|s| LocalSlice::new(s.start, s.len)).collect()
}
