//! The context of protocol code: the components of one endpoint.

use limic_pools::arena::Arenas;
use limic_pools::staging::StagingPool;
use limic_shm::idle::Wakeup;

use super::fabric::FabricChannel;
use super::identity::Identity;
use super::matching::Matching;
use super::memory::OwnMemory;
use super::peer::quarantine::Quarantine;
use super::peer::sockets::Sockets;
use super::peer::table::Peers;
use super::regions::Regions;
use super::request::Requests;
use super::transfers::Transfers;
use crate::counters::Recorder;
use crate::settings::Settings;

/// Everything but the rings that the endpoint reads: a record is handled while its ring is
/// borrowed.
///
/// A function that takes the context uses the components that it names, and no others.
pub(crate) struct Cx {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) memory: OwnMemory,
    pub(crate) requests: Requests,
    pub(crate) matching: Matching,
    pub(crate) peers: Peers,
    pub(crate) sockets: Sockets,
    pub(crate) quarantine: Quarantine,
    pub(crate) staging: StagingPool,
    pub(crate) arenas: Arenas,
    pub(crate) regions: Regions,
    pub(crate) transfers: Transfers,
    pub(crate) fabric: FabricChannel,
    pub(crate) wakeup: Wakeup,
    pub(crate) counters: Recorder,
}
