//! What can be said about verbs.

use core::str::FromStr;
use core::time::Duration;

use limic_policy::named;
use limic_policy::named::find;

use crate::Settings;
use crate::forms::Form;

named! {
    /// When the ranks of a job meet over verbs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum VerbsConnect {
        /// Each pair at its first message.
        #[default]
        OnDemand = "on-demand",
        /// All pairs when the job starts, in `n - 1` steps.
        Static = "static",
    }
}

impl FromStr for VerbsConnect {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        find(&Self::ALL, Self::name, text).ok_or(())
    }
}

named! {
    /// Which registrations of long messages' memory are kept for the next message. As long as a
    /// registration is kept, peers can read memory that was sent from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum VerbsCache {
        /// Those that cannot become wrong: on devices with on-demand paging.
        #[default]
        Auto = "auto",
        /// None.
        Off = "off",
        /// On other devices too. The process gets a thread that the kernel tells of memory that is
        /// unmapped (userfaultfd).
        Watch = "watch",
    }
}

impl FromStr for VerbsCache {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "no" | "0" => Ok(Self::Off),
            text => find(&Self::ALL, Self::name, text).ok_or(()),
        }
    }
}

/// Most devices of an endpoint.
const DEVICES: usize = 2;

/// The devices of a list, `NAME` or `NAME:PORT` each. `None` if it is no such list.
pub(crate) fn devices(text: &str) -> Option<Vec<String>> {
    let devices: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
    let named = |device: &String| {
        let (name, port) = device
            .rsplit_once(':')
            .map_or((&**device, None), |(name, port)| (name, Some(port)));
        let port = port.is_none_or(|port| port.parse::<u8>().is_ok_and(|port| port > 0));
        !name.is_empty() && port
    };
    (devices.len() <= DEVICES && devices.iter().all(named)).then_some(devices)
}

/// The key of a partition as InfiniBand writes it, or auto. Its highest bit is the kind of
/// membership: without it, something has to be left.
pub(crate) struct PartitionKey;

impl Form<Option<u16>> for PartitionKey {
    fn read(&self, text: &str) -> Option<Option<u16>> {
        if text.eq_ignore_ascii_case("auto") {
            return Some(None);
        }
        let key = match text.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => text.parse(),
        };
        key.ok().filter(|key| key << 1 != 0).map(Some)
    }

    fn show(&self, value: &Option<u16>) -> String {
        value.map_or_else(|| "auto".to_owned(), |key| format!("{key:#06x}"))
    }
}

/// How verbs are used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbsSettings {
    /// Queue pairs to each peer, 1 to 8 (`LIMIC_VERBS_STREAMS`). The same in all ranks.
    pub streams: u8,
    /// Entries of each queue pair's send queue, 2 to 4096 (`LIMIC_VERBS_ENTRIES`).
    pub entries: u16,
    /// Whether messages share packets while no entry is free (`LIMIC_VERBS_COALESCE`).
    pub coalesce: bool,
    /// Devices, `NAME` or `NAME:PORT`, at most two, to which the queue pairs are dealt out
    /// (`LIMIC_VERBS_DEVICES`). Empty: the nearest one with a port that is up.
    pub devices: Vec<String>,
    /// Most peers that get a ring here to write into, 0 to 1024 (`LIMIC_VERBS_RINGS`).
    pub rings: u16,
    /// Which registrations of long messages' memory are kept (`LIMIC_VERBS_CACHE`).
    pub cache: VerbsCache,
    /// When ranks meet (`LIMIC_VERBS_CONNECT`), also over TCP.
    pub connect: VerbsConnect,
    /// Least time for which adapters repeat what a peer does not acknowledge, before the peer
    /// counts as lost: 10 ms to 10 minutes (`LIMIC_VERBS_RETRY_MS`). Adapters know few steps, each
    /// twice the one before.
    pub retry: Duration,
    /// Time in which a peer has to answer at the first contact: 100 ms to a day
    /// (`LIMIC_VERBS_GREETING_MS`). It answers when it makes a call.
    pub greeting: Duration,
    /// Entry of the ports' tables of global identifiers, 0 to 255 (`LIMIC_VERBS_GID_INDEX`).
    /// `None`: the best.
    pub gid_index: Option<u8>,
    /// Key of the partition of the connections (`LIMIC_VERBS_PARTITION`). `None`: the first of
    /// each port.
    pub partition: Option<u16>,
    /// Service level of packets, 0 to 15 (`LIMIC_VERBS_SERVICE_LEVEL`).
    pub service_level: u8,
    /// Traffic class of packets (`LIMIC_VERBS_TRAFFIC_CLASS`).
    pub traffic_class: u8,
    /// Most bytes of the network's packets, a power of two from 256 to 4096 (`LIMIC_VERBS_MTU`).
    /// `None`: those of each port.
    pub mtu: Option<u32>,
}

impl Default for VerbsSettings {
    fn default() -> Self {
        Settings::default().verbs()
    }
}
