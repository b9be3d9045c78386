//! What the hostile process does until the honest ones are done.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use limic::{Endpoint, HybridEndpoint, OwnedSend, Peer, Selector};
use limic_tests::attacker::{Scribble, Stopper, intrude, writable_segments};
use limic_tests::process::{die, pass, socket_name};
use limic_tests::{Random, Rank};
use nix::sys::socket::{MsgFlags, send};

/// When it ends, if the honest ones do not say that they are done.
const LIMIT: Duration = Duration::from_secs(50);

/// What the hostile process does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// It writes into the segment of its own endpoint while it sends and receives.
    Own(Scribble),
    /// It writes into the segments of the honest ones.
    Theirs(Scribble),
    /// It connects to the sockets of the honest ones.
    FloodSockets,
    /// It stops and goes on while it sends and receives.
    StopAndGoOn,
    /// It dies; its child writes into the segment, and holds the sockets.
    DieWithChild,
}

impl Act {
    /// It reaches what the honest ones share with each other, so it can change and withhold their
    /// messages.
    pub(crate) fn reaches_the_pair(self) -> bool {
        matches!(self, Self::Theirs(_))
    }
}

/// The file by which an honest rank says that it is done.
pub(crate) fn done(rank: &Rank, who: u32) -> PathBuf {
    rank.directory.join(format!("done-{who}"))
}

/// Attacks until both are done.
pub(crate) fn run(
    rank: &Rank,
    attack: Act,
    endpoint: &HybridEndpoint,
    peers: &[Peer],
    own: &[Range<usize>],
) {
    let until = Instant::now() + LIMIT;
    let going = || Instant::now() < until && !(0..2).all(|who| done(rank, who).exists());
    let mut random = Random::new(rank.seed);
    match attack {
        Act::Own(scribble) => {
            let mut sends = Vec::new();
            scribble_while(going, scribble, &mut random, own, || {
                talk(endpoint, peers, &mut sends);
            });
        }
        Act::Theirs(scribble) => {
            let mut theirs = writable_segments();
            theirs.retain(|mapping| !own.contains(mapping));
            assert!(!theirs.is_empty(), "it has met the others");
            scribble_while(going, scribble, &mut random, &theirs, || {});
        }
        Act::FloodSockets => {
            let names: Vec<_> = peers[..2]
                .iter()
                .map(|peer| socket_name(&endpoint.peer_address(*peer).expect("known")))
                .collect();
            flood(going, &mut random, &names);
        }
        Act::StopAndGoOn => {
            let _stopper = Stopper::start();
            let mut sends = Vec::new();
            while going() {
                talk(endpoint, peers, &mut sends);
            }
        }
        Act::DieWithChild => {
            // SAFETY: the child uses what it has mapped, and no lock of this process; it ends
            // without a destructor.
            let child = unsafe { libc::fork() };
            if child != 0 {
                assert!(child > 0, "fork");
                die();
            }
            scribble_while(going, Scribble::Words, &mut random, own, || {});
        }
    }
}

fn scribble_while(
    going: impl Fn() -> bool,
    scribble: Scribble,
    random: &mut Random,
    mappings: &[Range<usize>],
    mut between: impl FnMut(),
) {
    while going() {
        for _ in 0..20 {
            // SAFETY: no more than any peer of the endpoint that uses them may do.
            unsafe { scribble.once(random, mappings) };
        }
        between();
        // The honest ones need the processors, too.
        pass(Duration::from_micros(200));
    }
}

/// Connections that say nothing, or garbage, of which some are held.
fn flood(going: impl Fn() -> bool, random: &mut Random, names: &[String]) {
    let mut held: Vec<OwnedFd> = Vec::new();
    while going() {
        for name in names {
            let Ok(connection) = intrude(name) else {
                held.clear();
                continue;
            };
            let Some(socket) = connection else { continue };
            let garbage: Vec<u8> = (0..random.below(300))
                .map(|_| random.next_u64() as u8)
                .collect();
            // It may be refused and closed by now.
            let _ = send(socket.as_raw_fd(), &garbage, MsgFlags::MSG_NOSIGNAL);
            if random.below(2) == 0 {
                held.push(socket);
            }
        }
        std::thread::yield_now();
    }
}

/// Messages as an honest process sends and receives them.
fn talk<'e>(
    endpoint: &'e HybridEndpoint,
    peers: &[Peer],
    sends: &mut Vec<OwnedSend<'e, HybridEndpoint>>,
) {
    for (to, len) in peers[..2].iter().zip([9000, 300_000]) {
        if sends.len() < 16 {
            sends.extend(endpoint.isend(*to, 1_u64, vec![1; len]));
        }
        if let Ok(Some(claimed)) = endpoint.matched_probe(Selector::any_tag(*to)) {
            drop(claimed);
        }
    }
    sends.retain_mut(|send| !send.test());
}
