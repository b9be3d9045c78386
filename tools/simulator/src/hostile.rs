//! What a process does that breaks the rules: it has an endpoint, has met the others, and writes
//! what it likes into what it has mapped and over its sockets.

mod floods;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::rc::Rc;
use std::time::Duration;

use limic::raw::{Messages, Posted, RawSlice};
use limic::{Endpoint, HybridEndpoint, Peer, Tag};
use limic_shm::control::Socket;
use limic_shm::owner::split::SPLIT_BYTES;
use limic_shm::ring::Memory;
use limic_shm::ring::shared::SharedProducer;
use limic_shm::segment::Areas;
use limic_shm::sync::Ordering;
use limic_shm::system::FIRST_GENERATION;

use crate::schedule::{give_way, wait_for};
use crate::script::{BAIT, BAIT_LEN, Malice, Script};
use crate::sim;

/// The life of such a process.
pub(crate) fn live(me: usize, script: &Rc<Script>) {
    let script = Rc::clone(script);
    let Ok(endpoint) = HybridEndpoint::with(script.settings[me].clone()) else {
        sim::with(|sim| sim.board.addresses[me] = Some(None));
        die(me);
    };
    let address = endpoint.address().to_bytes().to_vec();
    sim::with(|sim| sim.board.addresses[me] = Some(Some(address)));
    wait_for("waits for victims", |sim| {
        let processes = sim.processes.iter().zip(&sim.board.addresses);
        processes.fold(true, |all, (process, address)| {
            all && (address.is_some() || process.is_over())
        })
    });
    let victims: Vec<(usize, Vec<u8>)> = sim::with(|sim| {
        let addresses = sim.board.addresses.iter().enumerate();
        let known = addresses.filter(|(process, _)| *process != me);
        known
            .filter_map(|(process, address)| Some((process, address.clone().flatten()?)))
            .collect()
    });
    let victims = victims.into_iter().filter_map(|(process, address)| {
        let peer = endpoint.connect(&address).ok()?;
        let _ = endpoint.attach(peer);
        Some((process, peer))
    });
    let victims: Vec<(usize, Peer)> = victims.collect();
    let peers: Vec<Peer> = victims.iter().map(|(_, peer)| *peer).collect();
    meet(&endpoint, &peers);
    if script.malice == Malice::Forges && sim::with(|sim| sim.chance(3)) {
        floods::flood(me, &endpoint, &victims);
        die(me);
    }
    let mut held = Vec::new();
    let bait: Box<[u8]> = vec![9; BAIT_LEN].into_boxed_slice();
    for _ in 0..sim::with(|sim| sim.rng.usize(1..40)) {
        if sim::with(|sim| all_over(sim, me)) {
            break;
        }
        if script.malice == Malice::Scribbles && sim::with(|sim| sim.chance(8)) {
            betray(me, &endpoint, &peers, &bait);
            wait_for("has broken the rules", |sim| all_over(sim, me));
            break;
        }
        act(&script, me, &mut held);
        endpoint.progress();
        for _ in 0..sim::with(|sim| sim.rng.usize(0..20)) {
            give_way();
        }
    }
    if sim::with(|sim| sim.rng.bool()) {
        // It lives on, and keeps what it has, and answers or does not.
        let answers = sim::with(|sim| sim.rng.bool());
        while !sim::with(|sim| all_over(sim, me)) {
            if answers {
                endpoint.progress();
            }
            endpoint.sleep(Some(Duration::from_millis(20)));
        }
    }
    die(me);
}

/// It ends as it lived.
fn die(me: usize) -> ! {
    sim::with(|sim| sim.processes[me].state = sim::State::Killed);
    loop {
        give_way();
    }
}

/// Meets the victims, as far as they answer.
fn meet(endpoint: &HybridEndpoint, peers: &[Peer]) {
    for _ in 0..200 {
        let met = peers
            .iter()
            .filter(|peer| matches!(endpoint.attach(**peer), Ok(true)));
        if met.count() == peers.len() {
            return;
        }
        endpoint.sleep(Some(Duration::from_millis(1)));
    }
}

