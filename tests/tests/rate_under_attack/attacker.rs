//! What the third process does.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use limic::{Endpoint, HybridEndpoint, OwnedRecv, OwnedSend, Peer, RegionKey, Tag};
use limic_tests::attacker::{Scribble, Stopper, intrude};
use limic_tests::process::{descriptor_numbers, socket_name, vanish};
use limic_tests::{Random, Rank};
use nix::sys::socket::{MsgFlags, Shutdown, SockType, getsockopt, send, shutdown, sockopt};

use super::{Plan, window};

/// Bytes of the region that each process has.
pub(super) const REGION: usize = 1 << 20;

/// What the third does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
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
    /// It reads some bytes of regions of theirs with their help.
    Read,
    /// It reads whole regions so.
    ReadLong,
    /// It is stopped and goes on while it sends and reads.
    Stop,
    /// It ends while it sends and reads, and a child of it lives on: it has all its descriptors.
    Fork,
}

impl Act {
    /// Whether its reads need the help of the regions' owners.
    pub(super) fn is_helped(self) -> bool {
        matches!(self, Self::Read | Self::ReadLong | Self::Stop | Self::Fork)
    }
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
    stopper: Option<Stopper>,
    has_forked: bool,
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
            Act::Read => self.read(8, 2000),
            Act::ReadLong => self.read(REGION, 16),
            Act::Stop => {
                self.stopper.get_or_insert_with(Stopper::start);
                self.send();
                self.read(REGION, 16);
            }
            Act::Fork => self.fork(),
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

    /// Keeps so many reads of so many bytes under way.
    fn read(&self, len: usize, most: usize) {
        let mut reads = self.reads.borrow_mut();
        for (from, region) in self.peers[..2].iter().zip(self.regions) {
            if reads.len() < most {
                reads.extend(self.endpoint.iread(*from, *region, 0, vec![0; len]));
            }
        }
        if reads.len() == most {
            reads.retain_mut(|read| !read.test());
        }
    }

    fn fork(&mut self) {
        if !self.has_forked {
            self.has_forked = true;
            self.send();
            self.read(REGION, 16);
            // SAFETY: the child takes no lock but those of the C library, which a fork leaves free.
            match unsafe { libc::fork() } {
                // SAFETY: ends the child if nothing else does.
                0 => drop(unsafe { libc::alarm(60) }),
                child => {
                    assert!(child > 0, "fork");
                    vanish();
                }
            }
        }
        self.write(SockType::SeqPacket, &[99; 4]);
        self.write(SockType::Stream, &[1]);
    }
}

/// What this process had before it had peers, and the regions of all.
pub(super) struct Before {
    pub(super) descriptors: Vec<i32>,
    pub(super) segments: Vec<Range<usize>>,
    pub(super) regions: Vec<RegionKey>,
}

pub(super) fn attack(
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
        stopper: None,
        has_forked: false,
    };
    // The directory goes away if the others fail.
    while rank.directory.exists() && !rank.directory.join("over").exists() {
        if plan.is_attacked(window()) {
            (0..100).for_each(|_| attacker.once(act));
        }
    }
    drop(attacker.stopper);
    vanish();
}
