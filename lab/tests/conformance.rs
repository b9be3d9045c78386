//! The conformance suite with long messages through the kernel module.

use std::io::IoSlice;

use limic::settings::Path;
use limic::{Endpoint, HybridEndpoint};
use limic_lab_tests::in_guest;
use limic_tests::conformance::settings;
use limic_tests::{Cast, conformance};

fn kmod_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.long_path(Path::Kmod))?)
}

conformance!(kmod, kmod_endpoint, only limic_lab_tests::in_guest);

/// Else the suite would pass by the pipeline.
#[test]
fn long_messages_go_through_the_module() {
    if !in_guest() {
        return;
    }
    const BYTES: usize = 3 << 20;
    Cast::new("long_messages_go_through_the_module").run(|rank| {
        let endpoint = kmod_endpoint().expect("an endpoint");
        let peers = rank.connect(&endpoint);
        let pieces: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        if rank.rank == 0 {
            let (front, back) = pieces.split_at(12345);
            endpoint.send(peers[1], 1, &pieces).expect("a send");
            let pieces = [IoSlice::new(front), IoSlice::new(back)];
            endpoint
                .send_vectored(peers[1], 2, &pieces)
                .expect("a send in pieces");
        } else {
            for tag in [1, 2] {
                let mut room = vec![0; BYTES + 100];
                let status = endpoint
                    .recv((peers[0], tag), &mut room)
                    .expect("a receive");
                assert_eq!(status.len, BYTES as u64);
                assert!(room[..BYTES] == pieces, "the bytes of message {tag}");
            }
            let counters = endpoint.counters();
            let moved = counters.paths.iter().find(|(path, _)| *path == Path::Kmod);
            assert_eq!(moved.map(|(_, traffic)| traffic.messages), Some(2));
        }
        rank.link.meet(&endpoint);
        drop(endpoint);
        assert_eq!(counter("exposures"), Some(0), "all buffers were taken back");
    });
    assert_eq!(counter("pinned_pages"), Some(0));
}

/// A figure of the module's.
fn counter(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/sys/kernel/debug/limic/counters").ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == name)?.1.parse().ok()
}
