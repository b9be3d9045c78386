//! What an endpoint is opened with, and why there is none.

use core::time::Duration;

/// What a fabric is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiSettings {
    /// The provider, as libfabric names it; `None`: the first one that serves.
    pub provider: Option<String>,
    /// Only providers of adapters serve.
    pub adapters: bool,
    /// Whether long messages are read out of the memory of their senders, where the provider has
    /// reads; `None`: where its adapters do that by themselves, and what is withdrawn is registered
    /// no more.
    pub reads: Option<bool>,
    /// How long nothing can be sent to a peer, before it counts as lost.
    pub timeout: Duration,
}

/// Why there is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfiError {
    /// This machine has no libfabric, or that has no provider that serves; another try finds none.
    Nothing(String),
    /// There is a provider, and something is in the way.
    Failed(String),
}

impl core::fmt::Display for OfiError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (Self::Nothing(why) | Self::Failed(why)) = self;
        f.write_str(why)
    }
}

impl core::error::Error for OfiError {}

impl Default for OfiSettings {
    fn default() -> Self {
        Self {
            provider: None,
            adapters: false,
            reads: None,
            timeout: Duration::from_secs(30),
        }
    }
}
