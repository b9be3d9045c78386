//! Ports and their addresses.

use core::fmt;
use std::net::Ipv6Addr;

use crate::sys;

use super::device::Context;
use crate::VerbsError;

/// A global identifier, as InfiniBand writes it: like an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(self.0), f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkLayer {
    /// InfiniBand: the fabric's own local identifiers.
    InfiniBand,
    /// RoCE: global identifiers over IP.
    Ethernet,
}

/// Where a port is reached from other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortAddress {
    /// Global identifier.
    pub gid: Gid,
    /// Local identifier of InfiniBand, 0 on Ethernet.
    pub lid: u16,
}

/// How a port is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortSettings {
    /// Entry of its table of global identifiers; `None` for the best.
    pub gid_index: Option<u8>,
    /// Key of the partition; `None` for the first that the port is in.
    pub partition: Option<u16>,
    /// Service level of packets, 0 to 15.
    pub service_level: u8,
    /// Traffic class of packets that have a global route.
    pub traffic_class: u8,
    /// Most bytes of a packet, 256 to 4096; `None` for those of the port.
    pub mtu: Option<u32>,
}

/// A port that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub(super) number: u8,
    pub(super) partition_index: u16,
    pub(super) mtu: sys::ibv_mtu::Type,
    datagram_bytes: usize,
    gid_index: u8,
    service_level: u8,
    traffic_class: u8,
    /// Each packet has a global route.
    is_global: bool,
    address: PortAddress,
}

impl Port {
    /// Number on its device, from 1.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Where peers reach it.
    #[must_use]
    pub fn address(&self) -> PortAddress {
        self.address
    }

    /// Bytes of the longest datagram.
    #[must_use]
    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// The way from this port to another.
    pub(super) fn route(&self, to: &PortAddress) -> sys::ibv_ah_attr {
        // SAFETY: all-zero bytes are a value of this plain C struct.
        let mut attr: sys::ibv_ah_attr = unsafe { std::mem::zeroed() };
        attr.port_num = self.number;
        attr.dlid = to.lid;
        attr.sl = self.service_level;
        if self.is_global || to.gid.0[..8] != self.address.gid.0[..8] {
            attr.is_global = 1;
            attr.grh.traffic_class = self.traffic_class;
            attr.grh.dgid = sys::ibv_gid { raw: to.gid.0 };
            attr.grh.sgid_index = self.gid_index;
            attr.grh.hop_limit = 64;
        }
        attr
    }
}

/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;
/// `IBV_QPF_GRH_REQUIRED`.
const GLOBAL_ROUTE: u8 = 1;
/// `IBV_PORT_ACTIVE`.
const ACTIVE: u32 = 4;
/// `IBV_GID_TYPE_ROCE_V2` of the extended query.
const ROCE_V2: u32 = 2;

pub(super) fn query(
    context: &Context,
    number: u8,
    settings: &PortSettings,
) -> Result<Port, VerbsError> {
    // SAFETY: all-zero bytes are a value of this plain C struct; on an old provider the call leaves
    // the tail as it is.
    let mut attr: sys::ibv_port_attr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and room for the answer.
    let returned = unsafe { sys::ibv_query_port(context.raw(), number, &raw mut attr) };
    VerbsError::check("ibv_query_port", returned)?;
    let unusable = |why: String| VerbsError::NoPort {
        device: context.name().to_owned(),
        why: format!("port {number} {why}"),
    };
    if attr.state != ACTIVE {
        return Err(unusable("is not active".to_owned()));
    }
    if context.speaks_iwarp() {
        let why = "speaks iWARP, which has no datagrams to meet by; TCP can use it";
        return Err(unusable(why.to_owned()));
    }
    let layer = if attr.link_layer == ETHERNET {
        LinkLayer::Ethernet
    } else {
        LinkLayer::InfiniBand
    };
    let entries = u32::try_from(attr.gid_tbl_len).unwrap_or(0).min(256);
    let unset = |why: String| VerbsError::Setting {
        device: context.name().to_owned(),
        port: number,
        why,
    };
    let (gid_index, gid) = match layer {
        _ if settings.gid_index.is_some() => {
            let index = settings.gid_index.unwrap_or(0);
            let gid = read_gid(context, number, index.into()).ok();
            let gid = gid.filter(|(gid, _)| gid.0 != [0; 16]).ok_or_else(|| {
                unset(format!(
                    "has no global identifier {index} (LIMIC_VERBS_GID_INDEX)"
                ))
            })?;
            (index, gid.0)
        }
        LinkLayer::InfiniBand => (0, read_gid(context, number, 0)?.0),
        LinkLayer::Ethernet => (0..entries)
            .filter_map(|index| {
                let (gid, version) = read_gid(context, number, index).ok()?;
                let rank = preference(&gid, version)?;
                Some((rank, index, gid))
            })
            .min_by_key(|(rank, index, _)| (*rank, *index))
            .map(|(_, index, gid)| (index as u8, gid))
            .ok_or_else(|| unusable("has no address: give its network interface one".to_owned()))?,
    };
    let partition_index = match settings.partition {
        None => 0,
        Some(wanted) => {
            let keys = partitions(context, number, attr.pkey_tbl_len)?;
            place_of(wanted, &keys).ok_or_else(|| {
                let keys = keys.iter().filter(|key| **key != 0);
                let keys: Vec<_> = keys.map(|key| format!("{key:#06x}")).collect();
                unset(format!(
                    "is in no partition {wanted:#06x} (LIMIC_VERBS_PARTITION), only in {}",
                    keys.join(", ")
                ))
            })?
        }
    };
    // 1 stands for 256 bytes, and each next number for twice as many.
    let wanted = settings
        .mtu
        .map_or(attr.active_mtu, |bytes| (bytes / 128).max(2).ilog2());
    Ok(Port {
        number,
        gid_index,
        partition_index,
        mtu: attr.active_mtu.min(wanted),
        datagram_bytes: 128 << attr.active_mtu.min(5),
        service_level: settings.service_level,
        traffic_class: settings.traffic_class,
        // On Ethernet it is the only route; on InfiniBand it is needed between subnets, and
        // wherever the port says so.
        is_global: layer == LinkLayer::Ethernet || attr.flags & GLOBAL_ROUTE != 0,
        address: PortAddress { gid, lid: attr.lid },
    })
}

