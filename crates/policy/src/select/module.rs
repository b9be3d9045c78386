//! How messages go that the kernel module matches.

use crate::Path;

/// Longest message that the module keeps, in bytes: what it has room for.
pub const LONGEST_KEPT: u64 = 4 << 10;

/// Whether the module keeps a message of `len` bytes that finds no receive. It pins the sender's
/// memory of a longer one.
#[inline]
#[must_use]
pub const fn is_kept(len: u64) -> bool {
    len <= LONGEST_KEPT
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
