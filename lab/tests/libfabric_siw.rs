//! The conformance suite over libfabric's verbs, over Soft-iWARP.

use std::path::Path;

use limic::HybridEndpoint;
use limic::settings::FabricUse;
use limic_lab_tests::{has_libfabric, run};
use limic_tests::conformance;
use limic_tests::conformance::settings;

/// The guest's device is one for iWARP.
fn over_iwarp() -> bool {
    if !has_libfabric() {
        return false;
    }
    if !Path::new("/sys/class/infiniband/siw0").exists() {
        run("rdma link delete rxe0");
        run("rdma link add siw0 type siw netdev d0");
    }
    true
}

fn in_packets() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.fabric(FabricUse::OfiOnly).ofi_provider("verbs;ofi_rxm")
    })?)
}

conformance!(siw, in_packets, only crate::over_iwarp);
