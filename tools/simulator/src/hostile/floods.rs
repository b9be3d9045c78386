//! Floods: more of something than a victim can take.

use std::collections::VecDeque;

use limic::raw::{Messages, Posted, RawSlice, Requests};
use limic::{HybridEndpoint, Peer, Tag};
use limic_shm::control::Socket;

use super::{all_over, note};
use crate::schedule::give_way;
use crate::script::MOST_KEPT;
use crate::sim;

/// Messages of a flood that nobody receives: more than a receiver may keep.
const MESSAGES: u64 = MOST_KEPT + 2000;
/// Turns after which one of them is taken to be held back for good.
const TURNS: u32 = 100;
/// Connections that one holds at most.
const HELD: usize = 200;
/// The tag of such a message.
const UNWANTED: u64 = 0xf100d;

/// Floods one victim in one way.
pub(super) fn flood(me: usize, endpoint: &HybridEndpoint, victims: &[(usize, Peer)]) {
    let Some(&(victim, peer)) = sim::with(|sim| sim.rng.choice(victims)) else {
        return;
    };
    match sim::with(|sim| sim.rng.u32(0..3)) {
        0 => connections(me, victim),
        1 => words(me),
        _ => {
            note("flood of messages that nobody receives");
            sim::with(|sim| sim.board.flooded = Some(victim));
            messages(me, endpoint, peer);
            sim::with(|sim| {
                sim.board.flooded = None;
                sim.happened += 1;
            });
        }
    }
}

/// Connections that are made, held for a while and say nothing.
fn connections(me: usize, victim: usize) {
    note("endless flood of connections");
    let (id, most) = sim::with(|sim| {
        let mut listeners = sim.listeners.iter();
        let of_victim = listeners.find(|(_, process)| **process == victim);
        (of_victim.map(|(id, _)| *id), sim.rng.usize(1..HELD))
    });
    let mut held = VecDeque::new();
    // Faster than anybody accepts.
    sim::with(|sim| sim.processes[me].hurries = true);
    while !sim::with(|sim| all_over(sim, me)) {
        for _ in 0..sim::with(|sim| sim.rng.usize(1..256)) {
            let Some(Ok(channel)) = id.map(Socket::connect) else {
                break;
            };
            held.push_back(channel);
            if held.len() > most {
                held.pop_front();
            }
        }
        rest();
    }
}

/// Messages over its sockets that mean nothing and break no rule.
fn words(me: usize) {
    note("endless flood of words");
    while !sim::with(|sim| all_over(sim, me)) {
        let fds: Vec<i32> = sim::with(|sim| {
            let fds = sim.processes[me].descriptors.iter();
            fds.copied().collect()
        });
        for fd in fds {
            let (word, flags) = ([99_u8; 4], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
            // SAFETY: sends bytes of the caller's; it fails for what is no socket, was closed, or
            // takes no more.
            while unsafe { libc::send(fd, word.as_ptr().cast(), word.len(), flags) } > 0 {}
        }
        rest();
    }
}

/// Messages that nobody receives, as many as go.
fn messages(me: usize, endpoint: &HybridEndpoint, victim: Peer) {
    let bytes: &[u8] = &[7; 8];
    for _ in 0..MESSAGES {
        // SAFETY: the bytes live for ever.
        let posted = unsafe { endpoint.post_send(victim, Tag(UNWANTED), &[RawSlice::from(bytes)]) };
        let id = match posted {
            Ok(Posted::Done(Ok(_))) => continue,
            Ok(Posted::Pending(id)) => id,
            Ok(Posted::Done(Err(_))) | Err(_) => return,
        };
        let mut turns = 0;
        while endpoint.test(id).is_none() {
            turns += 1;
            if turns == TURNS || sim::with(|sim| all_over(sim, me)) {
                return;
            }
            rest();
        }
    }
}

/// Gives others a turn, and lets time pass if all of them are asleep, or stopped.
fn rest() {
    sim::with(|sim| {
        let me = sim.current.expect("a process");
        let mut others = (0..sim.processes.len()).filter(|one| *one != me);
        if !others.any(|one| sim.is_ready(&sim.processes[one])) {
            sim.processes[me].stopped_until = sim.now + (1 << sim.rng.u32(10..33));
        }
    });
    give_way();
}
