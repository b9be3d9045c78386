//! Which paths are on, and for each that is off, why and what to do.

use limic::Settings;
use limic::networks::{Network, NetworkOff, networks};
use limic::settings::{Path, PathSet};
use limic_policy::select::LONGEST_EAGER;
use limic_policy::{Capabilities, Locality};

/// Whether a path can be taken on this machine with these settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    On,
    Off,
}

impl State {
    fn of(reason_to_be_off: Option<&String>) -> Self {
        reason_to_be_off.map_or(Self::On, |_| Self::Off)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// A path and its state.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct PathState {
    pub(super) path: &'static str,
    pub(super) state: State,
    pub(super) meaning: &'static str,
    /// Why it is off.
    pub(super) reason: Option<String>,
    /// What to do about that.
    pub(super) remedy: Option<String>,
}

const fn meaning(path: Path) -> &'static str {
    match path {
        Path::SelfCopy => "an endpoint to itself: one plain copy",
        Path::SameProcess => "two endpoints in one process: one plain copy",
        Path::Inline => "in the ring slot's first cache line",
        Path::Eager => "two copies through the ring, sent before the receive is known",
        Path::Pipeline => "two overlapped copies through a pool of staging buffers",
        Path::Cma => "one copy, by process_vm_readv",
        Path::SplitCopy => "one copy, shared by the receiver's reads and the sender's writes",
        Path::Kmod => "one copy, by the kernel module /dev/limic",
        Path::Loan => "no copy: a buffer in shared memory changes hands",
        Path::PeerReadable => "one copy, out of a buffer that the receiver has mapped",
        _ => "",
    }
}

/// Every path that settings can name.
pub(super) fn states(settings: &Settings, refused: &Refusals) -> Vec<PathState> {
    Path::settable()
        .map(|path| {
            let (reason, remedy) = off(settings, path, refused)
                .or_else(|| refused.endpoint.clone())
                .unzip();
            PathState {
                path: path.name(),
                state: State::of(reason.as_ref()),
                meaning: meaning(path),
                reason,
                remedy,
            }
        })
        .collect()
}

/// What the kernel says of each single-copy engine, and of endpoints.
pub(super) struct Refusals {
    cma: Option<limic_copy::Refused>,
    kmod: Option<limic_copy::Refused>,
    /// Why no endpoint can be opened, and what to do: its address holds the node.
    endpoint: Option<(String, String)>,
}

impl Refusals {
    pub(super) fn find_out() -> Self {
        Self {
            cma: limic_copy::explain().available.err(),
            kmod: limic_copy::Kmod::open().err(),
            endpoint: limic_topology::this_node().err().map(without_node),
        }
    }
}

fn without_node(unknown: limic_topology::UnknownNode) -> (String, String) {
    let remedy = format!("make {} readable, with its content", unknown.file);
    (format!("no endpoint can be opened: {unknown}"), remedy)
}

fn cause_and_remedy(refused: &limic_copy::Refused) -> (String, String) {
    let cause = match refused.errno {
        Some(errno) => {
            let text = std::io::Error::from_raw_os_error(errno);
            format!("{}; {text}", refused.reason)
        }
        None => refused.reason.to_string(),
    };
    (cause, refused.reason.remedy().to_owned())
}

/// Why a path is off, and what to do.
fn off(settings: &Settings, path: Path, refused: &Refusals) -> Option<(String, String)> {
    if !settings.allowed().contains(path) {
        let variables = settings.variables();
        let source = variables
            .iter()
            .find(|variable| variable.name == "LIMIC_PATHS")
            .map_or("the settings", |variable| &variable.source);
        return Some((
            format!(
                "not among the allowed paths ({}), from {source}",
                settings.allowed()
            ),
            format!("add {path} to LIMIC_PATHS, or unset it"),
        ));
    }
    match path {
        Path::Cma | Path::SplitCopy => refused.cma.as_ref().map(cause_and_remedy),
        Path::Kmod => refused.kmod.as_ref().map(cause_and_remedy),
        _ => None,
    }
}

