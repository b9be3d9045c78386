//! What can be said about networks.

use core::str::FromStr;
use core::time::Duration;

use limic_policy::named;
use limic_policy::named::find;

use crate::Settings;

named! {
    /// Which networks lead to peers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub enum FabricUse {
        /// To peers on other nodes: verbs where both sides have an adapter, or libfabric where it
        /// is one without verbs, else TCP.
        #[default]
        Auto = "auto",
        /// To peers on other nodes: verbs.
        Verbs = "verbs",
        /// To peers on other nodes: TCP.
        Tcp = "tcp",
        /// To peers on other nodes: a provider of libfabric.
        Ofi = "ofi",
        /// None: peers on other nodes are not reached.
        Off = "off",
        /// Verbs to all peers, those on this node too: opening an endpoint fails without a device.
        VerbsOnly = "verbs-only",
        /// TCP to all peers, those on this node too.
        TcpOnly = "tcp-only",
        /// A provider of libfabric to all peers, those on this node too: opening an endpoint fails
        /// without one.
        OfiOnly = "ofi-only",
    }
}

impl FabricUse {
    /// Whether peers may be reached over verbs.
    #[must_use]
    pub const fn has_verbs(self) -> bool {
        matches!(self, Self::Auto | Self::Verbs | Self::VerbsOnly)
    }

    /// Whether peers may be reached over TCP.
    #[must_use]
    pub const fn has_tcp(self) -> bool {
        matches!(self, Self::Auto | Self::Tcp | Self::TcpOnly)
    }

    /// Whether peers may be reached over a provider of libfabric.
    #[must_use]
    pub const fn has_ofi(self) -> bool {
        matches!(self, Self::Auto | Self::Ofi | Self::OfiOnly)
    }

    /// Whether peers on this node are reached over a network too.
    #[must_use]
    pub const fn is_only(self) -> bool {
        matches!(self, Self::VerbsOnly | Self::TcpOnly | Self::OfiOnly)
    }
}

impl FromStr for FabricUse {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        find(&Self::ALL, Self::name, text).ok_or(())
    }
}

named! {
    /// Whether long messages over libfabric are read out of the memory of their senders.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub enum OfiReads {
        /// Where the provider's adapters read by themselves, and registrations end with their
        /// messages.
        #[default]
        Auto = "auto",
        /// Where the provider has reads.
        On = "on",
        /// Never.
        Off = "off",
    }
}

impl FromStr for OfiReads {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        find(&Self::ALL, Self::name, text).ok_or(())
    }
}

/// How TCP is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpSettings {
    /// The interface, by name or address, over which peers reach this endpoint
    /// (`LIMIC_TCP_INTERFACE`). `None`: the one that leads to other networks.
    pub interface: Option<String>,
    /// How long a machine may be silent that was asked for something, before its peers count as
    /// lost: 1 s to 1 hour (`LIMIC_TCP_TIMEOUT_MS`).
    pub timeout: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Settings::default().tcp()
    }
}
