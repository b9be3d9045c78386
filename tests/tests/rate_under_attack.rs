//! Two honest processes exchange messages while a third one of the same job does nothing but
//! attack them: they lose nothing.
//!
//! The third first only keeps a processor busy, as any process may, and then attacks for as long.
//! The rates of these two times are printed, and what is kept of the first: the machine and its
//! processors count alike in both. Of each time the best windows count, in which nobody else used
//! the processors.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use limic::settings::{Path, PathSet, Settings};
use limic::{Endpoint, HybridEndpoint, OwnedRecv, OwnedSend, Peer, RegionKey, Tag};
use limic_tests::attacker::{Scribble, intrude, writable_segments};
use limic_tests::process::{descriptor_numbers, monotonic_ns, socket_name, vanish};
use limic_tests::{Cast, Random, Rank};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::socket::{MsgFlags, Shutdown, SockType, getsockopt, send, shutdown, sockopt};
use nix::unistd::Pid;

const HOSTILE: u32 = 2;
/// As long as messages have the same length.
const WINDOW_NS: u64 = 100_000_000;
/// Before the attack, and as many during it.
const WINDOWS: u64 = 20;
/// One that goes at once, and one that is copied in parts or by its receiver.
const LENGTHS: [usize; 2] = [8, 1 << 20];
const ECHO: Tag = Tag(1);
const OVER: Tag = Tag(2);

/// When the third begins to attack: the number of a window, which is the same for all.
#[derive(Clone, Copy)]
struct Plan {
    attack: u64,
}

impl Plan {
    /// All processes have met, and make it together.
    fn make(rank: &Rank) -> Self {
        let told = rank.link.exchange(&(window() + 2 + WINDOWS).to_le_bytes());
        let attack = told[0].as_deref().and_then(|bytes| bytes.try_into().ok());
        Self {
            attack: u64::from_le_bytes(attack.expect("a number")),
        }
    }

    fn is_attacked(self, window: u64) -> bool {
        window >= self.attack
    }

    fn has_begun(self, window: u64) -> bool {
        window + WINDOWS >= self.attack
    }

    fn is_over(self, window: u64) -> bool {
        window >= self.attack + WINDOWS
    }
}

fn window() -> u64 {
    monotonic_ns() / WINDOW_NS
}

/// What the third does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// It writes into its own segment, which the others read and write.
    Scribble,
    /// It connects to the others' sockets, and says nothing, or garbage.
    Connect,
    /// It sends over the connections that it has with them.
    Say,
    /// It rings the others' bells.
    Ring,
    /// It shuts them down, so that nobody can ring.
    Silence,
    /// It sends messages, short and long, that nobody receives.
    Send,
    /// It reads regions of theirs with their help.
    Read,
}

/// What the attack needs, and holds.
struct Attacker<'e> {
    endpoint: &'e HybridEndpoint,
    peers: &'e [Peer],
    names: Vec<String>,
    own: Vec<Range<usize>>,
    /// Those that came with the endpoint and its peers.
    sockets: Vec<(SockType, i32)>,
    random: Random,
    held: Vec<OwnedFd>,
    sends: RefCell<Vec<OwnedSend<'e, HybridEndpoint>>>,
    /// Of all processes.
    regions: &'e [RegionKey],
    reads: RefCell<Vec<OwnedRecv<'e, HybridEndpoint>>>,
}

