//! The address of an endpoint: 64 bytes that any bootstrap can carry.

use core::fmt;

use limic_fabric::{PARTS, Parts};
use limic_topology::this_node;

use crate::{Error, Result};

/// Length of an encoded address in bytes. MPIs that use libfabric have room for no more
/// (`FI_NAME_MAX`).
pub const ADDRESS_LEN: usize = 28 + PARTS;

const MAGIC: [u8; 2] = *b"lm";
const VERSION: u8 = 2;

/// Where an endpoint can be found, and the secret that lets one in.
///
/// | bytes  | meaning |
/// |--------|---------|
/// | 0..2   | `lm` |
/// | 2      | version of this format |
/// | 3      | flags, zero |
/// | 4..12  | node: a hash of the kernel's boot id and the network namespace |
/// | 12..20 | id: random, names the endpoint's listening socket |
/// | 20..28 | secret: random; a process of the same user that shows it is let in |
/// | 28..64 | where it is reached over each of its networks ([`Parts`]) |
///
/// A process of the same user that holds an address can exchange messages with the endpoint: hand
/// it to the job's own processes only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) node: u64,
    pub(crate) id: u64,
    pub(crate) secret: u64,
    pub(crate) fabric: Parts,
}

impl Address {
    /// A new random address on this node.
    pub(crate) fn generate() -> Result<Self> {
        Ok(Self {
            node: this_node().map_err(|e| Error::system(e.file, e.source))?,
            id: random()?,
            secret: random()?,
            fabric: Parts::NONE,
        })
    }

    /// A random key of a region: not 0.
    pub(crate) fn generate_key() -> Result<u64> {
        random().map(|key| key.max(1))
    }

    /// Whether the endpoint lives on this node and in this network namespace.
    #[must_use]
    pub fn is_local(&self) -> bool {
        this_node().is_ok_and(|node| node == self.node)
    }

    /// The node and network namespace where the endpoint lives: the same number for all that live
    /// there.
    #[must_use]
    pub fn node(&self) -> u64 {
        self.node
    }

    /// The bytes to hand to a peer.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_LEN] {
        let mut out = [0; ADDRESS_LEN];
        out[0..2].copy_from_slice(&MAGIC);
        out[2] = VERSION;
        out[4..12].copy_from_slice(&self.node.to_le_bytes());
        out[12..20].copy_from_slice(&self.id.to_le_bytes());
        out[20..28].copy_from_slice(&self.secret.to_le_bytes());
        out[28..].copy_from_slice(&self.fabric.0);
        out
    }

    /// Decodes what [`Address::to_bytes`] made. Nothing is contacted.
    ///
    /// # Errors
    /// [`Error::BadAddress`] names the first thing that is wrong: length, magic, version or flags.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = |what: String| Err(Error::BadAddress(what));
        let Ok(bytes) = <&[u8; ADDRESS_LEN]>::try_from(bytes) else {
            return bad(format!(
                "{} bytes given, {ADDRESS_LEN} expected",
                bytes.len()
            ));
        };
        if bytes[0..2] != MAGIC {
            return bad(format!(
                "bytes 0 and 1 are {:#04x} {:#04x}, not the letters 'lm'; was it cut or sent as text?",
                bytes[0], bytes[1]
            ));
        }
        if bytes[2] != VERSION {
            return bad(format!(
                "format version {}, this library speaks {VERSION}; build all ranks with one version of limic",
                bytes[2]
            ));
        }
        if bytes[3] != 0 {
            return bad(format!(
                "flags {:#04x} are not known to this version",
                bytes[3]
            ));
        }
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(w)
        };
        let mut fabric = Parts::NONE;
        fabric.0.copy_from_slice(&bytes[28..]);
        Ok(Self {
            node: word(4),
            id: word(12),
            secret: word(20),
            fabric,
        })
    }
}

/// A number that nobody can guess.
pub(crate) fn random() -> Result<u64> {
    limic_shm::system::random().map_err(|e| Error::System {
        what: "getrandom",
        source: crate::error::Errno(e.raw_os_error().unwrap_or(0)),
    })
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of logs.
        write!(f, "limic:{:016x}@{:016x}", self.id, self.node)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let address = Address::generate().unwrap();
        let bytes = address.to_bytes();
        assert!(bytes.len() <= 64);
        assert_eq!(Address::from_bytes(&bytes).unwrap(), address);
        assert!(address.is_local());
    }

    #[test]
    fn all_that_live_here_are_on_one_node() {
        let [one, other] = [(); 2].map(|()| Address::generate().unwrap());
        assert_eq!(one.node(), other.node());
        let again = Address::from_bytes(&one.to_bytes()).unwrap();
        assert_eq!(again.node(), one.node());
    }

    #[test]
    fn malformed_bytes_are_named() {
        let good = Address::generate().unwrap().to_bytes();
        let text = |bytes: &[u8]| Address::from_bytes(bytes).unwrap_err().to_string();
        assert!(text(&good[..48]).contains("48 bytes given, 64 expected"));
        assert!(text(&[]).contains("0 bytes given"));
        for (at, word) in [(0, "letters"), (2, "version"), (3, "flags")] {
            let mut bytes = good;
            bytes[at] ^= 0x40;
            assert!(text(&bytes).contains(word), "{}", text(&bytes));
        }
    }

    #[test]
    fn the_secret_stays_out_of_text() {
        let address = Address {
            node: 1,
            id: 2,
            secret: 0xdead_beef,
            fabric: Parts::NONE,
        };
        assert!(!format!("{address:?} {address}").contains("beef"));
    }
}