/// Which of a port's addresses is taken: RoCE version 2 before 1, IPv4 before global IPv6 before
/// link-local. `None` for an empty entry.
fn preference(gid: &Gid, version: u32) -> Option<u32> {
    if gid.0 == [0; 16] {
        return None;
    }
    let ip = Ipv6Addr::from(gid.0);
    let kind = if ip.to_ipv4_mapped().is_some() {
        0
    } else if gid.0[..2] == [0xfe, 0x80] {
        2
    } else {
        1
    };
    Some(kind + if version == ROCE_V2 { 0 } else { 10 })
}

/// The keys of the partitions that a port is in, in the order of its table.
fn partitions(context: &Context, port: u8, count: u16) -> Result<Vec<u16>, VerbsError> {
    let read = |index: u16| {
        let mut key = 0;
        // SAFETY: an open context, and room for the answer.
        let returned =
            unsafe { sys::ibv_query_pkey(context.raw(), port, index.into(), &raw mut key) };
        VerbsError::check("ibv_query_pkey", returned)?;
        Ok(u16::from_be(key))
    };
    (0..count).map(read).collect()
}

/// Where the key of a partition stands. Its highest bit says that the port is a full member, which
/// goes before.
fn place_of(wanted: u16, keys: &[u16]) -> Option<u16> {
    let same = |key: &u16| key << 1 == wanted << 1;
    let full = keys.iter().position(|key| same(key) && key >> 15 == 1);
    let place = full.or_else(|| keys.iter().position(same))?;
    u16::try_from(place).ok()
}

fn read_gid(context: &Context, port: u8, index: u32) -> Result<(Gid, u32), VerbsError> {
    // SAFETY: all-zero bytes are a value of this plain C struct.
    let mut entry: sys::ibv_gid_entry = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and room for the answer.
    let returned =
        unsafe { sys::ibv_query_gid_ex(context.raw(), u32::from(port), index, &raw mut entry, 0) };
    VerbsError::check("ibv_query_gid_ex", returned)?;
    // SAFETY: both views of the union are plain bytes.
    Ok((Gid(unsafe { entry.gid.raw }), entry.gid_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_found_by_its_key_and_full_members_go_first() {
        let keys = [0xffff, 0x0001, 0x8001, 0];
        assert_eq!(place_of(0x8001, &keys), Some(2));
        assert_eq!(place_of(0x0001, &keys), Some(2));
        assert_eq!(place_of(0x0001, &keys[..2]), Some(1));
        assert_eq!(place_of(0x8002, &keys), None);
    }

    #[test]
    fn the_best_address_of_a_port_is_taken() {
        let gid = |text: &str| Gid(text.parse::<Ipv6Addr>().unwrap().octets());
        let ipv4 = gid("::ffff:10.77.0.1");
        let local = gid("fe80::1");
        let global = gid("2001:db8::1");
        assert_eq!(preference(&gid("::"), ROCE_V2), None);
        assert!(preference(&ipv4, ROCE_V2) < preference(&global, ROCE_V2));
        assert!(preference(&global, ROCE_V2) < preference(&local, ROCE_V2));
        assert!(preference(&local, ROCE_V2) < preference(&ipv4, 1));
        assert_eq!(ipv4.to_string(), "::ffff:10.77.0.1");
    }
}
