//! The conformance suite over a provider of libfabric alone: its TCP, which needs no adapter.

use limic::HybridEndpoint;
use limic::settings::FabricUse;
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.fabric(FabricUse::OfiOnly).ofi_provider("tcp")
    })?)
}

fn has_provider() -> bool {
    let found = endpoint();
    if let Err(why) = &found {
        limic_tests::skip(&why.to_string());
    }
    found.is_ok()
}

conformance!(ofi, endpoint, only crate::has_provider);
