//! Which node this is.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What tells this boot of this machine from all others.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// What tells its network namespace from others there.
const NETWORK: &str = "/proc/self/ns/net";

/// Why a process does not know on which node it runs.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {source}")]
pub struct UnknownNode {
    /// The file that would say it.
    pub file: &'static str,
    /// Why it does not.
    pub source: io::Error,
}

/// Identifies this boot of this machine and this network namespace (abstract sockets end at its
/// border), so that two processes with the same value can reach each other's sockets.
///
/// # Errors
/// A file of `/proc` does not tell. That is none for good: perhaps no descriptor was free.
pub fn this_node() -> Result<u64, UnknownNode> {
    // 0: not known yet.
    static NODE: AtomicU64 = AtomicU64::new(0);
    match NODE.load(Relaxed) {
        0 => {
            let node = node_of(std::fs::read(BOOT), std::fs::read_link(NETWORK))?;
            NODE.store(node, Relaxed);
            Ok(node)
        }
        node => Ok(node),
    }
}

/// Without the boot's number two machines cannot be told apart: an empty file is an error too, as
/// some containers put one in its place.
fn node_of(boot: io::Result<Vec<u8>>, net: io::Result<PathBuf>) -> Result<u64, UnknownNode> {
    let unknown = |file| move |source| UnknownNode { file, source };
    let boot = boot.map_err(unknown(BOOT))?;
    let net = net.map_err(unknown(NETWORK))?;
    if boot.is_empty() {
        return Err(unknown(BOOT)(rustix::io::Errno::NODATA.into()));
    }
    // FNV-1a: both ends must compute the same value in every build of the library, which the
    // standard library's hasher does not promise.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in boot.iter().chain(net.as_os_str().as_encoded_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_cannot_be_told_from_others_is_an_error() {
        let missing = || io::ErrorKind::NotFound.into();
        let (boot, net) = (|| Ok(vec![b'7'; 36]), || Ok(PathBuf::from("net:[1]")));
        assert!(node_of(boot(), net()).is_ok());
        for (failed, file) in [
            (node_of(Err(missing()), net()), BOOT),
            (node_of(Ok(Vec::new()), net()), BOOT),
            (node_of(boot(), Err(missing())), NETWORK),
        ] {
            let text = failed.unwrap_err().to_string();
            assert!(text.contains(file), "{text}");
        }
    }
}
