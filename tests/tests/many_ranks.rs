//! More ranks than cores.

use limic::{HybridEndpoint, Settings};
use limic_tests::{Cast, Rank, all_to_all};
use std::time::Duration;

fn rounds(rank: &Rank, endpoint: &HybridEndpoint, rounds: u64, len: usize) {
    let peers = rank.connect(endpoint);
    for round in 0..rounds {
        all_to_all(rank, endpoint, &peers, round, len);
    }
    rank.link.meet(endpoint);
}

/// 64 ranks, 1 KiB to each other one.
#[test]
fn sixty_four_ranks_all_to_all() {
    let cast = Cast::new("sixty_four_ranks_all_to_all").ranks(64).alone();
    cast.limit(Duration::from_secs(120)).run(|rank| {
        let builder = Settings::builder().without_environment();
        let settings = builder
            .private_rings(4)
            .shared_slots(256)
            .staging_buffers(16)
            .staging_buffer_bytes(16 << 10);
        let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
        rounds(rank, &endpoint, 3, 1024);
    });
}

/// Four times as many ranks as cores, short and long messages.
#[test]
fn four_times_oversubscribed() {
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get() as u32);
    let ranks = (4 * cores).min(64);
    let cast = Cast::new("four_times_oversubscribed").ranks(ranks).alone();
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        rounds(rank, &endpoint, 20, 100);
        let endpoint = HybridEndpoint::open().expect("open");
        rounds(rank, &endpoint, 3, 200_000);
    });
}
