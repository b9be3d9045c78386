//! Where an endpoint is reached over the fabric: 20 bytes, which fit into the address that a
//! bootstrap carries.

use crate::objects::{Gid, PortAddress};

/// A port and the number of the queue that takes greetings there.
///
/// | bytes  | on Ethernet             | on InfiniBand         |
/// |--------|-------------------------|-----------------------|
/// | 0      | 1                       | 2                     |
/// | 1..4   | number of the UD queue pair                    ||
/// | 4..20  | global identifier       | ports's interface identifier (8), subnet prefix (6 low bytes), local identifier (2) |
///
/// The two high bytes of an InfiniBand subnet prefix are those of the default prefix (fe80), the
/// only case in which they are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FabricAddress {
    /// The port.
    pub port: PortAddress,
    /// The queue pair that takes greetings, 24 bits.
    pub greeter: u32,
}

/// Bytes of an encoded [`FabricAddress`].
pub const FABRIC_ADDRESS_LEN: usize = 20;

const ETHERNET: u8 = 1;
const INFINIBAND: u8 = 2;

impl FabricAddress {
    /// As it travels. `None` for an InfiniBand port in a subnet whose prefix does not begin with
    /// fe80.
    #[must_use]
    pub fn to_bytes(&self) -> Option<[u8; FABRIC_ADDRESS_LEN]> {
        let mut out = [0; FABRIC_ADDRESS_LEN];
        out[1..4].copy_from_slice(&self.greeter.to_le_bytes()[..3]);
        let gid = self.port.gid.0;
        if self.port.lid == 0 {
            out[0] = ETHERNET;
            out[4..].copy_from_slice(&gid);
        } else {
            if gid[..2] != [0xfe, 0x80] {
                return None;
            }
            out[0] = INFINIBAND;
            out[4..12].copy_from_slice(&gid[8..]);
            out[12..18].copy_from_slice(&gid[2..8]);
            out[18..].copy_from_slice(&self.port.lid.to_le_bytes());
        }
        Some(out)
    }

    /// From an address. `None` if there is no fabric address in it, or one of a kind that this
    /// version does not know.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; FABRIC_ADDRESS_LEN]) -> Option<Self> {
        let greeter = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], 0]);
        let mut gid = [0; 16];
        let lid = match bytes[0] {
            ETHERNET => {
                gid.copy_from_slice(&bytes[4..]);
                0
            }
            INFINIBAND => {
                gid[..2].copy_from_slice(&[0xfe, 0x80]);
                gid[2..8].copy_from_slice(&bytes[12..18]);
                gid[8..].copy_from_slice(&bytes[4..12]);
                u16::from_le_bytes([bytes[18], bytes[19]])
            }
            _ => return None,
        };
        Some(Self {
            port: PortAddress { gid: Gid(gid), lid },
            greeter,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for (lid, prefix) in [(0, 0x20), (7, 0xfe)] {
            let mut gid = [3; 16];
            gid[0] = prefix;
            gid[1] = if lid == 0 { 1 } else { 0x80 };
            let address = FabricAddress {
                port: PortAddress { gid: Gid(gid), lid },
                greeter: 0x00ab_cdef,
            };
            let bytes = address.to_bytes().unwrap();
            assert_eq!(FabricAddress::from_bytes(&bytes), Some(address));
        }
        assert_eq!(FabricAddress::from_bytes(&[0; 20]), None);
    }
}
