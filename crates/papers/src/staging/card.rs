//! What two ends tell each other beside the fabric: where a queue pair is, where an area is.

use limic_ibverbs::objects::{AdapterMemory, Gid, PortAddress, RemoteMemory, RemoteQueuePair};

/// Bytes of an encoded [`LinkCard`].
pub const CARD_LEN: usize = 32;

/// One end of a [`Link`](super::Link).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCard(pub RemoteQueuePair);

impl LinkCard {
    /// As it travels: identifier (16), number (4), first packet (4), local identifier (2), reads
    /// (1), maximum transfer unit (1), zeros.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CARD_LEN] {
        let mut out = [0; CARD_LEN];
        out[..16].copy_from_slice(&self.0.address.gid.0);
        out[16..20].copy_from_slice(&self.0.number.to_le_bytes());
        out[20..24].copy_from_slice(&self.0.first_packet.to_le_bytes());
        out[24..26].copy_from_slice(&self.0.address.lid.to_le_bytes());
        out[26..28].copy_from_slice(&[self.0.reads, self.0.mtu]);
        out
    }

    /// As it came. Any bytes give a card; a wrong one leads nowhere.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; CARD_LEN]) -> Self {
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[..16]);
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self(RemoteQueuePair {
            address: PortAddress {
                gid: Gid(gid),
                lid: u16::from_le_bytes([bytes[24], bytes[25]]),
            },
            number: word(16) & 0xff_ffff,
            first_packet: word(20) & 0xff_ffff,
            reads: bytes[26],
            mtu: bytes[27],
        })
    }
}

/// An area that a peer may write to and read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaCard {
    /// First byte, as the owner's adapter names it.
    pub start: u64,
    /// Key of the area.
    pub key: u32,
    /// Bytes.
    pub len: u32,
}

impl AreaCard {
    /// Of an area of at most 4 GiB. `None` for a longer or an empty one.
    #[must_use]
    pub fn of(area: &dyn AdapterMemory) -> Option<Self> {
        let first = area.slice(0, 1)?;
        Some(Self {
            start: first.start,
            key: area.remote_key(),
            len: u32::try_from(area.len()).ok()?,
        })
    }

    /// As it travels: start (8), key (4), length (4).
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.start.to_le_bytes());
        out[8..12].copy_from_slice(&self.key.to_le_bytes());
        out[12..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    /// As it came. Any bytes give a card; the adapters refuse what a wrong one leads to.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 16]) -> Self {
        let (start, rest) = bytes.split_at(8);
        let (key, len) = rest.split_at(4);
        let word = |part: &[u8]| {
            part.iter()
                .rev()
                .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        Self {
            start: word(start),
            key: word(key) as u32,
            len: word(len) as u32,
        }
    }

    /// The area from byte `at` on.
    #[must_use]
    pub fn at(&self, at: usize) -> RemoteMemory {
        RemoteMemory {
            start: self.start.wrapping_add(at as u64),
            key: self.key,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cards_come_back(bytes in any::<[u8; 32]>(), area in any::<[u8; 16]>()) {
            let card = LinkCard::from_bytes(&bytes);
            prop_assert_eq!(LinkCard::from_bytes(&card.to_bytes()), card);
            prop_assert_eq!(AreaCard::from_bytes(&area).to_bytes(), area);
        }
    }
}