/// Whether all others have ended.
fn all_over(sim: &sim::Sim, me: usize) -> bool {
    let others = sim.processes.iter().enumerate();
    let mut others = others.filter(|(one, _)| *one != me);
    others.all(|(_, process)| process.is_over())
}

/// Offers a message, claims a part of its copy that it never makes, and breaks the rules of the
/// socket.
fn betray(me: usize, endpoint: &HybridEndpoint, peers: &[Peer], bait: &[u8]) {
    send_bait(endpoint, peers, bait);
    for _ in 0..sim::with(|sim| sim.rng.usize(1..200)) {
        give_way();
        claim_blocks(me);
    }
    // A welcome of no version, from one that was welcome.
    let welcome = sim::with(|sim| sim.rng.bool()).then_some([2, 0, 0, 0, 0, 0, 0, 0]);
    // A queue may be full.
    for _ in 0..200 {
        match &welcome {
            Some(welcome) => say(me, welcome),
            None => garbage(me, true),
        }
        give_way();
    }
}

fn act(script: &Script, me: usize, held: &mut Vec<Socket>) {
    let areas = sim::with(|sim| sim.processes[me].areas.clone());
    let target = sim::with(|sim| (!areas.is_empty()).then(|| sim.rng.usize(0..areas.len())));
    let target = target.map(|at| &areas[at]);
    let scribbles = script.malice == Malice::Scribbles;
    let what = sim::with(|sim| sim.rng.u32(0..if scribbles { 8 } else { 4 }));
    match (what, target) {
        (0, Some(areas)) => forge_claim(script, areas),
        (1, _) => forge_access(me),
        (2, _) => flood(me, held),
        (3, _) => garbage(me, sim::with(|sim| sim.chance(4))),
        (4, _) => claim_blocks(me),
        _ if scribbles => scribble(me),
        _ => {}
    }
    // A view that outlives the process would unmap what is gone.
    std::mem::forget(areas);
}

fn note(what: &'static str) {
    sim::with(|sim| {
        sim.counts.fault(what);
        sim.note(|| format!("hostile: {what}"));
    });
}

/// A process, as its number at the others. One that names itself and then does not answer is
/// waited for, as one that is stopped.
fn somebody(script: &Script) -> usize {
    sim::with(|sim| sim.rng.usize(0..script.honest()))
}

/// A claim in the shared ring that names somebody, who never made it.
fn forge_claim(script: &Script, areas: &Areas) {
    let named = somebody(script) as u32;
    let slots = areas.shape().shared_slots;
    let producer = SharedProducer::new(areas.shared_ring(), slots, named);
    if let Ok(mut producer) = producer
        && let Some(reserved) = producer.reserve(0)
    {
        std::mem::forget(reserved);
        note("forged claim");
    }
}

/// It says that it accesses a region, and accesses nothing.
fn forge_access(me: usize) {
    let key = sim::with(|sim| {
        let keys = sim.board.keys.iter().copied().filter(|key| *key != 0);
        let keys: Vec<u64> = keys.collect();
        keys.get(sim.rng.usize(0..keys.len().max(1))).copied()
    });
    let own = sim::with(|sim| sim.processes[me].own.clone());
    if let (Some(key), Some((access, _))) = (key, &own) {
        access.word64(0).store(key, Ordering::Release);
        note("forged access");
    }
    std::mem::forget(own);
}

/// Connections to everybody who listens, held or dropped.
fn flood(me: usize, held: &mut Vec<Socket>) {
    let ids: Vec<u64> = sim::with(|sim| {
        let others = sim.listeners.iter().filter(|(_, process)| **process != me);
        others.map(|(id, _)| *id).collect()
    });
    for id in ids {
        for _ in 0..sim::with(|sim| sim.rng.usize(0..30)) {
            if let Ok(channel) = Socket::connect(id) {
                if sim::with(|sim| sim.rng.bool()) {
                    let mut junk = [0; 100];
                    sim::with(|sim| sim.rng.fill(&mut junk));
                    let _ = channel.send(&junk, &[]);
                }
                if sim::with(|sim| sim.rng.bool()) {
                    held.push(channel);
                }
            }
        }
    }
    note("flood of connections");
}

