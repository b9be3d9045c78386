//! The conformance suite over Soft-RoCE: every message through the adapter.

use limic::VerbsEndpoint;
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn verbs_endpoint() -> limic::Result<VerbsEndpoint> {
    VerbsEndpoint::with(settings(|s| s)?)
}

conformance!(verbs, verbs_endpoint, only limic_lab_tests::in_guest);
