//! Where an endpoint is reached over the fabric: a few bytes, which fit into the address that a
//! bootstrap carries.

use crate::objects::{Gid, PortAddress};

/// Where one rail of an endpoint is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RailAddress {
    /// The port.
    pub port: PortAddress,
    /// The queue pair that takes greetings there, 24 bits.
    pub greeter: u32,
}

/// Where an endpoint is reached: by each of its rails. For each of them there is
///
/// | bytes | |
/// |-------|-|
/// | 1     | kind of the network |
/// | 3     | number of the queue pair that takes greetings |
/// | 16    | kind 3, Ethernet: global identifier |
/// | 18    | kind 4, InfiniBand: global identifier, local identifier |
/// | 4     | kind 5, Ethernet with an IPv4 address: that |
/// | 10    | kind 6, InfiniBand with the default prefix: interface and local identifier |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FabricAddress {
    /// The first rail.
    pub first: RailAddress,
    /// The second one, if there is one.
    pub second: Option<RailAddress>,
}

/// Most bytes of an encoded [`FabricAddress`]: the address of an endpoint has room for that and
/// for a place in TCP.
pub const LONGEST_ADDRESS: usize = 28;

// Kinds 1 and 2 were those of addresses with one rail, whose owners understand no greeting of this
// version.
const ETHERNET: u8 = 3;
const INFINIBAND: u8 = 4;
const IPV4: u8 = 5;
const INFINIBAND_DEFAULT: u8 = 6;

/// What global identifiers begin with that are IPv4 addresses.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// The subnet prefix that most networks have.
const DEFAULT_PREFIX: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];

impl FabricAddress {
    /// The rail for a way that was counted from 0: each in turn.
    pub(super) fn rail(&self, way: usize) -> &RailAddress {
        match &self.second {
            Some(second) if way % 2 == 1 => second,
            _ => &self.first,
        }
    }

    /// Both, or the only one.
    pub(super) fn rails(&self) -> impl Iterator<Item = &RailAddress> {
        core::iter::once(&self.first).chain(&self.second)
    }

    /// As it travels. A second rail that finds no room is left out: peers learn of it when they
    /// meet.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.first.to_bytes();
        let second = self.second.map_or(Vec::new(), |second| second.to_bytes());
        if out.len() + second.len() <= LONGEST_ADDRESS {
            out.extend(second);
        }
        out
    }

    /// From an address. `None` if there is no fabric address in it, or one of a kind that this
    /// version does not know.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = RailAddress::split(bytes)?;
        if bytes.len() > LONGEST_ADDRESS {
            return None;
        }
        let second = match rest {
            [] => None,
            rest => Some(
                RailAddress::split(rest)
                    .filter(|(_, rest)| rest.is_empty())?
                    .0,
            ),
        };
        Some(Self { first, second })
    }
}

/// Most bytes of an encoded [`RailAddress`].
pub(super) const LONGEST_RAIL: usize = 22;

impl RailAddress {
    /// As it travels.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let gid = self.port.gid.0;
        let (kind, place) = match self.port.lid {
            0 if gid[..12] == MAPPED => (IPV4, &gid[12..]),
            0 => (ETHERNET, &gid[..]),
            _ if gid[..8] == DEFAULT_PREFIX => (INFINIBAND_DEFAULT, &gid[8..]),
            _ => (INFINIBAND, &gid[..]),
        };
        let mut out = vec![kind];
        out.extend(&self.greeter.to_le_bytes()[..3]);
        out.extend(place);
        if self.port.lid != 0 {
            out.extend(self.port.lid.to_le_bytes());
        }
        out
    }

    /// A rail, and the bytes behind it.
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[kind, a, b, c], rest) = bytes.split_first_chunk::<4>()?;
        let (before, has_lid): (&[u8], bool) = match kind {
            ETHERNET => (&[], false),
            INFINIBAND => (&[], true),
            IPV4 => (&MAPPED, false),
            INFINIBAND_DEFAULT => (&DEFAULT_PREFIX, true),
            _ => return None,
        };
        let (place, mut rest) = rest.split_at_checked(16 - before.len())?;
        let mut gid = [0; 16];
        gid[..before.len()].copy_from_slice(before);
        gid[before.len()..].copy_from_slice(place);
        let mut lid = 0;
        if has_lid {
            let (bytes, behind) = rest.split_first_chunk()?;
            (lid, rest) = (u16::from_le_bytes(*bytes), behind);
            (lid != 0).then_some(())?;
        }
        let rail = Self {
            port: PortAddress { gid: Gid(gid), lid },
            greeter: u32::from_le_bytes([a, b, c, 0]),
        };
        Some((rail, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(lid: u16, prefix: &[u8]) -> RailAddress {
        let mut gid = [3; 16];
        gid[..prefix.len()].copy_from_slice(prefix);
        RailAddress {
            port: PortAddress { gid: Gid(gid), lid },
            greeter: 0x00ab_cdef,
        }
    }

    #[test]
    fn addresses_come_back() {
        for (first, bytes) in [
            (rail(0, &[0x20, 1]), 20),
            (rail(0, &MAPPED), 8),
            (rail(7, &[0xfe, 0x80, 1]), 22),
            (rail(7, &DEFAULT_PREFIX), 14),
        ] {
            for second in [None, Some(first)] {
                let address = FabricAddress { first, second };
                let fits = second.is_none() || 2 * bytes <= LONGEST_ADDRESS;
                let told = address.to_bytes();
                assert_eq!(
                    told.len(),
                    if fits {
                        bytes * address.rails().count()
                    } else {
                        bytes
                    }
                );
                let again = FabricAddress::from_bytes(&told).unwrap();
                assert_eq!((again.first, again == address), (first, fits));
            }
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        let address = FabricAddress {
            first: rail(0, &MAPPED),
            second: None,
        };
        let bytes = address.to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(FabricAddress::from_bytes(&bytes[..end]), None);
        }
        assert_eq!(FabricAddress::from_bytes(&bytes.repeat(3)), None);
        assert_eq!(FabricAddress::from_bytes(&[0; 20]), None);
        // Of a version with one rail.
        for kind in [1, 2] {
            let old = [&[kind, 1, 2, 3][..], &[0x20; 16]].concat();
            assert_eq!(FabricAddress::from_bytes(&old), None);
        }
        // A local identifier of 0 is none.
        let lid = [&[INFINIBAND_DEFAULT, 1, 2, 3][..], &[3; 8], &[0; 2]].concat();
        assert_eq!(FabricAddress::from_bytes(&lid), None);
    }
}
