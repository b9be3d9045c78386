//! How messages go that the kernel module matches.

use limic_copy::Messages;

use crate::Path;

/// Whether the module keeps a message of `len` bytes that finds no receive. It pins the sender's
/// memory of a longer one.
#[inline]
#[must_use]
pub const fn is_kept(len: u64) -> bool {
    len <= Messages::BUFFERED
}

/// The path of a message: of one that may be kept two copies are made, unless the receive is there
/// first; of a longer one it is always one.
#[inline]
#[must_use]
pub const fn path(len: u64) -> Path {
    if is_kept(len) {
        Path::Eager
    } else {
        Path::Kmod
    }
}
