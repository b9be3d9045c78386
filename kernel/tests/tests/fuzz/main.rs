//! A seeded fuzzer of the interface.
//!
//! Honest processes make valid calls only and check every byte that they get; wild ones make valid,
//! mutated and random calls, unmap, protect, fork and close in between, and may perish of it. A
//! director kills both kinds after a random number of calls and starts new ones. What counts:
//! honest processes never see a wrong byte or an error that the interface does not name, the kernel
//! does not complain, and nothing is left pinned or open.
//!
//! `LIMIC_FUZZ_SEED` fixes what each thread does (how they meet in time is the machine's),
//! `LIMIC_FUZZ_CALLS` says how many calls are made in all: 30 000 by default, a million for a long
//! run (`--limit` of the lab must be raised for it).
//!
//! On the debug image a second test makes allocations of the wild processes fail ([`faults`]).

mod board;
mod faults;
mod honest;
mod wild;

use std::time::Instant;

use board::Board;
use faults::Faults;
use limic_module_tests::{Child, Random, Session, abi, guest_test};

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

/// How many processes of each kind there are at a time.
const HONEST: usize = 2;
const WILD: usize = 2;
/// A process is killed every so many calls at the latest.
const MOST_CALLS_BETWEEN_KILLS: u64 = 600;

#[test]
fn honest_processes_survive_wild_ones() {
    guest_test(|| run(setting("LIMIC_FUZZ_CALLS", 30_000), None));
}

#[test]
fn failing_allocations_stay_with_whom_they_hit() {
    if !limic_module_tests::in_guest() {
        return;
    }
    match Faults::arm() {
        Ok(faults) => guest_test(|| run(setting("LIMIC_FUZZ_CALLS", 10_000), Some(&faults))),
        Err(why) => {
            println!("SKIPPED: no fault injection in this kernel (it is in the debug image): {why}")
        }
    }
}

/// Makes so many calls; with `faults`, allocations of wild processes fail now and then.
fn run(calls: u64, faults: Option<&Faults>) {
    let seed = setting("LIMIC_FUZZ_SEED", 1);
    println!("REPORT: seed {seed}, {calls} calls");
    let begin = Instant::now();
    let board = Board::new(limic_module_tests::token(), calls);
    // A rank is given out once, and many will come: the founder makes the group as large as one can
    // be.
    let founder = Session::primitives();
    let mut group = abi::Join {
        token: board.token,
        flags: abi::JOIN_CREATE,
        rank: abi::MAX_RANKS - 1,
        size: abi::MAX_RANKS,
        ..Default::default()
    };
    founder.call(abi::JOIN, &mut group).expect("join");
    let mut random = Random::new(seed);
    let mut started = 0;
    let mut start = |place: usize| {
        started += 1;
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(started);
        Child::fork(|_| {
            if place < HONEST {
                honest::run(&board, place, seed);
            } else {
                wild::run(&board, seed, faults);
            }
        })
    };
    let mut children: Vec<Child> = (0..HONEST + WILD).map(&mut start).collect();
    let mut kills = 0_u32;
    let mut tenths = 0;
    while !board.enough() {
        // By calls and not by time: a slow machine would do little but start processes.
        board.wait_for_calls(random.below(MOST_CALLS_BETWEEN_KILLS));
        let (made, ..) = board.sums();
        if made * 10 / calls.max(1) > tenths {
            tenths = made * 10 / calls.max(1);
            let seconds = begin.elapsed().as_secs_f64();
            println!("REPORT: {made} calls in {seconds:.0} s, {kills} processes killed");
        }
        // Wild ones go often, honest ones now and then.
        let place = match random.below(8) {
            0 => random.below(HONEST as u64) as usize,
            _ => HONEST + random.below(WILD as u64) as usize,
        };
        assert!(
            place >= HONEST || !children[place].has_ended(),
            "an honest process has ended before it was told to (its message is above)"
        );
        kills += 1;
        let old = std::mem::replace(&mut children[place], start(place));
        old.kill();
    }
    for (place, child) in children.into_iter().enumerate() {
        if place < HONEST {
            child.join();
        } else {
            child.kill();
        }
    }
    let (made, refused, checked) = board.sums();
    println!(
        "REPORT: {made} calls in {:.1} s, {refused} of them refused; {checked} bytes checked; {kills} processes killed",
        begin.elapsed().as_secs_f64()
    );
    assert!(made >= calls);
    assert!(checked > 0, "nothing was ever received");
    if faults.is_some() {
        let starved = board.starved();
        println!("REPORT: {starved} calls found no memory");
        assert!(starved > 0, "no allocation of the module failed");
    }
}
