//! The conformance suite over Soft-RoCE: every message through the adapter.

use limic::settings::SettingsBuilder;
use limic::{Error, Settings, VerbsEndpoint};
use limic_tests::conformance;

fn settings(with: fn(SettingsBuilder) -> SettingsBuilder) -> limic::Result<Settings> {
    let builder = Settings::builder()
        .without_environment()
        .loan_bytes(16 << 20)
        .linger(std::time::Duration::from_millis(200));
    with(builder)
        .build()
        .map_err(|e| Error::Settings(e.to_string()))
}

fn verbs_endpoint() -> limic::Result<VerbsEndpoint> {
    VerbsEndpoint::with(settings(|s| s)?)
}

conformance!(verbs, verbs_endpoint, only limic_lab::in_guest);
