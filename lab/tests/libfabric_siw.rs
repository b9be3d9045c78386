//! The conformance suite over libfabric's verbs, over Soft-iWARP.

use std::path::Path;

use limic_lab_tests::{has_libfabric, over_ofi_verbs, run};
use limic_tests::conformance;

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

conformance!(siw, over_ofi_verbs, only crate::over_iwarp);
