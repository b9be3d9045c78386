//! The endpoints that users open.

mod calls;
mod messages;

use limic_policy::{Path, PathSet};

use crate::Result;
use crate::engine::Engine;
use crate::settings::{FabricUse, Settings};

pub(crate) use calls::{Inner, calls};

/// What applications use. Every path within the machine, of which one is picked for each message,
/// and the [networks](Settings::fabric) to other machines.
pub struct HybridEndpoint(Inner<Engine>);

/// Shared memory only: two copies, or none for loans. What is left where processes may not read
/// each other's memory. It reaches no other machine.
pub struct ShmEndpoint(Inner<Engine>);

/// Verbs only: every peer, also on this node, is reached through the adapter. For measurements, and
/// for nodes whose processes share no memory.
#[cfg(feature = "ibverbs")]
pub struct VerbsEndpoint(Inner<Engine>);

calls!(HybridEndpoint, cx.requests);
calls!(ShmEndpoint, cx.requests);
#[cfg(feature = "ibverbs")]
calls!(VerbsEndpoint, cx.requests);

fn open(settings: Settings) -> Result<Inner<Engine>> {
    let engine = Engine::open(settings)?;
    let wake = engine.wake_fd()?;
    Ok(Inner::new(engine, wake))
}

impl HybridEndpoint {
    /// Opens an endpoint with the settings of the environment (`LIMIC_*`).
    ///
    /// # Errors
    /// [`Error::Settings`](crate::Error::Settings) for a variable that makes no sense,
    /// [`Error::NoMemory`](crate::Error::NoMemory) or [`Error::Segment`](crate::Error::Segment) if
    /// the shared segment cannot be had, [`Error::System`](crate::Error::System).
    pub fn open() -> Result<Self> {
        Self::with(Settings::from_environment()?)
    }

    /// Opens an endpoint with given settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with(settings: Settings) -> Result<Self> {
        open(settings).map(Self)
    }
}

impl ShmEndpoint {
    /// Opens an endpoint with the settings of the environment (`LIMIC_*`).
    ///
    /// # Errors
    /// As [`HybridEndpoint::open`].
    pub fn open() -> Result<Self> {
        Self::with(Settings::from_environment()?)
    }

    /// Opens an endpoint with given settings, less the paths that need more than shared memory.
    ///
    /// # Errors
    /// As [`HybridEndpoint::open`].
    pub fn with(settings: Settings) -> Result<Self> {
        open(settings.restricted_to(SHARED_MEMORY).over(FabricUse::Off)).map(Self)
    }
}

#[cfg(feature = "ibverbs")]
impl VerbsEndpoint {
    /// Opens an endpoint with the settings of the environment (`LIMIC_*`).
    ///
    /// # Errors
    /// As [`HybridEndpoint::open`]; [`Error::Settings`](crate::Error::Settings) with the reason if
    /// verbs are off.
    pub fn open() -> Result<Self> {
        Self::with(Settings::from_environment()?)
    }

    /// Opens an endpoint with given settings, whatever they say of [networks](Settings::fabric).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with(settings: Settings) -> Result<Self> {
        open(settings.over(FabricUse::VerbsOnly)).map(Self)
    }
}

const SHARED_MEMORY: PathSet = PathSet::ALL
    .without(Path::Cma)
    .without(Path::SplitCopy)
    .without(Path::Kmod)
    .without(Path::SameProcess);
