//! The fabrics that an endpoint opens: the only place that knows which kinds there are.

#[cfg(feature = "ibverbs")]
use std::sync::atomic::{AtomicBool, Ordering};

use limic_fabric::{Fabric, Provider};

use crate::settings::{Settings, VerbsUse};
use crate::{Address, Error, Result};

/// Opens the fabrics that the settings ask for, the preferred ones first.
///
/// # Errors
/// All peers are to be reached over one, and that is off.
pub(super) fn open_all(settings: &Settings, address: &Address) -> Result<Vec<Box<dyn Fabric>>> {
    let used = settings.verbs().used;
    let mut opened: Vec<Box<dyn Fabric>> = Vec::new();
    if used != VerbsUse::Off {
        match verbs(settings, address) {
            Ok(fabric) => opened.extend(fabric),
            Err(why) if used == VerbsUse::Only => return Err(off(Provider::Verbs, &why)),
            Err(why) => tracing::debug!("verbs are off: {why}"),
        }
    }
    Ok(opened)
}

fn off(provider: Provider, why: &str) -> Error {
    let name = provider.name();
    Error::Settings(format!(
        "all peers are to be reached over {name} (LIMIC_VERBS=only), which are off: {why}"
    ))
}

#[cfg(not(feature = "ibverbs"))]
fn verbs(_: &Settings, _: &Address) -> Result<Option<Box<dyn Fabric>>, String> {
    Err("this program was built without the feature ibverbs".to_owned())
}

/// The verbs of a machine that has an adapter; or why there are none.
#[cfg(feature = "ibverbs")]
fn verbs(settings: &Settings, address: &Address) -> Result<Option<Box<dyn Fabric>>, String> {
    use limic_ibverbs::fabric::{FabricSettings, Keep};
    use limic_ibverbs::{VerbsError, VerbsFabric};

    use crate::settings::VerbsCache;

    // A machine without a device is not asked again at each endpoint.
    static NO_DEVICE: AtomicBool = AtomicBool::new(false);
    let verbs = settings.verbs();
    let only = verbs.used == VerbsUse::Only;
    if NO_DEVICE.load(Ordering::Relaxed) && !only {
        return Ok(None);
    }
    let wanted = FabricSettings {
        streams: verbs.streams,
        send_entries: verbs.entries,
        coalesce: verbs.coalesce,
        devices: verbs.devices,
        rings: verbs.rings,
        keep: match verbs.cache {
            VerbsCache::Off => Keep::Nothing,
            VerbsCache::Auto => Keep::OnDemand,
            VerbsCache::Watch => Keep::Watched,
        },
        timeout: FabricSettings::timeout_for(verbs.retry, FabricSettings::DEFAULT.retries),
        ..FabricSettings::DEFAULT
    };
    match VerbsFabric::open(wanted, address.id, address.secret) {
        Ok(fabric) => Ok(Some(Box::new(fabric))),
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
