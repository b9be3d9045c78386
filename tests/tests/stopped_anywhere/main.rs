//! A process is killed, or held and let go, at one place after the other of what it is in the
//! middle of. Its partner gets each message whole or is told by name that the process died; nothing
//! of the dead one is left, and the partner goes on with others.
//!
//! The partner moves the victim on itself, by instructions or system calls, and takes its own turns
//! in between. So a place is a number, and the same number is the same place again, but for what
//! clocks decide. `LIMIC_TEST_CASES` says how many places there are in each operation.

mod inbox;
mod operations;
mod roles;
mod stage;

use limic::settings::{FabricUse, Spin};
use limic::{Endpoint, HybridEndpoint, RegionKey, Settings, Tag};
use limic_tests::process::{descriptors, idle_child, mappings, open_descriptors};
use limic_tests::stepped::{Line, Pace, Stepped, mark, share_one_processor};
use limic_tests::{Cast, content, skip};
use std::time::Duration;

use operations::{MEETINGS, ONE_SIDED, Operation, RECEIVES, SENDS};
use roles::{BEFORE, LONG, Victim};
use stage::{Fate, Stage, TURNS};

/// Steps in all places of one operation together, where nothing else is wanted.
const STEPS: u64 = 40_000;
/// Messages in each direction before the operation: enough for a ring of one's own.
const ROUNDS: usize = 12;
const WARM: Tag = Tag(1000);

fn open(operation: &Operation) -> HybridEndpoint {
    let builder = Settings::builder().without_environment();
    // Whoever helps is stopped, too, and a close ends without it.
    let builder = builder.linger(Duration::from_millis(200)).autotune(false);
    // Polls in vain would be most of the steps.
    let builder = builder.skew(false).spin(Spin::For(Duration::ZERO));
    let settings = (operation.settings)(builder.fabric(FabricUse::Off)).build();
    HybridEndpoint::with(settings.expect("settings")).expect("open")
}

fn live(operation: &Operation, line: &Line) {
    let told = line.hear();
    let (key, address) = told.split_at(8);
    let endpoint = open(operation);
    let region = endpoint.region(vec![7; LONG]).expect("a region");
    let mut telling = region.key().0.to_le_bytes().to_vec();
    telling.extend(endpoint.address().to_bytes());
    line.tell(&telling);
    let partner = endpoint.connect(address).expect("an address");
    if operation.have_met {
        let (data, mut buffer) = (content(0, operation.before), vec![0; operation.before]);
        for _ in 0..ROUNDS {
            let from = (partner, WARM);
            let met = endpoint.send_recv(partner, WARM, &data, from, &mut buffer);
            met.expect("the partner lives");
        }
        for number in 1..=BEFORE {
            let sent = endpoint.send(partner, number, &content(number, 8));
            sent.expect("the partner lives");
        }
    }
    let key = RegionKey(u64::from_le_bytes(key.try_into().expect("a key")));
    let mut victim = Victim::new(&endpoint, partner, key, region);
    let child = if operation.has_child { idle_child() } else { 0 };
    line.tell(&child.to_le_bytes());
    (operation.victim)(&mut victim);
    mark();
    victim.check();
}

/// As many places as are wanted; or else the fewer, the longer the operation is.
fn places(steps: u64) -> u64 {
    let wanted = std::env::var("LIMIC_TEST_CASES").ok();
    wanted.map_or((STEPS / steps.max(1)).clamp(2, 12), |text| {
        text.parse().expect("a number of cases")
    })
}

/// Victims with these fates, one after the other beside the same partner. Gives the steps of the
/// last one; `None`: no process may be traced here.
fn plays(operation: &Operation, fates: &[Fate]) -> Option<u64> {
    let (opened, mapped) = (open_descriptors(), mappings());
    // All of them before there is an endpoint that they would have a copy of.
    let victims = fates
        .iter()
        .map(|_| Stepped::start(|line| live(operation, line)));
    let mut victims = victims.collect::<Result<Vec<_>, _>>().ok()?;
    let mut steps = 0;
    {
        let (endpoint, third) = (open(operation), open(operation));
        let stage = Stage {
            operation,
            endpoint: &endpoint,
            third: &third,
        };
        for _ in 0..ROUNDS {
            stage.exchange("before all");
        }
        // Both may have called the other one, of which one call is taken late; and loans have an
        // arena of their own.
        drop(endpoint.loan(LONG).expect("a loan"));
        for _ in 0..TURNS {
            stage.turn();
        }
        let (opened, mapped) = (open_descriptors(), mappings());
        for ((number, fate), victim) in (0..).zip(fates).zip(&mut victims) {
            let what = format!("{}, {fate:?}", operation.name);
            steps = stage.play(victim, *fate, number, &what);
            // What was kept until the process ended goes at the next look at the sockets.
            let is_left = |_: &usize| {
                stage.turn();
                open_descriptors() <= opened
            };
            (0..TURNS).find(is_left);
            let open = descriptors();
            assert!(open.len() <= opened, "{what}: {opened} before, {open:#?}");
        }
        // Those of arenas that the endpoints have for themselves.
        assert!(mappings() <= mapped + 8, "{}: mappings", operation.name);
    }
    drop(victims);
    let left = (open_descriptors(), mappings());
    assert_eq!(left.0, opened, "{}: descriptors", operation.name);
    assert!(left.1 <= mapped + 8, "{}: mappings", operation.name);
    Some(steps)
}

/// Victims at places all over one operation. False: that cannot be done here.
fn sweep(operation: &Operation) -> bool {
    let every = match operation.pace {
        Pace::Instruction => 499,
        _ => 7,
    };
    let Some(steps) = plays(operation, &[Fate::Held(every)]) else {
        return false;
    };
    let places = places(steps);
    let at = |place| steps * (2 * place + 1) / (2 * places);
    let fates: Vec<_> = (0..places).map(|place| Fate::Killed(at(place))).collect();
    println!("REPORT: {}: {places} places of {steps}", operation.name);
    plays(operation, &fates).is_some()
}

fn sweeps(test: &str, processor: usize, operations: &[Operation]) {
    // A step takes some microseconds.
    let limit = Duration::from_secs(60 * (1 + places(STEPS)));
    Cast::new(test).ranks(1).limit(limit).run(|_| {
        share_one_processor(processor);
        if !operations.iter().all(sweep) {
            skip("ptrace is not permitted");
        }
    });
}

macro_rules! stopped_in_the_middle {
    ($($name:ident: $processor:literal, $operations:expr;)+) => {
        $(
            #[test]
            fn $name() {
                sweeps(stringify!($name), $processor, &$operations);
            }
        )+
    };
}

stopped_in_the_middle! {
    in_the_middle_of_a_send: 0, SENDS;
    in_the_middle_of_a_receive: 1, RECEIVES;
    in_the_middle_of_a_one_sided_access: 0, ONE_SIDED;
    in_the_middle_of_a_meeting_or_a_farewell: 1, MEETINGS;
}
