//! The conformance suite over two machines: half of the ranks in each.

use limic::settings::FabricUse;
use limic::{HybridEndpoint, VerbsEndpoint};
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn verbs_endpoint() -> limic::Result<VerbsEndpoint> {
    VerbsEndpoint::with(settings(|s| s)?)
}

/// Shared memory inside of a machine, verbs between them.
fn hybrid_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.fabric(FabricUse::Verbs))?)
}

fn tcp_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.fabric(FabricUse::TcpOnly))?)
}

/// Shared memory inside of a machine, TCP between them.
fn hybrid_tcp_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.fabric(FabricUse::Tcp))?)
}

conformance!(verbs, verbs_endpoint, only limic_lab_tests::in_guest);
conformance!(hybrid, hybrid_endpoint, only limic_lab_tests::in_guest);
conformance!(tcp, tcp_endpoint, only limic_lab_tests::in_guest);
conformance!(hybrid_tcp, hybrid_tcp_endpoint, only limic_lab_tests::in_guest);
