//! The conformance suite over two machines: half of the ranks in each.

use limic::settings::SettingsBuilder;
use limic::{Error, HybridEndpoint, Settings, VerbsEndpoint};
use limic_tests::conformance;

fn settings(with: fn(SettingsBuilder) -> SettingsBuilder) -> limic::Result<Settings> {
    // As in the suite on a host: little for loans, and no long wait for sends that nobody receives.
    let builder = Settings::builder()
        .without_environment()
        .loan_bytes(16 << 20)
        .linger(std::time::Duration::from_millis(200));
    with(builder)
        .build()
        .map_err(|why| Error::Settings(why.to_string()))
}

fn verbs_endpoint() -> limic::Result<VerbsEndpoint> {
    VerbsEndpoint::with(settings(|s| s)?)
}

/// Shared memory inside of a machine, verbs between them.
fn hybrid_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s)?)
}

conformance!(verbs, verbs_endpoint, only limic_lab::in_guest);
conformance!(hybrid, hybrid_endpoint, only limic_lab::in_guest);