/// What to do about a network that is off.
fn remedy_for(name: &str, why: &NetworkOff) -> &'static str {
    match why {
        NetworkOff::Settings(_) => "unset LIMIC_FABRIC, or set it to auto",
        NetworkOff::NotBuilt => "build with the feature ibverbs",
        _ if name == "tcp" => "give an interface an address, and name it in LIMIC_TCP_INTERFACE",
        _ if name == "ofi" => {
            "none is needed where verbs or TCP serve; else libfabric 1.11 or newer, and \
             LIMIC_FABRIC=ofi"
        }
        _ => {
            "none is needed within one node, nor where TCP is fast enough; else an InfiniBand or \
             RoCE adapter, or a soft one (rdma link add rxe0 type rxe netdev NAME), and \
             ibverbs-providers"
        }
    }
}

/// A network that leads to other machines, or why it does not.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct NetworkState {
    pub(super) network: &'static str,
    pub(super) state: State,
    /// Devices, or the address that peers are told.
    pub(super) at: Option<String>,
    /// Why it is off.
    pub(super) reason: Option<String>,
    /// What to do about that.
    pub(super) remedy: Option<String>,
}

/// Every network.
pub(super) fn network_states(settings: &Settings, refused: &Refusals) -> Vec<NetworkState> {
    let state = |network: Network| {
        let name = network.name;
        let why = network.state.as_ref().err();
        let (reason, remedy) = why
            .map(|why| (why.to_string(), remedy_for(name, why).to_owned()))
            .or_else(|| refused.endpoint.clone())
            .unzip();
        NetworkState {
            network: name,
            state: State::of(reason.as_ref()),
            at: network.state.ok(),
            reason,
            remedy,
        }
    };
    networks(settings).into_iter().map(state).collect()
}

/// What a pair of endpoints at this distance can do here.
pub(super) fn capabilities(
    settings: &Settings,
    locality: Locality,
    refused: &Refusals,
) -> Capabilities {
    let on = |path: &Path| off(settings, *path, refused).is_none();
    let mut capabilities = Capabilities::ALL;
    capabilities.paths = Path::settable().filter(on).collect::<PathSet>();
    if locality != Locality::SameProcess {
        capabilities.demote(Path::SameProcess);
    }
    capabilities.max_eager = LONGEST_EAGER;
    capabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_allowed_says_from_where() {
        let settings = Settings::builder()
            .with_environment([("LIMIC_PATHS", "inline,eager,pipeline")])
            .build()
            .unwrap();
        let states = states(&settings, &Refusals::find_out());
        let cma = states.iter().find(|state| state.path == "cma").unwrap();
        assert_eq!(cma.state, State::Off);
        assert!(cma.reason.as_ref().unwrap().contains("LIMIC_PATHS"));
        assert!(cma.remedy.as_ref().unwrap().contains("add cma"));
        let eager = states.iter().find(|state| state.path == "eager").unwrap();
        assert_eq!((eager.state, &eager.reason), (State::On, &None));
    }

    #[test]
    fn nothing_is_on_where_no_endpoint_can_be_opened() {
        let unknown = limic_topology::UnknownNode {
            file: "/proc/sys/kernel/random/boot_id",
            source: std::io::ErrorKind::NotFound.into(),
        };
        let refused = Refusals {
            endpoint: Some(without_node(unknown)),
            ..Refusals::find_out()
        };
        let settings = Settings::builder().without_environment().build().unwrap();
        let states = states(&settings, &refused);
        let eager = states.iter().find(|state| state.path == "eager").unwrap();
        assert!(eager.reason.as_ref().unwrap().contains("boot_id"));
        assert!(eager.remedy.as_ref().unwrap().contains("boot_id"));
        assert!(states.iter().all(|state| state.state == State::Off));
        let networks = network_states(&settings, &refused);
        assert!(networks.iter().all(|network| network.state == State::Off));
    }

    #[test]
    fn every_path_has_a_meaning() {
        for path in Path::settable() {
            assert!(!meaning(path).is_empty(), "{path}");
        }
    }
}