impl Attacker<'_> {
    fn once(&mut self, act: Act) {
        match act {
            Act::Scribble => {
                for _ in 0..100 {
                    // SAFETY: no more than any peer of this endpoint may do.
                    unsafe { Scribble::Words.once(&mut self.random, &self.own) };
                }
                self.endpoint.progress();
            }
            Act::Connect => self.connect(),
            Act::Say => self.write(SockType::SeqPacket, &[99; 4]),
            Act::Ring => self.write(SockType::Stream, &[1]),
            Act::Silence => self.silence(),
            Act::Send => self.send(),
            Act::Read => self.read(),
        }
    }

    fn connect(&mut self) {
        for name in &self.names {
            let Ok(connection) = intrude(name) else {
                self.held.clear();
                continue;
            };
            let Some(socket) = connection else { continue };
            let garbage = [7; 100];
            if self.random.below(2) == 0 {
                // It may be refused and closed by now.
                let _ = send(socket.as_raw_fd(), &garbage, MsgFlags::MSG_NOSIGNAL);
            }
            if self.random.below(2) == 0 {
                self.held.push(socket);
            }
        }
    }

    /// Writes to all of its Unix sockets of one kind, if they have room.
    fn write(&self, kind: SockType, bytes: &[u8]) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        for descriptor in self.of_kind(kind) {
            // The queue may be full, or the connection ended.
            let _ = send(descriptor, bytes, flags);
        }
    }

    /// Its Unix sockets of one kind.
    fn of_kind(&self, kind: SockType) -> impl Iterator<Item = i32> {
        let all = self.sockets.iter().filter(move |(of, _)| *of == kind);
        all.map(|(_, descriptor)| *descriptor)
    }

    /// Shuts down whatever bell it can reach.
    fn silence(&self) {
        for bell in self.of_kind(SockType::Stream) {
            // It may be shut down already.
            let _ = shutdown(bell, Shutdown::Both);
        }
    }

    fn send(&self) {
        let mut sends = self.sends.borrow_mut();
        for to in &self.peers[..2] {
            if sends.len() < 64 {
                let len = [8, 8, 8, 5000, 300_000][sends.len() % 5];
                sends.extend(self.endpoint.isend(*to, Tag(77), vec![1; len]));
            }
        }
        sends.retain_mut(|send| !send.test());
    }

    fn read(&self) {
        let mut reads = self.reads.borrow_mut();
        for (from, region) in self.peers[..2].iter().zip(self.regions) {
            if reads.len() < 2000 {
                reads.extend(self.endpoint.iread(*from, *region, 0, vec![0; 8]));
            }
        }
        if reads.len() == 2000 {
            reads.retain_mut(|read| !read.test());
        }
    }
}

/// What this process had before it had peers, and the regions of all.
struct Before {
    descriptors: Vec<i32>,
    segments: Vec<Range<usize>>,
    regions: Vec<RegionKey>,
}

fn attack(
    rank: &Rank,
    (act, plan): (Act, Plan),
    endpoint: &HybridEndpoint,
    peers: &[Peer],
    before: &Before,
) {
    let address = |peer: &Peer| socket_name(&endpoint.peer_address(*peer).expect("known"));
    let mut descriptors = descriptor_numbers();
    descriptors.retain(|number| !before.descriptors.contains(number));
    let sockets = descriptors.into_iter().filter_map(|number| {
        // SAFETY: used for nothing but to ask what it is, and errors are answers too.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        Some((getsockopt(&descriptor, sockopt::SockType).ok()?, number))
    });
    let mut attacker = Attacker {
        endpoint,
        peers,
        names: peers[..2].iter().map(address).collect(),
        own: before.segments.clone(),
        sockets: sockets.collect(),
        random: Random::new(rank.seed),
        held: Vec::new(),
        sends: RefCell::default(),
        regions: &before.regions,
        reads: RefCell::default(),
    };
    while !rank.directory.join("over").exists() {
        if plan.is_attacked(window()) {
            (0..100).for_each(|_| attacker.once(act));
        }
    }
    vanish();
}

/// Exchanges of each window, by its number, as far as they lie within it.
type Windows = HashMap<u64, u64>;

/// Exchanges a second in the best quarter of some windows.
fn best(windows: &Windows) -> f64 {
    let mut counts: Vec<u64> = windows.values().copied().collect();
    counts.sort_unstable_by_key(|count| Reverse(*count));
    counts.truncate(counts.len().div_ceil(4));
    let ns = counts.len() as f64 * WINDOW_NS as f64;
    counts.iter().sum::<u64>() as f64 / (ns / 1e9)
}

