//! Two honest processes exchange messages while a third one of the same job does nothing but
//! attack them: they lose no message, and keep at least half of their rate.
//!
//! The third first only keeps a processor busy, as any process may, and then attacks for as long.
//! The rates of these two times are printed, and what is kept of the first: the machine and its
//! processors count alike in both. Of each time the best windows count, in which nobody else used
//! the processors. What is kept says something where each of the three has a processor of its own,
//! and the build is optimised.

mod attacker;

use std::cmp::Reverse;
use std::collections::HashMap;

use attacker::{Act, Before, REGION, attack};
use limic::settings::{Path, PathSet, Settings};
use limic::{Endpoint, HybridEndpoint, Peer, RegionKey, Tag};
use limic_tests::attacker::writable_segments;
use limic_tests::process::{descriptor_numbers, monotonic_ns};
use limic_tests::{Cast, Rank, Report, skip};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
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
/// The least of its rate that a pair keeps.
const KEPT: f64 = 0.5;

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

/// Exchanges of each window, by its number, as far as they lie within it.
type Windows = HashMap<u64, u64>;

/// Exchanges a second in the best quarter of the windows of one kind, before the attack or during
/// it. Those without an exchange count too.
fn best(windows: &Windows) -> f64 {
    let mut counts: Vec<u64> = windows.values().copied().collect();
    counts.resize(counts.len().max(WINDOWS as usize / LENGTHS.len()), 0);
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
    let kept = LENGTHS.iter().zip(rates).map(|(len, [busy, attacked])| {
        let (busy, attacked) = (best(&busy), best(&attacked));
        let kept = if attacked > 0.0 { attacked / busy } else { 0.0 };
        println!(
            "REPORT: {act:?}, {len} bytes: {attacked:.0} exchanges a second under attack, \
             {busy:.0} beside a busy process: {kept:.2}"
        );
        kept
    });
    let least = kept.fold(f64::INFINITY, f64::min);
    let _ = rank.link.exchange(&least.to_le_bytes());
}

fn answer(rank: &Rank, endpoint: &HybridEndpoint, other: Peer) {
    let mut room = vec![0; 1 << 20];
    loop {
        let from = limic::Selector::any_tag(other);
        let status = endpoint.recv(from, &mut room).expect("an honest peer");
        if status.tag == OVER {
            let _ = rank.link.exchange(&[]);
            return;
        }
        let bytes = &room[..status.len as usize];
        endpoint.send(other, ECHO, bytes).expect("an honest peer");
    }
}

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    let all = sched_getaffinity(Pid::this()).expect("affinity");
    (0..CpuSet::count())
        .filter(|cpu| all.is_set(*cpu) == Ok(true))
        .collect()
}

/// Keeps to one processor: the third has one of its own, so that what it does there takes none away
/// from the others. Where there are two, these share the other one.
fn stay(rank: &Rank) {
    let cpus = processors();
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
    if act.is_helped() && rank.rank == HOSTILE {
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
    let region = endpoint.region(vec![0; REGION]).expect("a region");
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
        _ => answer(rank, &endpoint, peers[0]),
    }
}

/// What the pair has kept, of its rate with the length that lost most.
fn kept(report: &Report) -> f64 {
    let told = report.exchanges.last().and_then(|told| told[0].as_deref());
    let bytes = told.and_then(|bytes| bytes.try_into().ok());
    f64::from_le_bytes(bytes.expect("a number"))
}

fn run(name: &str, act: Act) {
    let attacked = || {
        let cast = Cast::new(name).ranks(3).alone();
        cast.run(|rank| take_part(rank, act))
    };
    let Some(report) = attacked() else {
        return;
    };
    if cfg!(debug_assertions) || processors().len() < 3 {
        return skip("what is kept says nothing without optimisation and three processors");
    }
    let mut kept = kept(&report);
    if kept < KEPT {
        // Others use the machine, too.
        kept = attacked().map_or(kept, |report| self::kept(&report).max(kept));
    }
    assert!(kept >= KEPT, "{act:?} leaves {kept:.2} of the rate");
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
    a_flood_of_long_one_sided_reads_costs_no_message: Act::ReadLong;
    a_peer_that_is_stopped_again_and_again_costs_no_message: Act::Stop;
    a_peer_that_ends_and_has_a_child_costs_no_message: Act::Fork;
}