/// Messages that no honest peer sends, over all sockets that it has.
fn garbage(me: usize, long: bool) {
    let junk = sim::with(|sim| {
        let mut junk = vec![0_u8; if long { 5000 } else { sim.rng.usize(1..200) }];
        sim.rng.fill(&mut junk);
        junk
    });
    say(me, &junk);
}

fn say(me: usize, message: &[u8]) {
    let fds: Vec<i32> = sim::with(|sim| sim.processes[me].descriptors.iter().copied().collect());
    for fd in fds {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: sends bytes of the caller's; it fails for what is no socket, or was closed.
        unsafe { libc::send(fd, message.as_ptr().cast(), message.len(), flags) };
    }
    note("garbage over a socket");
}

/// It says that it is in the middle of a block of each copy that its victims may have begun.
fn claim_blocks(me: usize) {
    let own = sim::with(|sim| sim.processes[me].own.clone());
    if let Some((_, lines)) = &own {
        let first = u64::from(FIRST_GENERATION);
        for line in 0..lines.len() / SPLIT_BYTES {
            let (serial, receiver) =
                sim::with(|sim| (first + sim.rng.u64(0..3), sim.rng.u64(0..4)));
            // Serial number last; receiver, claimed, done, finished.
            for (at, word) in [(1, receiver), (2, 1), (3, 0), (4, 0), (0, serial)] {
                let word_at = line * SPLIT_BYTES + 8 * at;
                lines.word64(word_at).store(word, Ordering::Release);
            }
        }
    }
    std::mem::forget(own);
    note("claimed blocks");
}

/// A message that its receiver waits for, by the rules so far.
fn send_bait(endpoint: &HybridEndpoint, peers: &[Peer], bait: &[u8]) {
    for peer in peers {
        // SAFETY: the bytes live as long as the process, which leaks them when it is killed.
        let posted = unsafe { endpoint.post_send(*peer, Tag(BAIT), &[RawSlice::from(bait)]) };
        if let Ok(Posted::Pending(_)) = posted {
            note("bait");
        }
    }
}

/// Random words into what it can write of others' memory.
fn scribble(me: usize) {
    let mappings: Vec<(usize, usize)> = sim::with(|sim| {
        let mappings = sim.processes[me]
            .mappings
            .iter()
            .filter(|(_, (_, writable))| *writable);
        mappings.map(|(base, (len, _))| (*base, *len)).collect()
    });
    if mappings.is_empty() {
        return;
    }
    let (base, len) = mappings[sim::with(|sim| sim.rng.usize(0..mappings.len()))];
    let count = sim::with(|sim| sim.rng.usize(1..64));
    let burst = sim::with(|sim| sim.rng.bool());
    let mut at = sim::with(|sim| sim.rng.usize(0..len / 8));
    for _ in 0..count {
        at = if burst {
            (at + 1) % (len / 8)
        } else {
            sim::with(|sim| sim.rng.usize(0..len / 8))
        };
        let pointer: *mut u64 = core::ptr::with_exposed_provenance_mut(base + 8 * at);
        // SAFETY: a word of a mapping that this process can write and has not unmapped; all others
        // access it by atomics, or by copies that expect it to change.
        let word = unsafe { AtomicU64::from_ptr(pointer) };
        let old = word.load(Relaxed);
        let new = sim::with(|sim| match sim.rng.u32(0..6) {
            0 => 0,
            1 => u64::MAX,
            2 => old.wrapping_add(1),
            3 => old ^ (1 << sim.rng.u32(0..64)),
            4 => sim.rng.u64(0..1 << 20),
            _ => sim.rng.u64(..),
        });
        word.store(new, Relaxed);
    }
    note("scribble");
}