fn ask(rank: &Rank, (act, plan): (Act, Plan), endpoint: &HybridEndpoint, other: Peer) {
    let mut rates: [[Windows; 2]; LENGTHS.len()] = Default::default();
    let mut data = vec![0x5A; 1 << 20];
    let mut back = vec![0; 1 << 20];
    let mut number = 0_u64;
    loop {
        let began = window();
        if plan.is_over(began) {
            break;
        }
        number += 1;
        let kind = (began % 2) as usize;
        let len = LENGTHS[kind];
        data[..8].copy_from_slice(&number.to_le_bytes());
        endpoint
            .send_recv(other, ECHO, &data[..len], (other, ECHO), &mut back[..len])
            .expect("an honest peer");
        assert!(back[..len] == data[..len], "message {number} has changed");
        if plan.has_begun(began) && window() == began {
            let attacked = usize::from(plan.is_attacked(began));
            *rates[kind][attacked].entry(began).or_default() += 1;
        }
    }
    endpoint.send(other, OVER, b"").expect("an honest peer");
    std::fs::write(rank.directory.join("over"), "").expect("the shared directory");
    for (len, [busy, attacked]) in LENGTHS.iter().zip(rates) {
        let (busy, attacked) = (best(&busy), best(&attacked));
        let kept = attacked / busy;
        println!(
            "REPORT: {act:?}, {len} bytes: {attacked:.0} exchanges a second under attack, \
             {busy:.0} beside a busy process: {kept:.2}"
        );
    }
}

fn answer(endpoint: &HybridEndpoint, other: Peer) {
    let mut room = vec![0; 1 << 20];
    loop {
        let from = limic::Selector::any_tag(other);
        let status = endpoint.recv(from, &mut room).expect("an honest peer");
        if status.tag == OVER {
            return;
        }
        let bytes = &room[..status.len as usize];
        endpoint.send(other, ECHO, bytes).expect("an honest peer");
    }
}

/// Keeps to one processor: the third has one of its own, so that what it does there takes none away
/// from the others. Where there are two, these share the other one.
fn stay(rank: &Rank) {
    let all = sched_getaffinity(Pid::this()).expect("affinity");
    let count = CpuSet::count();
    let cpus: Vec<usize> = (0..count)
        .filter(|cpu| all.is_set(*cpu) == Ok(true))
        .collect();
    let at = match rank.rank {
        HOSTILE => 0,
        honest => honest as usize + 1,
    };
    let mut own = CpuSet::new();
    own.set(cpus[at.min(cpus.len() - 1)]).expect("a processor");
    sched_setaffinity(Pid::this(), &own).expect("affinity");
}

fn take_part(rank: &Rank, act: Act) {
    stay(rank);
    let descriptors = descriptor_numbers();
    let mut settings = Settings::builder();
    if matches!((act, rank.rank), (Act::Read, HOSTILE)) {
        settings = settings.allowed(PathSet::EMPTY.with(Path::Pipeline));
    }
    let settings = settings.build().expect("settings");
    let endpoint = HybridEndpoint::with(settings).expect("open");
    let segments = writable_segments();
    let peers = rank.connect(&endpoint);
    // All have met all, over rings of their own.
    for _ in 0..40 {
        for other in (0..3).filter(|other| *other != rank.rank) {
            let (to, mut room) = (peers[other as usize], [0; 8]);
            endpoint
                .send_recv(to, 5_u64, &[1; 8], (to, 5), &mut room)
                .expect("exchange");
        }
    }
    let region = endpoint.region(vec![0; 8]).expect("a region");
    let keys = rank.link.exchange(&region.key().0.to_le_bytes());
    let key = |bytes: Option<Vec<u8>>| {
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        RegionKey(u64::from_le_bytes(bytes.expect("a key")))
    };
    let regions = keys.into_iter().map(key).collect();
    rank.link.meet(&endpoint);
    let plan = Plan::make(rank);
    match rank.rank {
        HOSTILE => {
            let before = Before {
                descriptors,
                segments,
                regions,
            };
            attack(rank, (act, plan), &endpoint, &peers, &before);
        }
        0 => ask(rank, (act, plan), &endpoint, peers[1]),
        _ => answer(&endpoint, peers[0]),
    }
}

fn run(name: &str, act: Act) {
    Cast::new(name)
        .ranks(3)
        .alone()
        .run(|rank| take_part(rank, act));
}

macro_rules! attacks {
    ($($name:ident: $act:expr;)+) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name), $act);
            }
        )+
    };
}

attacks! {
    a_peer_that_scribbles_costs_no_message: Act::Scribble;
    a_flood_of_connections_costs_no_message: Act::Connect;
    a_flood_over_the_sockets_costs_no_message: Act::Say;
    a_bell_that_rings_all_the_time_costs_no_message: Act::Ring;
    bells_that_are_shut_down_cost_no_message: Act::Silence;
    a_flood_of_messages_costs_no_message: Act::Send;
    a_flood_of_one_sided_reads_costs_no_message: Act::Read;
}
