//! Which networks lead to other machines from here.

#[cfg(feature = "ibverbs")]
use std::path::Path;

use limic_fabric::Limits;
#[cfg(feature = "ibverbs")]
use limic_ibverbs::objects::{Context, Device, devices, named};
use limic_libfabric::OfiSettings;
#[cfg(feature = "ibverbs")]
use limic_topology::{CpuSet, Nearness};

use crate::settings::{FabricUse, OfiReads, Settings};

/// A network, and whether endpoints here use it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Network {
    /// Its name, as in `LIMIC_FABRIC`.
    pub name: &'static str,
    /// The devices, or the address that peers are told; or why it is off.
    pub state: Result<String, NetworkOff>,
}

/// Why a network is off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkOff {
    /// The settings say so.
    #[error("switched off by the settings (LIMIC_FABRIC={0})")]
    Settings(String),
    /// This build of limic does not have it.
    #[error("this build has no verbs (feature ibverbs)")]
    NotBuilt,
    /// The machine has nothing that can be used.
    #[error("{0}")]
    Unusable(String),
}

/// All networks that limic knows, the preferred ones first.
#[must_use]
pub fn networks(settings: &Settings) -> [Network; 3] {
    let used = settings.fabric();
    let state = |on: bool, find: &dyn Fn() -> Result<String, NetworkOff>| {
        if on {
            find()
        } else {
            Err(NetworkOff::Settings(used.to_string()))
        }
    };
    let verbs = state(used.has_verbs(), &|| verbs(settings));
    let has_verbs = verbs.is_ok();
    [
        Network {
            name: "verbs",
            state: verbs,
        },
        Network {
            name: "ofi",
            state: state(used.has_ofi(), &|| ofi(settings, has_verbs)),
        },
        Network {
            name: "tcp",
            state: state(used.has_tcp(), &|| tcp(settings)),
        },
    ]
}

fn ofi(settings: &Settings, has_verbs: bool) -> Result<String, NetworkOff> {
    let unasked = settings.fabric() == FabricUse::Auto;
    let serves = if unasked {
        ofi_serves(has_verbs)
    } else {
        Ok(())
    };
    serves
        .and_then(|()| {
            let found = limic_libfabric::found(&ofi_settings(settings));
            found.map(|found| found.name).map_err(|why| why.to_string())
        })
        .map_err(NetworkOff::Unusable)
}

/// Whether libfabric is worth to be asked where nobody has said so: to load it takes longer than to
/// open an endpoint, and over sockets it is no faster than TCP is here.
pub(crate) fn ofi_serves(has_verbs: bool) -> Result<(), String> {
    if has_verbs {
        return Err("verbs serve this machine's adapter".to_owned());
    }
    match limic_libfabric::adapter() {
        Some(_) => Ok(()),
        None => Err("this machine has no adapter for it".to_owned()),
    }
}

fn tcp(settings: &Settings) -> Result<String, NetworkOff> {
    let interface = settings.tcp().interface;
    let only = settings.fabric().is_only();
    let ip = limic_tcp::interface::choose(interface.as_deref(), only);
    ip.map(|ip| ip.to_string()).map_err(NetworkOff::Unusable)
}

/// What an endpoint of libfabric is opened with.
pub(crate) fn ofi_settings(settings: &Settings) -> OfiSettings {
    OfiSettings {
        provider: settings.ofi_provider().map(str::to_owned),
        adapters: settings.fabric() == FabricUse::Auto,
        reads: match settings.ofi_reads() {
            OfiReads::On => Some(true),
            OfiReads::Off => Some(false),
            _ => None,
        },
        timeout: settings.tcp().timeout,
    }
}

/// What connections over the network of this name take. `None`: this build of limic does not have
/// it.
#[doc(hidden)]
#[must_use]
pub fn limits(settings: &Settings, name: &str) -> Option<Limits> {
    match name {
        "tcp" => Some(limic_tcp::TcpFabric::LIMITS),
        // Where there is no provider, it is as if there were one without reads.
        "ofi" => Some(match limic_libfabric::found(&ofi_settings(settings)) {
            Ok(found) => found.limits,
            Err(_) => limic_libfabric::OfiFabric::LIMITS,
        }),
        #[cfg(feature = "ibverbs")]
        "verbs" => {
            use limic_ibverbs::fabric::FabricSettings;
            Some(limic_ibverbs::VerbsFabric::limits_with(
                &FabricSettings::DEFAULT,
            ))
        }
        _ => None,
    }
}

/// How ports of verbs are used.
#[cfg(feature = "ibverbs")]
pub(crate) fn ports(settings: &Settings) -> limic_ibverbs::objects::PortSettings {
    let verbs = settings.verbs();
    limic_ibverbs::objects::PortSettings {
        gid_index: verbs.gid_index,
        partition: verbs.partition,
        service_level: verbs.service_level,
        traffic_class: verbs.traffic_class,
        mtu: verbs.mtu,
    }
}

/// The adapters that verbs have here, the nearest ones to this thread's CPUs first.
#[cfg(feature = "ibverbs")]
pub(crate) fn adapters() -> Result<Vec<(Device, Nearness)>, limic_ibverbs::VerbsError> {
    let cpus = CpuSet::allowed().unwrap_or_default();
    let mut adapters: Vec<_> = devices()?
        .into_iter()
        .map(|device| {
            let folder = Path::new("/sys/class/infiniband").join(&device.name);
            let nearness = Nearness::of(&folder.join("device"), &cpus);
            (device, nearness)
        })
        .collect();
    adapters.sort_by_key(|(_, nearness)| *nearness);
    Ok(adapters)
}

/// The adapters that verbs use, or why there is none. Where the settings name none, it is the
/// nearest one, with the others behind it.
///
/// # Errors
/// [`NetworkOff`].
#[cfg(feature = "ibverbs")]
fn verbs(settings: &Settings) -> Result<String, NetworkOff> {
    let wanted = settings.verbs().devices;
    let ports = ports(settings);
    let (mut usable, mut why) = (Vec::new(), Vec::new());
    let text = |error: limic_ibverbs::VerbsError| NetworkOff::Unusable(error.to_string());
    for (device, nearness) in adapters().map_err(text)? {
        match Context::open(&device).and_then(|context| context.first_port(&ports)) {
            Ok(_) => usable.push((device, nearness)),
            Err(error) => why.push(format!("{}: {error}", device.name)),
        }
    }
    let is_usable = |name: &String| named(usable.iter().map(|(device, _)| device), name).is_some();
    match &usable[..] {
        _ if !wanted.is_empty() && wanted.iter().all(is_usable) => Ok(wanted.join(", ")),
        _ if !wanted.is_empty() => Err(NetworkOff::Unusable(format!(
            "not all of {} can be used (LIMIC_VERBS_DEVICES): {}",
            wanted.join(", "),
            why.join("; ")
        ))),
        [] => Err(NetworkOff::Unusable(why.join("; "))),
        [(only, _)] => Ok(only.name.clone()),
        [(used, nearness), others @ ..] => {
            let others = others
                .iter()
                .map(|(device, nearness)| format!("; {} is {nearness}", device.name));
            Ok(format!(
                "{}, which is {nearness}{}",
                used.name,
                others.collect::<String>()
            ))
        }
    }
}

#[cfg(not(feature = "ibverbs"))]
fn verbs(_: &Settings) -> Result<String, NetworkOff> {
    Err(NetworkOff::NotBuilt)
}
