//! Locality by the hand-over of a cache line: as told, and as measured between two processes.

use std::time::Duration;

use limic::settings::{LineLatency, Path, Settings, SettingsBuilder};
use limic::{Counters, Endpoint, HybridEndpoint};
use limic_tests::{Cast, Rank, check, content, skip};

/// A short message for the measurement.
const BYTES: usize = 6 << 10;
/// By the pipeline within a cache, by both sides beyond it; too long to go unasked for as an
/// answer.
const LONG: usize = 2 << 20;
/// Longer than what goes eagerly in any case.
const ANSWER: usize = 256 << 10;
const ROUNDS: u64 = 2000;

fn builder(hand_over: LineLatency) -> SettingsBuilder {
    Settings::builder()
        .without_environment()
        .line_latency(hand_over)
}

fn ping_pong(rank: &Rank, settings: SettingsBuilder, bytes: usize, rounds: u64) -> Counters {
    let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
    let other = rank.connect(&endpoint)[1 - rank.rank as usize];
    let mut inbox = vec![0; bytes];
    for round in 0..rounds {
        let data = content(round, bytes);
        if rank.rank == 0 {
            endpoint.send(other, 1_u64, &data).expect("send");
        }
        endpoint.recv((other, 1), &mut inbox).expect("receive");
        check(round, &inbox);
        if rank.rank == 1 {
            endpoint.send(other, 1_u64, &inbox).expect("send");
        }
    }
    rank.link.meet(&endpoint);
    endpoint.counters()
}

fn messages(counters: &Counters, path: Path) -> u64 {
    let found = counters.paths.iter().find(|(other, _)| *other == path);
    found.map_or(0, |(_, traffic)| traffic.messages)
}

#[test]
fn what_is_told_decides_between_the_rows() {
    if limic::topology::CpuSet::allowed().is_ok_and(|cpus| cpus.len() < 2) {
        return skip("one CPU only");
    }
    if let Err(refused) = limic_copy::explain().available {
        return skip(&format!("single copy: {refused}"));
    }
    Cast::new("what_is_told_decides_between_the_rows").run(|rank| {
        // Fewer than the correction looks at.
        let near = ping_pong(rank, builder(LineLatency::Nanoseconds(30)), LONG, 3);
        assert_eq!(messages(&near, Path::Pipeline), 3, "{:?}", near.paths);
        let far = ping_pong(rank, builder(LineLatency::Nanoseconds(180)), LONG, 3);
        assert_eq!(messages(&far, Path::SplitCopy), 3, "{:?}", far.paths);
    });
}

/// Single copy names no pieces that a peer may keep, so the first answer has to take some; what
/// somebody asked for stands.
#[test]
fn answers_between_far_cores_go_at_once_unless_somebody_asked_for_another_path() {
    if limic::topology::CpuSet::allowed().is_ok_and(|cpus| cpus.len() < 2) {
        return skip("one CPU only");
    }
    // Cores that share their last cache are quicker by copies of both sides.
    let at_once = if limic_shm::processor::far_by_memory() {
        Path::EagerFragments
    } else {
        Path::SplitCopy
    };
    let available = limic_copy::explain().available;
    if let (Path::SplitCopy, Err(refused)) = (at_once, available) {
        return skip(&format!("single copy: {refused}"));
    }
    Cast::new("answers_between_far_cores_go_at_once_unless_somebody_asked_for_another_path").run(
        |rank| {
            let far = || builder(LineLatency::Nanoseconds(180));
            let own = ping_pong(rank, far(), ANSWER, 3);
            if rank.rank == 1 {
                assert!(messages(&own, at_once) > 0, "{:?}", own.paths);
            }
            let asked_for = ping_pong(rank, far().long_path(Path::Pipeline), ANSWER, 3);
            assert_eq!(messages(&asked_for, Path::Pipeline), 3);
        },
    );
}

/// Whatever the measurements say, and however often the peer is not there for them, messages
/// arrive, and split copies go on.
#[test]
fn measuring_disturbs_nobody() {
    // Two processes that hand the processor to each other thousands of times: long on a machine
    // with much else to do.
    let cast = Cast::new("measuring_disturbs_nobody").limit(Duration::from_secs(240));
    cast.run(|rank| {
        for bytes in [8, BYTES, 100 << 10] {
            let counters = ping_pong(rank, builder(LineLatency::Measured), bytes, ROUNDS);
            let total: u64 = counters.sent.iter().map(|(_, sent)| sent.messages).sum();
            assert_eq!(total, ROUNDS);
        }
    });
}
