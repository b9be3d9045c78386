//! The conformance suite over TCP alone: every message through a socket, also between processes of
//! one machine.

use limic::HybridEndpoint;
use limic::settings::FabricUse;
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn tcp_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.fabric(FabricUse::TcpOnly))?)
}

/// The loopback, over IPv6.
fn tcp6_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.fabric(FabricUse::TcpOnly).tcp_interface("::1")
    })?)
}

fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !has {
        limic_tests::skip("this machine has no IPv6");
    }
    has
}

conformance!(tcp, tcp_endpoint);
conformance!(tcp_threads, tcp_endpoint, threads);
conformance!(tcp6, tcp6_endpoint, only crate::has_ipv6);
