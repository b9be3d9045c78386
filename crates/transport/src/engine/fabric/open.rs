//! The fabrics that an endpoint opens: the only place that knows which kinds there are.

use std::sync::atomic::{AtomicBool, Ordering};

use limic_fabric::{Fabric, Network};
use limic_libfabric::{OfiError, OfiFabric};
use limic_tcp::{TcpFabric, TcpSettings};

use crate::networks::{ofi_serves, ofi_settings};
use crate::settings::{FabricUse, Settings};
use crate::{Address, Error, Result};

/// A fabric; or why there is none.
type OpenedFabric = core::result::Result<Box<dyn Fabric>, String>;

/// Opens the fabrics that the settings ask for, the preferred ones first.
///
/// # Errors
/// All peers are to be reached over one, and that is off.
pub(super) fn open_all(settings: &Settings, address: &Address) -> Result<Vec<Box<dyn Fabric>>> {
    let used = settings.fabric();
    let mut opened = Vec::new();
    for network in Network::ALL {
        let fabric = match network {
            Network::Verbs if used.has_verbs() => verbs(settings, address),
            Network::Ofi if used.has_ofi() => ofi(settings, address, !opened.is_empty()),
            Network::Tcp if used.has_tcp() => tcp(settings, address),
            Network::Verbs | Network::Ofi | Network::Tcp => continue,
        };
        match fabric {
            Ok(fabric) => opened.push(fabric),
            Err(why) if used.is_only() => {
                return Err(Error::Settings(format!(
                    "all peers are to be reached over a network (LIMIC_FABRIC={used}), which is \
                     off: {why}"
                )));
            }
            Err(why) => tracing::debug!("{} is off: {why}", network.name()),
        }
    }
    Ok(opened)
}

/// A provider of libfabric. `has_verbs`: it is not looked for unless somebody asks.
fn ofi(settings: &Settings, address: &Address, has_verbs: bool) -> OpenedFabric {
    // A machine without a provider is not asked again at each endpoint: that takes long.
    static NO_PROVIDER: AtomicBool = AtomicBool::new(false);
    let by_default = settings.fabric() == FabricUse::Auto;
    if by_default {
        ofi_serves(has_verbs)?;
        if NO_PROVIDER.load(Ordering::Relaxed) {
            return Err("libfabric has no provider for this machine's adapter".to_owned());
        }
    }
    match OfiFabric::open(&ofi_settings(settings), address.id, address.secret) {
        Ok(fabric) => Ok(Box::new(fabric)),
        Err(why) => {
            if by_default && matches!(why, OfiError::Nothing(_)) {
                NO_PROVIDER.store(true, Ordering::Relaxed);
            } else if !settings.fabric().is_only() {
                tracing::warn!("ofi is off: {why}");
            }
            Err(why.to_string())
        }
    }
}

fn tcp(settings: &Settings, address: &Address) -> OpenedFabric {
    let tcp = settings.tcp();
    let wanted = TcpSettings {
        interface: tcp.interface,
        also_loopback: settings.fabric().is_only(),
        timeout: tcp.timeout,
    };
    let asked = wanted.interface.is_some();
    match TcpFabric::open(&wanted, address.id, address.secret) {
        Ok(fabric) => Ok(Box::new(fabric)),
        Err(why) => {
            if asked {
                tracing::warn!("tcp is off: {why}");
            }
            Err(why)
        }
    }
}

#[cfg(not(feature = "ibverbs"))]
fn verbs(_: &Settings, _: &Address) -> OpenedFabric {
    Err("this program was built without the feature ibverbs".to_owned())
}

/// The verbs of a machine that has an adapter; or why there are none.
#[cfg(feature = "ibverbs")]
fn verbs(settings: &Settings, address: &Address) -> OpenedFabric {
    use limic_ibverbs::fabric::{FabricSettings, Keep};
    use limic_ibverbs::{VerbsError, VerbsFabric};

    use crate::settings::VerbsCache;

    // A machine without a device is not asked again at each endpoint.
    static NO_DEVICE: AtomicBool = AtomicBool::new(false);
    let verbs = settings.verbs();
    let only = settings.fabric().is_only();
    if NO_DEVICE.load(Ordering::Relaxed) && !only {
        return Err("this machine has no device".to_owned());
    }
    // Where none is named.
    let order = match verbs.devices[..] {
        [] => crate::networks::adapters().unwrap_or_default(),
        _ => Vec::new(),
    };
    let wanted = FabricSettings {
        streams: verbs.streams,
        send_entries: verbs.entries,
        coalesce: verbs.coalesce,
        devices: verbs.devices,
        order: order.into_iter().map(|(device, _)| device.name).collect(),
        port: crate::networks::ports(settings),
        rings: verbs.rings,
        keep: match verbs.cache {
            VerbsCache::Off => Keep::Nothing,
            VerbsCache::Auto => Keep::OnDemand,
            VerbsCache::Watch => Keep::Watched,
        },
        greeting: verbs.greeting,
        timeout: FabricSettings::timeout_for(verbs.retry, FabricSettings::DEFAULT.retries),
        ..FabricSettings::DEFAULT
    };
    match VerbsFabric::open(wanted, address.id, address.secret) {
        Ok(fabric) => Ok(Box::new(fabric)),
        Err(why) => {
            match why {
                VerbsError::NoLibrary(_) | VerbsError::NoDevice(_) | VerbsError::NoPort { .. } => {
                    NO_DEVICE.store(true, Ordering::Relaxed);
                }
                // There is a device, and settings or limits are in the way: the next endpoint may
                // have others.
                _ if !only => tracing::warn!("verbs are off: {why}"),
                _ => {}
            }
            Err(why.to_string())
        }
    }
}
