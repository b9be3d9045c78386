//! The conformance suite over every endpoint, and over each path that can be forced.

use limic::settings::Path;
use limic::{HybridEndpoint, ShmEndpoint};
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn shm_endpoint() -> limic::Result<ShmEndpoint> {
    ShmEndpoint::with(settings(|s| s)?)
}

fn hybrid_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s)?)
}

fn cma_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.long_path(Path::Cma))?)
}

fn both_sides_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.long_path(Path::SplitCopy))?)
}

/// Everything is full all the time.
fn tiny_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.long_path(Path::Pipeline)
            .private_rings(1)
            .ring_bytes(4 << 10)
            .shared_slots(8)
            .staging_buffers(2)
            .staging_buffer_bytes(4 << 10)
            .pipeline_fragment(4 << 10)
            .pipeline_window(2)
    })?)
}

/// Nobody has a ring of one's own, and the shared one is small.
fn shared_only_endpoint() -> limic::Result<ShmEndpoint> {
    ShmEndpoint::with(settings(|s| {
        s.private_rings(0).inline_max(0).shared_slots(16)
    })?)
}

conformance!(shm, shm_endpoint);
conformance!(hybrid, hybrid_endpoint);
conformance!(cma, cma_endpoint);
conformance!(split_copy, both_sides_endpoint);
conformance!(tiny, tiny_endpoint);
conformance!(shared_only, shared_only_endpoint);
conformance!(hybrid_threads, hybrid_endpoint, threads);
conformance!(shm_threads, shm_endpoint, threads);
